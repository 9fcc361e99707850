//! Timing schedules side by side: the current plan against the default one, or any others.

use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;

use super::code::Maker;
use super::judge;
use super::task::{Task, Workload};
use crate::measure::{Exclusive, Measure, MeasureError, WorkerCommand};
use crate::outcome::{Outcome, Timing};

/// A schedule to time.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// What to call it.
    pub label: String,
    /// The primitives that make it, on the program for that bucket only.
    pub trace: Vec<Instruction>,
}

/// Times schedules of a workload for one of its buckets, verified and side by side, in so many
/// rounds, at given extents or at the largest; what became of each, in order.
///
/// # Errors
///
/// [`MeasureError`] if nothing can be measured at all. The inner error says why there can't be code,
/// or why it is not known what the workload should compute.
pub fn bench(
    (workload, bucket, dims): (&Workload, &[Interval], Option<&[i64]>),
    target: Target,
    contestants: &[Contestant],
    rounds: usize,
    worker: WorkerCommand,
    _exclusive: &Exclusive,
) -> Result<Result<Vec<Outcome>, String>, MeasureError> {
    let maker = match Maker::new(target, None) {
        Ok(maker) => maker,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let task = Task::new((0, workload), bucket, &maker, 1.0);
    let mut measurer = worker.measurer(&target);
    let dims = dims.map_or_else(|| task.dims(), |it| vec![it.to_vec()]);
    let reference = match judge::reference(&task, &dims, 1, &mut measurer)? {
        Ok(reference) => reference,
        Err(why) => return Ok(Err(why)),
    };
    measurer.set_up(&reference.cases, Some(&reference.expected))?;
    let mut outcomes = Vec::new();
    let mut jobs = Vec::new();
    for it in contestants {
        outcomes.push(match task.make(&it.trace) {
            Err(why) => Outcome::Invalid(why),
            Ok(it) => {
                let job = it.job(&reference.cases);
                let outcome = measurer.measure(&job, &maker.policy())?;
                if outcome.timing().is_some() {
                    jobs.push(job);
                }
                outcome
            }
        });
    }
    let jobs: Vec<_> = jobs.iter().collect();
    // Where that fails, what was timed one after the other still stands.
    if let Ok(timings) = measurer.compare(&jobs, rounds, &maker.policy())? {
        replace_timings(&mut outcomes, timings);
    }
    Ok(Ok(outcomes))
}

fn replace_timings(outcomes: &mut [Outcome], timings: Vec<Timing>) {
    let timed = outcomes.iter_mut().filter(|it| it.timing().is_some());
    for (outcome, timing) in timed.zip(timings) {
        *outcome = Outcome::Timed(timing);
    }
}
