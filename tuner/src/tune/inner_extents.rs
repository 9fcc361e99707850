//! Finalists for a range of extents, beside the default schedule at extents inside of the range.
//!
//! Candidates are timed at the largest extents. The default schedule is made for the whole range, while
//! one that wins at its end may be slow elsewhere: its tasks may be so large that threads are idle, its
//! tiles have more rows than there are. So a schedule that is to replace the default one has to be faster
//! over both extents, and not clearly slower inside.

use tvmtune_plan::record::Source;

use super::session::{Candidate, Context, Session};
use crate::measure::{CaseSpec, Job, MeasureError};
use crate::outcome::Timing;

/// Finalists that are timed inside of a range, at most: the best of those ahead of the default schedule.
pub(super) const MAX_CHALLENGERS: usize = 4;
/// The relative gain over the default schedule, as the geometric mean over both extents, at least.
const MIN_MEAN_GAIN: f64 = 0.01;
/// The relative loss against it inside of the range, at most.
const MAX_INNER_LOSS: f64 = 0.03;

/// The latencies of a schedule, in ns.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    largest: f64,
    inner: f64,
}

impl Session {
    /// Drops the finalists ahead of the default schedule that are not faster than it over the range.
    pub(super) fn drop_slow_inside(
        &mut self,
        finalists: &mut Vec<Candidate>,
        rounds: usize,
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let is_default = |it: &Candidate| it.source == Source::Default;
        let (Some(n_ahead), Some(dims)) =
            (finalists.iter().position(is_default), self.task.inner_dims())
        else {
            return Ok(());
        };
        if n_ahead == 0 || !ctx.measurer.runs_code() {
            return Ok(());
        }
        let default = finalists.split_off(n_ahead);
        // Those beyond are slower at the largest extents than all that are timed.
        finalists.truncate(MAX_CHALLENGERS);
        let compared: Vec<&Candidate> = finalists.iter().chain(&default[..1]).collect();
        let untold = |_| (0.0, 0.0);
        let case = CaseSpec::new(&self.task.dag, &dims, seed, &untold).with_cold(&self.task.cold);
        let inner = self.time_on(case, &compared, rounds, ctx)?;
        let latencies = |(it, inner): (&&Candidate, &Timing)| Latencies {
            largest: it.timing.typical_ns(),
            inner: inner.typical_ns(),
        };
        let mut latencies: Vec<Latencies> = compared.iter().zip(&inner).map(latencies).collect();
        if let Some(of_default) = latencies.pop() {
            let mut serves = latencies.iter().map(|it| serves_range(*it, of_default));
            finalists.retain(|_| serves.next().unwrap_or(false));
        }
        finalists.extend(default);
        self.set_up(ctx)
    }

    /// Times candidates side by side on a case; empty if one fails.
    fn time_on(
        &self,
        case: CaseSpec,
        candidates: &[&Candidate],
        rounds: usize,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Timing>, MeasureError> {
        let (task, cases) = (&self.task, [case]);
        let job = |it: &&Candidate| Some(task.build(&it.trace).ok()?.job(&cases));
        let Some(jobs) = candidates.iter().map(job).collect::<Option<Vec<Job>>>() else {
            return Ok(Vec::new());
        };
        *ctx.set_up = None;
        ctx.measurer.set_up(&cases, None)?;
        let jobs: Vec<&Job> = jobs.iter().collect();
        let timings = ctx.measurer.compare(&jobs, rounds, &task.builder.policy())?;
        Ok(timings.unwrap_or_default())
    }
}

/// Tells if a schedule is to replace the default one over a range.
fn serves_range(schedule: Latencies, default: Latencies) -> bool {
    let inner = default.inner / schedule.inner;
    let mean = (inner * default.largest / schedule.largest).sqrt();
    inner >= 1.0 - MAX_INNER_LOSS && mean >= 1.0 + MIN_MEAN_GAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_replaces_the_default_one_where_it_is_faster_over_the_range() {
        let default = Latencies { largest: 100.0, inner: 30.0 };
        let serves = |largest, inner| serves_range(Latencies { largest, inner }, default);
        assert!(serves(95.0, 30.0));
        assert!(serves(95.0, 28.0), "faster at both");
        assert!(!serves(99.5, 60.0), "hardly faster at the end, and threads are idle inside");
        assert!(!serves(80.0, 32.0), "a gain at the end does not make up for a loss inside");
        assert!(!serves(99.5, 30.0), "no more than noise");
        assert!(serves(99.0, 27.0), "the gain is inside");
    }
}
