//! Timings that can't be true, and machines that change their pace.

use std::time::Duration;

use tvmtune_core::dag::{Compute, Dag, Types};
use tvmtune_core::target::CpuTarget;

use super::session::Candidate;
use crate::measure::{Measure, MeasureError, Policy};
use crate::outcome::{Outcome, Timing};

/// Vectors of multiply-adds that no core starts more of in a cycle, and cycles that no core has more
/// of in a ns.
const MOST_VECTORS: f64 = 2.0;
const MOST_GHZ: f64 = 6.5;
/// What padding may save at most: a schedule need not multiply by the zeros around an image.
const PADDING: f64 = 0.5;

/// The time in ns below which a program can't run on a CPU at those extents, whatever the schedule:
/// all its reductions at the highest clock there is.
pub(super) fn limit_ns(dag: &Dag, dims: &[i64], target: &CpuTarget) -> f64 {
    let most = MOST_VECTORS * f64::from(target.isa.lanes()) * MOST_GHZ;
    let points = |it: &Compute| {
        let is_wide = Types::tensor(dag, it.tensor).is_float();
        let extents = it.axes.iter().map(|axis| axis.extent.eval_dims(dims) as f64);
        // Memory sets no limit, as arguments may be in a cache; nor do narrow integers, which come
        // several to a lane.
        if it.reducer.is_some() && is_wide { extents.product() } else { 0.0 }
    };
    let all: f64 = dag.computes.iter().map(points).sum();
    PADDING * all / (most * f64::from(target.threads.max(1)))
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
    /// How often it was found slow in vain.
    n_warnings: usize,
}

/// What a machine may lose without anybody being told.
const SLOW: f64 = 1.25;
/// How often, and after how long, it is asked again.
const RETRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(250);

impl Canary {
    pub(super) fn new(candidate: Candidate) -> Self {
        Self { candidate, n_warnings: 0 }
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

    /// A timing taken while the machine was that much slower, as it would have been before. Small
    /// differences are noise of the canary itself.
    pub(super) fn corrected(outcome: Outcome, slowdown: f64) -> Outcome {
        match outcome {
            Outcome::Timed(timing) if slowdown >= SLOW => Outcome::Timed(timing.scaled(slowdown)),
            other => other,
        }
    }

    fn time(&self, measurer: &mut dyn Measure) -> Result<Option<Timing>, MeasureError> {
        let timings = measurer.compare(&[&self.candidate.job], 3, &Policy::default())?;
        Ok(timings.ok().and_then(|it| it.into_iter().next()))
    }
}
