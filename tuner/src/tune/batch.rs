//! A batch of candidates: built, run while the machine is watched, and reported once it was quiet.
//!
//! The drift baseline is timed before and after. If the machine changed its speed meanwhile, some of the
//! timings are wrong, and nobody knows which: the batch is run again. Nothing is reported before, so that
//! no strategy learns from noise.

use std::collections::BTreeSet;
use std::time::Duration;

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_schedule::Instruction;

use super::code::Code;
use super::drift::is_disturbed;
use super::event::Event;
use super::measurement::Run;
use super::session::{Context, Proposed, Session};
use super::spent::Activity;
use super::stage::Clock;
use crate::executor::Stage;
use crate::measure::MeasureError;
use crate::parallel::{map_ahead, on_threads};
use crate::search::Proposal;

/// The limit of a round that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundClock {
    pub(super) started: Clock,
    pub(super) limit: Duration,
}

/// A proposal with its trace.
pub(super) type Traced = (Vec<Instruction>, Proposal);

/// Code of a proposal, or the reason why there is none, and the wall time of building it.
type Built = (Result<Code, String>, f64);

/// A proposal that was run, or is known from before.
struct Ran<'a> {
    proposal: &'a Traced,
    generate_ms: f64,
    /// The code's identity, if there is code.
    artifact: Option<ArtifactId>,
    /// `None` if the same code was measured before, or is earlier in the batch.
    run: Option<Run>,
}

impl Session {
    /// Builds, runs and reports proposals, as many as the round has time for.
    pub(super) fn measure_batch(
        &mut self,
        proposals: &[Traced],
        round: RoundClock,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let task = self.task.clone();
        let n_threads = ctx.shared.n_threads;
        let build = |(trace, _): &Traced| -> Built {
            let clock = std::time::Instant::now();
            let code = task.build(trace);
            (code, clock.elapsed().as_secs_f64() * 1e3)
        };
        let mut built = match ctx.builds_ahead() {
            true => Vec::new(),
            false => ctx.stage(Stage::Build, |ctx| {
                Ok(ctx.timed(Activity::Generating, |_| on_threads(n_threads, proposals, build)))
            })?,
        }
        .into_iter();
        ctx.stage(Stage::Measure, |ctx| {
            self.set_up(ctx)?;
            let before = self.measure_drift(ctx)?;
            let mut batch = Batch::new(self.best_ns());
            if built.len() == 0 {
                let (building, earlier) = (ctx.clock(), ctx.times.activities());
                map_ahead(n_threads, proposals, build, |proposal, built| {
                    self.run_proposal(proposal, built, &mut batch, ctx)?;
                    Ok::<bool, MeasureError>(!self.is_over(round, ctx))
                })?;
                // The rest of this time went into waiting for builders.
                let others = ctx.times.activities().saturating_sub(earlier);
                let waited = ctx.since(building).saturating_sub(others);
                ctx.times.spend(Activity::Generating, waited);
            } else {
                for (proposal, built) in proposals.iter().zip(&mut built) {
                    self.run_proposal(proposal, built, &mut batch, ctx)?;
                    if self.is_over(round, ctx) {
                        break;
                    }
                }
            }
            self.repeat_if_disturbed(before, &mut batch, ctx)?;
            for ran in batch.ran {
                self.report_proposal(ran, ctx);
            }
            Ok(())
        })
    }

    /// Runs the code of a proposal, unless the same code was run before.
    fn run_proposal<'a>(
        &self,
        proposal: &'a Traced,
        (code, generate_ms): Built,
        batch: &mut Batch<'a>,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let artifact = code.as_ref().ok().map(|it| it.artifact);
        let is_known = artifact
            .is_some_and(|it| self.measured.contains_key(&it) || !batch.artifacts.insert(it));
        let run = match is_known {
            true => None,
            false => Some(self.run(code, batch.best_ns, ctx)?),
        };
        let ns = run.as_ref().and_then(|it| it.outcome.timing()).map(|it| it.min_ns());
        batch.best_ns = batch.best_ns.min(ns.unwrap_or(f64::INFINITY));
        batch.ran.push(Ran { proposal, generate_ms, artifact, run });
        Ok(())
    }

    /// Runs a batch again if the machine slowed down, or sped up, since it began. If it does so once more,
    /// the faster timings count, and the least slowdown: no candidate seems faster than it is.
    fn repeat_if_disturbed(
        &mut self,
        before: f64,
        batch: &mut Batch<'_>,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let after = self.measure_drift(ctx)?;
        if !is_disturbed(before, after) {
            return Ok(());
        }
        self.n_repeated += 1;
        let best_ns = self.best_ns();
        let mut repeated = Vec::new();
        for run in batch.ran.iter().map(|it| it.run.as_ref()) {
            let timed = run.filter(|it| it.outcome.timing().is_some());
            let code = timed.and_then(|it| it.code.clone());
            repeated.push(code.map(|it| self.run_again(it, best_ns, ctx)).transpose()?);
        }
        let last = self.measure_drift(ctx)?;
        let is_disturbed = is_disturbed(after, last);
        if is_disturbed {
            self.slowdown = before.min(after).min(last);
        }
        for (ran, again) in batch.ran.iter_mut().zip(repeated) {
            ran.run = match (ran.run.take(), again) {
                (Some(first), Some(again)) if is_disturbed => Some(first.faster(again)),
                (first, again) => again.or(first),
            };
        }
        Ok(())
    }

    /// Reports a proposal that was run, or what is known of its code.
    fn report_proposal(&mut self, ran: Ran<'_>, ctx: &mut Context<'_>) {
        let Ran { proposal: (trace, proposal), generate_ms, artifact, run } = ran;
        let Proposal { point, source, parent } = proposal.clone();
        if let Some(run) = run {
            let (point, trace) = (Some(point), trace.clone());
            let proposed = Proposed { source, point, parent, trace, generate_ms };
            self.report(&proposed, run, ctx);
        } else if let Some(outcome) = artifact.and_then(|it| self.measured.get(&it)).cloned() {
            self.strategy.observe(&point, &outcome);
            self.add_origin(&point, source, parent, &outcome);
        }
    }

    /// Times the drift baseline; returns the slowdown of the machine since the task began.
    fn measure_drift(&mut self, ctx: &mut Context<'_>) -> Result<f64, MeasureError> {
        let Some(drift) = &mut self.drift else { return Ok(1.0) };
        self.slowdown =
            ctx.timed(Activity::Measuring, |ctx| drift.slowdown(ctx.measurer))?.unwrap_or(1.0);
        if let Some(what) = drift.warning(self.slowdown) {
            (ctx.on_event)(Event::Warning { what: format!("{}: {what}", self.task.name) });
        }
        Ok(self.slowdown)
    }
}

/// Proposals that were run.
struct Batch<'a> {
    ran: Vec<Ran<'a>>,
    artifacts: BTreeSet<ArtifactId>,
    /// The latency to beat.
    best_ns: f64,
}

impl Batch<'_> {
    fn new(best_ns: f64) -> Self {
        Self { ran: Vec::new(), artifacts: BTreeSet::new(), best_ns }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tvmtune_ir::dsl;
    use tvmtune_ir::target::{CpuTarget, Isa};
    use tvmtune_plan::database::Database;
    use tvmtune_plan::record::{Provenance, Source};

    use super::super::code::Builder;
    use super::super::open::Limits;
    use super::super::options::{Hardware, Options, Reuse};
    use super::super::shared::Shared;
    use super::super::spent::TimeSpent;
    use super::super::task::{Task, Tolerance, Workload};
    use super::super::{Budget, Recipe, Trial};
    use super::*;
    use crate::allocation::Scheduler;
    use crate::executor::{Capacity, Executor, Sequential};
    use crate::measure::{CaseSpec, Job, Measure, Policy, Replay};
    use crate::outcome::{Outcome, Timing};
    use crate::random::Random;

    /// The latency of everything on the idle machine.
    const NS: f64 = 1e5;

    /// A machine that is slow for some of its launches, counted from the start.
    struct Machine {
        n_launches: usize,
        /// From a launch on, before another one.
        slow: Vec<(usize, usize)>,
    }

    impl Machine {
        fn launch(&mut self) -> Timing {
            let is_slow = self.slow.iter().any(|it| (it.0..it.1).contains(&self.n_launches));
            let slowdown = if is_slow { 2.0 } else { 1.0 };
            self.n_launches += 1;
            Timing::new(vec![NS * slowdown]).unwrap()
        }
    }

    impl Measure for Machine {
        fn runs_code(&self) -> bool {
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
            Ok(Outcome::Timed(self.launch()))
        }
        fn compare(
            &mut self,
            jobs: &[&Job],
            _: usize,
            _: &Policy,
        ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError> {
            Ok(Ok(jobs.iter().map(|_| self.launch()).collect()))
        }
    }

    /// The logged latencies of a batch of ten on a machine that is slow for some launches, and the number
    /// of repetitions. The first launch is that of the default schedule, the second that of the baseline.
    fn batch(slow: &[(usize, usize)]) -> (Vec<f64>, u64) {
        let dag = dsl::program(
            "fn product(a: Tensor<f32, 64, 64>, b: Tensor<f32, 64, 64>) -> Tensor<f32, 64, 64> {
                compute(|i, j| sum(0..64, |k| a[[i, k]] * b[[k, j]]))
            }",
        );
        let tolerance = Tolerance { rel: 1e-4, abs: 1e-4 };
        let workload = Workload::new(dag.unwrap(), vec![Vec::new()], tolerance);
        let target = CpuTarget::generic(Isa::Avx2).into();
        let task = Task::new(&workload, &[], &Builder::new(target, None).unwrap());
        let hour = Duration::from_secs(3600);
        let budget = Budget { trials: 1000, per_task: hour, total: hour };
        let options = Options {
            device: target,
            targets: vec![target],
            nvrtc: None,
            budget,
            reuse: Reuse::Ignore,
            seed: 1,
            hardware: Hardware::Log(Replay::default()),
            n_threads: 1,
            recipe: Recipe::default(),
            scheduler: Scheduler::default(),
            provenance: Provenance::default(),
        };
        let database = Database::new(Vec::new(), None);
        let capacity = Capacity { cores: 2, memory: 0 };
        let job = Executor::new(Box::new(Sequential), capacity, None).job(0);
        let mut logged = Vec::new();
        let mut machine = Machine { n_launches: 0, slow: slow.to_vec() };
        let mut ctx = Context {
            workload: &workload,
            measurer: &mut machine,
            set_up: &mut None,
            job: &job,
            device: target,
            deadline: None,
            is_final: false,
            shared: &mut Shared::load(&options, &database),
            log: &mut |it: &Trial| logged.extend(it.outcome.timing().map(Timing::min_ns)),
            on_event: &mut |_| (),
            times: TimeSpent::default(),
        };
        let limits = Limits { budget, judging: hour };
        let mut session =
            Session::open(task, Recipe::default(), 1, limits, &mut ctx).unwrap().unwrap();
        let mut random = Random::new(1);
        let mut proposal = || {
            let point = session.space.random(&mut random);
            (session.space.instructions(&point), Proposal::new(Source::Evolved, point))
        };
        let proposals: Vec<Traced> = (0..10).map(|_| proposal()).collect();
        let round = RoundClock { started: ctx.clock(), limit: hour };
        session.measure_batch(&proposals, round, &mut ctx).unwrap();
        let n_repeated = session.n_repeated;
        (logged.split_off(1), n_repeated)
    }

    #[test]
    fn a_batch_is_run_again_if_the_machine_changed_its_speed() {
        let (quiet, n_repeated) = batch(&[]);
        assert!(quiet.len() > 3 && quiet.iter().all(|it| *it == NS), "{quiet:?}");
        assert_eq!(n_repeated, 0);
        let n = quiet.len();
        // Slow from the third candidate up to the second timing of the baseline, and quiet again.
        assert_eq!(batch(&[(4, n + 3)]), (quiet.clone(), 1));
        // Slow from then on: the second run is as slow all the time, which the baseline tells.
        assert_eq!(batch(&[(4, 1000)]), (quiet.clone(), 1));
        // Slow at first, which the baseline tells: what came later must not seem twice as fast.
        assert_eq!(batch(&[(1, 4)]), (quiet.clone(), 1));
        // Disturbed in both runs: no timing is below that of the idle machine.
        for slow in [vec![(4, n + 5)], vec![(1, 4), (n + 6, 1000)]] {
            let (restless, n_repeated) = batch(&slow);
            assert!(n_repeated == 1 && restless.iter().all(|it| *it >= NS), "{restless:?}");
            assert_eq!(restless.len(), n, "each is reported once");
        }
    }
}
