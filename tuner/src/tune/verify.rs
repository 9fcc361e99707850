//! Verification of recorded schedules against the definition of their program.

use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;

use super::code::Builder;
use super::oracle;
use super::task::{Bucket, Task};
use crate::measure::{CaseSpec, Measure, MeasureError};

/// The seed of arguments: another one than for tuning.
const SEED: u64 = 0x7e57;

/// Runs the code of a trace for one bucket of a workload at its largest, smallest and non-divisible
/// extents; returns the number of these. The inner error says what is wrong with it.
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
    let case = |dims: &Vec<i64>| CaseSpec::new(&task.dag, dims, SEED, &|_| (0.0, 0.0));
    let cases: Vec<CaseSpec> = task.dims().iter().map(case).collect();
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
    Ok(Ok(cases.len()))
}
