//! Schedules of a workload outside of a session: timed side by side, or verified against the
//! definition of their program.

use std::time::Duration;

use tvmtune_ir::dag::Numerics;
use tvmtune_ir::target::Target;
use tvmtune_plan::record::Accuracy;
use tvmtune_schedule::Instruction;

use super::code::Builder;
use super::oracle::{self, Judging, Oracle, Reference};
use super::task::{Bucket, Task};
use crate::executor::MachineLock;
use crate::measure::{CaseSpec, Job, Measure, MeasureError, WorkerCommand};
use crate::outcome::{Outcome, Timing};

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

/// The time limit of computing the expected results.
const JUDGING_LIMIT: Duration = Duration::from_secs(60);

/// Verifies schedules of a workload for one of its buckets, given by their traces on the program
/// specialized to it, and times them side by side; returns the outcome of each, in order.
///
/// # Errors
///
/// [`MeasureError`] if nothing can be measured at all. The inner error says why there is no
/// code, or why the expected results can't be computed.
pub fn bench(
    bench: &Bench<'_>,
    traces: &[Vec<Instruction>],
    worker: WorkerCommand,
    _lock: &MachineLock,
) -> Result<Result<Vec<Outcome>, String>, MeasureError> {
    let Bench { bucket, dims, target, rounds } = *bench;
    let builder = match Builder::new(target, None) {
        Ok(builder) => builder,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let task = Task::new(bucket.workload, bucket.ranges, &builder);
    let mut measurer = worker.measurer(&target);
    let dims = dims.map_or_else(|| task.dims(), |it| vec![it.to_vec()]);
    let judging = Judging { seed: 1, limit: JUDGING_LIMIT };
    let mut oracle = Oracle::new();
    let reference = match oracle.reference(&task, &dims, judging, &mut measurer)? {
        Ok(reference) => reference,
        Err(why) => return Ok(Err(why)),
    };
    let (mut outcomes, mut jobs) = measured(&task, &builder, traces, &reference, &mut measurer)?;
    // Schedules are verified again, with a larger tolerance for ill-conditioned elements.
    if outcomes.iter().any(|it| matches!(it, Outcome::Wrong(_)))
        && let Some(reference) = oracle.with_ill_conditioned(&task, &reference, JUDGING_LIMIT)
    {
        (outcomes, jobs) = measured(&task, &builder, traces, &reference, &mut measurer)?;
    }
    let jobs: Vec<_> = jobs.iter().collect();
    // If the comparison fails, the separate timings remain.
    if let Ok(timings) = measurer.compare(&jobs, rounds, &builder.policy())? {
        replace_timings(&mut outcomes, timings);
    }
    Ok(Ok(outcomes))
}

/// Verifies and times schedules one by one; returns the outcome of each, and the jobs of those that have a time.
fn measured(
    task: &Task,
    builder: &Builder,
    traces: &[Vec<Instruction>],
    reference: &Reference,
    measurer: &mut dyn Measure,
) -> Result<(Vec<Outcome>, Vec<Job>), MeasureError> {
    measurer.set_up(&reference.cases, Some(&reference.expected()))?;
    let (mut outcomes, mut jobs) = (Vec::new(), Vec::new());
    for trace in traces {
        outcomes.push(match task.build(trace) {
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
    Ok((outcomes, jobs))
}

/// Replaces the timings of outcomes that have one.
fn replace_timings(outcomes: &mut [Outcome], timings: Vec<Timing>) {
    let timed = outcomes.iter_mut().filter(|it| it.timing().is_some());
    for (outcome, timing) in timed.zip(timings) {
        *outcome = Outcome::Timed(timing);
    }
}

/// Measures the errors of the code of a trace, at the largest extents of a bucket; `None` if exact results are
/// not known, or the code fails. The inner error says why there is no code.
///
/// # Errors
///
/// [`MeasureError`] if nothing can be run at all.
pub fn accuracy(
    bucket: Bucket<'_>,
    target: Target,
    trace: &[Instruction],
    measurer: &mut dyn Measure,
) -> Result<Result<Option<Accuracy>, String>, MeasureError> {
    let builder = match Builder::new(target, None) {
        Ok(builder) => builder,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let task = Task::new(bucket.workload, bucket.ranges, &builder);
    let code = match task.build(trace) {
        Ok(code) => code,
        Err(why) => return Ok(Err(why)),
    };
    let job = code.job(&[super::accuracy::case(&task)]);
    let mut found = super::accuracy::errors(&task, &[&job], Duration::MAX, measurer)?;
    Ok(Ok(found.swap_remove(0)))
}

/// The seed of arguments to verify on: another one than for tuning.
const VERIFY_SEED: u64 = 0x7e57;

/// Runs the code of a trace for one bucket of a workload at its largest, smallest and non-divisible
/// extents, and on hostile numbers as well if numerics are fixed; returns the number of these extents. The
/// inner error says what is wrong with it.
///
/// # Errors
///
/// [`MeasureError`] if nothing can be run at all.
pub fn verify(
    bucket: Bucket<'_>,
    target: Target,
    trace: &[Instruction],
    measurer: &mut dyn Measure,
) -> Result<Result<usize, String>, MeasureError> {
    let builder = match Builder::new(target, None) {
        Ok(builder) => builder,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let task = Task::new(bucket.workload, bucket.ranges, &builder);
    let code = match task.build(trace) {
        Ok(code) => code,
        Err(why) => return Ok(Err(why)),
    };
    let case = |dims: &Vec<i64>| CaseSpec::new(&task.dag, dims, VERIFY_SEED, &|_| (0.0, 0.0));
    let mut cases: Vec<CaseSpec> = task.dims().iter().map(case).collect();
    if task.dag.numerics == Numerics::Fixed {
        let hostile: Vec<CaseSpec> =
            cases.iter().map(|it| it.clone().with_hostile_numbers()).collect();
        cases.extend(hostile);
    }
    let job = code.job(&cases);
    measurer.set_up(&cases, None)?;
    for (n, case) in cases.iter().enumerate() {
        let located = |error: &str| format!("at {:?}: {error}", case.dims());
        let bytes = match measurer.evaluate(&job, n)? {
            Ok(bytes) => bytes,
            Err(outcome) => return Ok(Err(located(&outcome.to_string()))),
        };
        let difference = match case.results(&bytes) {
            Some(results) => oracle::first_mismatch(&task, case, &results),
            None => Some("results of another size".to_owned()),
        };
        if let Some(difference) = difference {
            return Ok(Err(located(&difference)));
        }
    }
    Ok(Ok(task.dims().len()))
}
