//! Whether known schedules still compute what their program says, run beside the interpreter.

use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;

use super::code::Maker;
use super::judge;
use super::task::{Task, Workload};
use crate::measure::{CaseSpec, Measure, MeasureError};

/// Where arguments are drawn from: not where tuning draws them.
const SEED: u64 = 0x7e57;

/// Runs the code of a trace for one bucket of a workload at its largest and smallest extents and at
/// awkward ones; the number of these. The inner error says what is wrong with it.
///
/// # Errors
///
/// [`MeasureError`] if nothing can be run at all.
pub fn verify(
    (workload, bucket): (&Workload, &[Interval]),
    target: Target,
    trace: &[Instruction],
    measurer: &mut dyn Measure,
) -> Result<Result<usize, String>, MeasureError> {
    let maker = match Maker::new(target, None) {
        Ok(maker) => maker,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let task = Task::new((0, workload), bucket, &maker, 1.0);
    let code = match task.make(trace) {
        Ok(code) => code,
        Err(why) => return Ok(Err(why)),
    };
    let case = |dims: &Vec<i64>| CaseSpec::new(&task.dag, dims, SEED, &|_| (0.0, 0.0));
    let cases: Vec<CaseSpec> = task.dims().iter().map(case).collect();
    let job = code.job(&cases);
    measurer.set_up(&cases, None)?;
    for (n, case) in cases.iter().enumerate() {
        let at = |what: &str| format!("at {:?}: {what}", case.dims());
        let bytes = match measurer.evaluate(&job, n)? {
            Ok(bytes) => bytes,
            Err(outcome) => return Ok(Err(at(&outcome.to_string()))),
        };
        let difference = match case.results(&bytes) {
            Some(results) => judge::difference(&task, case, &results),
            None => Some("results of another size".to_owned()),
        };
        if let Some(difference) = difference {
            return Ok(Err(at(&difference)));
        }
    }
    Ok(Ok(cases.len()))
}
