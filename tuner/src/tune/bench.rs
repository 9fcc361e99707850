//! Times schedules of a workload side by side.

use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;

use super::code::Builder;
use super::oracle;
use super::task::{Bucket, Task};
use crate::measure::{Exclusive, Measure, MeasureError, WorkerCommand};
use crate::outcome::{Outcome, Timing};

/// A schedule to time.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// Its name.
    pub label: String,
    /// Its trace, on the program specialized to the bucket.
    pub trace: Vec<Instruction>,
}

/// The parameters of a comparison side by side.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a> {
    /// The bucket that the schedules are for.
    pub bucket: Bucket<'a>,
    /// The extents to time at; `None` for the largest of the bucket.
    pub dims: Option<&'a [i64]>,
    /// The device.
    pub target: Target,
    /// Timings of each schedule.
    pub rounds: usize,
}

/// Verifies schedules of a workload for one of its buckets and times them side by side in `rounds`
/// rounds, at given extents or at the largest; returns the outcome of each, in order.
///
/// # Errors
///
/// [`MeasureError`] if nothing can be measured at all. The inner error says why there is no
/// code, or why the expected results can't be computed.
pub fn bench(
    bench: &Bench<'_>,
    contestants: &[Contestant],
    worker: WorkerCommand,
    _exclusive: &Exclusive,
) -> Result<Result<Vec<Outcome>, String>, MeasureError> {
    let Bench { bucket, dims, target, rounds } = *bench;
    let builder = match Builder::new(target, None) {
        Ok(builder) => builder,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let task = Task::new(bucket.workload, bucket.ranges, &builder);
    let mut measurer = worker.measurer(&target);
    let dims = dims.map_or_else(|| task.dims(), |it| vec![it.to_vec()]);
    let reference = match oracle::reference(&task, &dims, 1, &mut measurer)? {
        Ok(reference) => reference,
        Err(why) => return Ok(Err(why)),
    };
    measurer.set_up(&reference.cases, Some(&reference.expected))?;
    let mut outcomes = Vec::new();
    let mut jobs = Vec::new();
    for it in contestants {
        outcomes.push(match task.build(&it.trace) {
            Err(why) => Outcome::Invalid(why),
            Ok(it) => {
                let job = it.job(&reference.cases);
                let outcome = measurer.measure(&job, &builder.policy())?;
                if outcome.timing().is_some() {
                    jobs.push(job);
                }
                outcome
            }
        });
    }
    let jobs: Vec<_> = jobs.iter().collect();
    // If the comparison fails, the separate timings remain.
    if let Ok(timings) = measurer.compare(&jobs, rounds, &builder.policy())? {
        replace_timings(&mut outcomes, timings);
    }
    Ok(Ok(outcomes))
}

/// Replaces the timings of outcomes that have one.
fn replace_timings(outcomes: &mut [Outcome], timings: Vec<Timing>) {
    let timed = outcomes.iter_mut().filter(|it| it.timing().is_some());
    for (outcome, timing) in timed.zip(timings) {
        *outcome = Outcome::Timed(timing);
    }
}
