//! Timings that can't be true, and machines that change their pace.

use std::time::Duration;

use tvmtune_ir::dag::{Compute, Dag, Types};
use tvmtune_ir::target::{CpuTarget, GpuTarget, Target};

use super::session::Candidate;
use crate::cost::work::least_points;
use crate::measure::{Measure, MeasureError, Policy};
use crate::outcome::{Outcome, Timing};

/// Vectors of multiply-adds that no core starts more of in a cycle, and cycles that no core has more
/// of in a ns.
const MOST_VECTORS: f64 = 2.0;
const MOST_GHZ: f64 = 6.5;
/// The same of GPUs.
const MOST_GPU_GHZ: f64 = 3.5;
/// What padding may save at most: a schedule need not multiply by the zeros around an image.
const PADDING: f64 = 0.5;

/// The time in ns below which a program can't run at those extents, whatever the schedule: all its
/// reductions at the highest clock there is.
pub(super) fn limit_ns(dag: &Dag, dims: &[i64], target: &Target) -> f64 {
    let per_ns = match target {
        Target::Cpu(cpu) => most_of_cpu(cpu),
        Target::Gpu(gpu) => most_of_gpu(gpu),
    };
    let points = |it: &Compute| {
        let is_wide = Types::tensor(dag, it.tensor).is_float();
        // Memory sets no limit, as arguments may be in a cache; nor do narrow integers, which come
        // several to a lane.
        if it.reducer.is_some() && is_wide { least_points(dag, it, dims) } else { 0.0 }
    };
    let all: f64 = dag.computes.iter().map(points).sum();
    PADDING * all / per_ns
}

/// Multiply-adds that a CPU can't do more of in a ns.
fn most_of_cpu(cpu: &CpuTarget) -> f64 {
    MOST_VECTORS * f64::from(cpu.isa.lanes()) * MOST_GHZ * f64::from(cpu.threads.max(1))
}

/// Multiply-adds that a GPU can't do more of in a ns, by whatever does most of them.
fn most_of_gpu(gpu: &GpuTarget) -> f64 {
    let limits = gpu.arch.limits();
    let in_a_cycle = f64::from(limits.tensor_fma.max(limits.fma));
    in_a_cycle * f64::from(gpu.multiprocessors) * MOST_GPU_GHZ
}

/// The outcome, unless it is a timing below the limit: then something was not computed.
pub(super) fn believable(outcome: Outcome, limit_ns: f64) -> Outcome {
    match outcome.timing() {
        Some(timing) if timing.min_ns() < limit_ns => Outcome::Wrong(format!(
            "it took {:.0} ns, less than the {limit_ns:.0} ns that this machine needs at least",
            timing.min_ns(),
        )),
        _ => outcome,
    }
}

/// A candidate that is timed again and again, to see whether the machine is as fast as it was.
#[derive(Clone, Debug)]
pub(super) struct Canary {
    candidate: Candidate,
    policy: Policy,
    /// How often it was found slow in vain.
    n_warnings: usize,
}

/// What a machine may lose, or gain, without anybody being told. Virtual cores that share one of
/// the host, and clocks that heat brings down, do so for seconds at a time.
const SLOW: f64 = 1.25;
/// What is shorter tells how long threads take to wake up.
const SHORTEST_NS: f64 = 20_000.0;
/// Samples of it; the fastest counts.
const SAMPLES: usize = 5;
/// How often, and after how long, it is asked again.
const RETRIES: usize = 1;
const PAUSE: Duration = Duration::from_millis(100);

impl Canary {
    /// Watches the machine by a candidate that works; `None` if it is too short to tell anything but
    /// how long threads take to wake up.
    pub(super) fn new(candidate: Candidate, policy: Policy) -> Option<Self> {
        let is_long = candidate.timing.min_ns() >= SHORTEST_NS;
        is_long.then_some(Self { candidate, policy, n_warnings: 0 })
    }

    /// How many times as long it takes now as it did at first; waits for a while if that is much
    /// more. `None` if it no longer runs.
    pub(super) fn slowdown(
        &mut self,
        measurer: &mut dyn Measure,
    ) -> Result<Option<f64>, MeasureError> {
        for retry in 0..=RETRIES {
            let Some(now) = self.time(measurer)? else { return Ok(None) };
            let ratio = now.min_ns() / self.candidate.timing.min_ns();
            if ratio < SLOW || retry == RETRIES || !measurer.runs_code() {
                return Ok(Some(ratio));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// What to say of a slowdown, once.
    pub(super) fn warning(&mut self, slowdown: f64) -> Option<String> {
        if slowdown < SLOW || self.n_warnings > 0 {
            return None;
        }
        self.n_warnings += 1;
        Some(format!(
            "this machine takes {slowdown:.1} times as long as when tuning began; \
             timings of now are scaled, and the best are compared again at the end",
        ))
    }

    /// A timing taken while the machine was that much slower, as it would have been before; or
    /// faster, where it was slow when tuning began. Small differences are noise of the canary itself.
    pub(super) fn corrected(outcome: Outcome, slowdown: f64) -> Outcome {
        let is_same = (1.0 / SLOW..SLOW).contains(&slowdown);
        match outcome {
            Outcome::Timed(timing) if !is_same => Outcome::Timed(timing.scaled(slowdown)),
            other => other,
        }
    }

    fn time(&self, measurer: &mut dyn Measure) -> Result<Option<Timing>, MeasureError> {
        let timings = measurer.compare(&[&self.candidate.job], SAMPLES, &self.policy)?;
        Ok(timings.ok().and_then(|it| it.into_iter().next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{CaseSpec, Job};
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::Isa;
    use tvmtune_ir::target::gpu::Arch;
    use tvmtune_plan::record::Source;

    fn timing(ns: f64) -> Timing {
        Timing::new(vec![ns]).unwrap()
    }

    /// Answers every comparison with the next of some latencies.
    struct Played(Vec<f64>);

    impl Measure for Played {
        fn runs_code(&self) -> bool {
            // So that nobody waits.
            false
        }
        fn set_up(&mut self, _: &[CaseSpec], _: Option<&[u8]>) -> Result<(), MeasureError> {
            Ok(())
        }
        fn evaluate(
            &mut self,
            _: &Job,
            _: usize,
        ) -> Result<Result<Vec<u8>, Outcome>, MeasureError> {
            Ok(Err(Outcome::TimedOut))
        }
        fn measure(&mut self, _: &Job, _: &Policy) -> Result<Outcome, MeasureError> {
            Ok(Outcome::TimedOut)
        }
        fn compare(
            &mut self,
            jobs: &[&Job],
            _: usize,
            _: &Policy,
        ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError> {
            assert_eq!(jobs.len(), 1);
            Ok(self.0.pop().map(|ns| vec![timing(ns)]).ok_or(Outcome::TimedOut))
        }
    }

    #[test]
    fn a_machine_that_slows_down_is_noticed_once_and_accounted_for() {
        let candidate = Candidate {
            point: None,
            trace: Vec::new(),
            artifact: String::new(),
            source: Source::Default,
            threads: 1,
            job: Job::default(),
            timing: timing(100e3),
        };
        let watch = |candidate| Canary::new(candidate, Policy::default());
        let mut canary = watch(candidate.clone()).unwrap();
        let mut machine = Played(vec![300e3, 200e3, 104e3]);
        let mut slowdown = || canary.slowdown(&mut machine).unwrap();
        let seen = [slowdown(), slowdown(), slowdown(), slowdown()];
        assert_eq!(seen, [Some(1.04), Some(2.0), Some(3.0), None]);
        assert!(watch(Candidate { timing: timing(5e3), ..candidate }).is_none());
        assert!(canary.warning(1.04).is_none());
        assert!(canary.warning(2.0).is_some_and(|it| it.contains("2.0 times")));
        assert!(canary.warning(3.0).is_none(), "once is enough");
        let corrected = |slowdown| Canary::corrected(Outcome::Timed(timing(100.0)), slowdown);
        assert_eq!(corrected(2.0), Outcome::Timed(timing(50.0)));
        assert_eq!(corrected(0.5), Outcome::Timed(timing(200.0)));
        assert_eq!(corrected(1.04), Outcome::Timed(timing(100.0)));
        assert_eq!(corrected(0.96), Outcome::Timed(timing(100.0)));
    }

    #[test]
    fn what_is_faster_than_the_machine_is_wrong() {
        let source =
            "fn mm(a: Tensor<f32, 64, 64>, b: Tensor<f32, 64, 64>) -> Tensor<f32, 64, 64> {
            compute(|i, j| sum(0..64, |k| a[[i, k]] * b[[k, j]]))
        }";
        let dag = dsl::program(source).unwrap();
        let target = CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx512) };
        let limit = limit_ns(&dag, &[], &target.into());
        // Half of 262,144 multiply-adds by two threads, 2 x 16 in a cycle, 6.5 cycles in a ns.
        assert!((limit - 131_072.0 / (2.0 * 32.0 * 6.5)).abs() < 1e-6, "{limit}");
        let gpu = GpuTarget::generic(Arch { sm: 90, exact: true });
        let on_gpu = limit_ns(&dag, &[], &gpu.into());
        assert!((on_gpu - 131_072.0 / (132.0 * 2048.0 * 3.5)).abs() < 1e-6, "{on_gpu}");
        let judged = believable(Outcome::Timed(timing(limit * 0.9)), limit);
        assert!(matches!(judged, Outcome::Wrong(why) if why.contains("at least")));
        assert!(believable(Outcome::Timed(timing(limit * 1.1)), limit).timing().is_some());
        assert_eq!(believable(Outcome::TimedOut, limit), Outcome::TimedOut);
    }
}
