//! What the candidates of a task must compute.
//!
//! A small program is evaluated by definition, in full. For a large one that would take minutes,
//! so a *trusted kernel* computes the reference: the program without a schedule, one plain loop in
//! the other, with no tiles, tails, tasks, packed weights or fused stages to get wrong. It is
//! trusted after a few thousand of its elements, the ends of rows among them, agreed with the
//! definition. Every candidate is then compared with it in all elements, so that an error in an
//! element that was not sampled would show as a disagreement with every other schedule: a task
//! whose default schedule disagrees is given up, and nothing is recorded.
//!
//! A program so large that even the plain loops would take long is judged by its default schedule
//! in the same way. What runs on a GPU is judged by plain loops on the CPU, where there is code for
//! that one.

use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::default;

use super::code::Maker;
use super::sample::{self, SMALL, allowed, n_operations};
use super::task::Task;
use crate::measure::{CaseSpec, Job, Measure, MeasureError};

/// Operations up to which plain loops are the reference.
const MEDIUM: f64 = 5e9;

/// Arguments, and the results they lead to.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    /// The first is where candidates are timed.
    pub(super) cases: Vec<CaseSpec>,
    /// The results of all cases, one after the other.
    pub(super) expected: Vec<u8>,
}

/// Finds out what the candidates of a task must compute, from arguments drawn from a seed; the
/// inner error says why that cannot be known.
pub(super) fn reference(
    task: &Task,
    dims: &[Vec<i64>],
    seed: u64,
    measurer: &mut dyn Measure,
) -> Result<Result<Reference, String>, MeasureError> {
    let dag = &task.dag;
    let exact = |_| (0.0, 0.0);
    if !measurer.runs_code() {
        // What a log says was judged when it was written.
        let case = CaseSpec::new(dag, &dims[0], seed, &exact);
        return Ok(Ok(Reference { cases: vec![case], expected: Vec::new() }));
    }
    let cases: Vec<_> = dims.iter().map(|it| CaseSpec::new(dag, it, seed, &exact)).collect();
    let mut expected = Vec::new();
    for (n, case) in cases.iter().enumerate() {
        let results = if n_operations(dag, case.dims()) <= SMALL {
            tvmtune_ir::interp::run(dag, case.dims(), &case.params(), &case.scalars())
        } else {
            match trusted(task, &cases, n, measurer)? {
                Ok(results) => results,
                Err(why) => return Ok(Err(why)),
            }
        };
        expected.push(results);
    }
    let cases = cases.iter().zip(&expected).map(|(case, results)| {
        let allowed = |id| {
            let output = dag.outputs.iter().position(|it| *it == id).unwrap_or(0);
            allowed(task.tolerance, &results[output])
        };
        CaseSpec::new(dag, case.dims(), seed, &allowed)
    });
    let cases = cases.collect();
    let expected = expected.iter().flatten().flat_map(Array::bytes).collect();
    Ok(Ok(Reference { cases, expected }))
}

/// Whether a candidate computes what it should from arguments drawn from another seed, at the
/// extents where it is timed: in full if that is quick to know, else in a sample of elements.
pub(super) fn is_right(
    task: &Task,
    job: &Job,
    seed: u64,
    measurer: &mut dyn Measure,
) -> Result<bool, MeasureError> {
    if !measurer.runs_code() {
        return Ok(true);
    }
    let case = CaseSpec::new(&task.dag, &task.dims()[0], seed, &|_| (0.0, 0.0));
    measurer.set_up(std::slice::from_ref(&case), None)?;
    let results = measurer.evaluate(job, 0)?.ok().and_then(|it| case.results(&it));
    let Some(results) = results else { return Ok(false) };
    Ok(difference(task, &case, &results).is_none())
}

/// Where the results of a case differ from what is right; `None` if nowhere.
pub(super) fn difference(task: &Task, case: &CaseSpec, results: &[Array]) -> Option<String> {
    let (params, scalars) = (case.params(), case.scalars());
    sample::difference(&task.dag, case.dims(), (&params, &scalars), results, task.tolerance)
}

/// The results of a kernel that was found to agree with the definition.
fn trusted(
    task: &Task,
    cases: &[CaseSpec],
    n: usize,
    measurer: &mut dyn Measure,
) -> Result<Result<Vec<Array>, String>, MeasureError> {
    let case = &cases[n];
    let mut why = String::new();
    for (maker, trace) in trustworthy(task, case) {
        let code = match maker.make(&task.dag, &trace) {
            Ok(code) => code,
            Err(refusal) => {
                why = refusal;
                continue;
            }
        };
        measurer.set_up(cases, None)?;
        let results = match measurer.evaluate(&code.job(cases), n)? {
            Ok(bytes) => case.results(&bytes),
            Err(failure) => {
                why = format!("the trusted kernel {failure}");
                continue;
            }
        };
        let Some(results) = results else { continue };
        match sampled(task, case, &results) {
            None => return Ok(Ok(results)),
            Some(mismatch) => why = format!("the trusted kernel is wrong: {mismatch}"),
        }
    }
    Ok(Err(why))
}

/// The schedules to trust once they agree with the definition, the plainest first, and what makes
/// their code.
fn trustworthy(task: &Task, case: &CaseSpec) -> Vec<(Maker, Vec<Instruction>)> {
    let host = match task.target() {
        Target::Cpu(_) => Some(task.maker.clone()),
        Target::Gpu(_) => tvmtune_plan::device::detect().map(Maker::Cpu),
    };
    let plain = host.map(|it| (it, Schedule::new(&task.dag).trace));
    let medium = n_operations(&task.dag, case.dims()) <= MEDIUM;
    let default = default::schedule(&task.dag, &task.target()).trace;
    plain.into_iter().filter(|_| medium).chain([(task.maker.clone(), default)]).collect()
}

/// Where results differ from the definition among some elements; `None` if nowhere.
fn sampled(task: &Task, case: &CaseSpec, results: &[Array]) -> Option<String> {
    let (params, scalars) = (case.params(), case.scalars());
    sample::sampled(&task.dag, case.dims(), (&params, &scalars), results, task.tolerance)
}

#[cfg(test)]
mod tests {
    use super::super::task::{Tolerance, Workload};
    use super::*;
    use tvmtune_ir::dag::Number;
    use tvmtune_ir::poly::Interval;
    use tvmtune_ir::target::{CpuTarget, Isa};
    use tvmtune_schedule::arbitrary::{Family, dag};

    /// A task of some program, and a case of it.
    fn task() -> (Task, CaseSpec) {
        let (dag, _) = dag(Family::ALL[0], &[5; 24]);
        let bucket: Vec<Interval> = dag.dims.iter().map(|it| it.range).collect();
        let tolerance = Tolerance { rel: 1e-4, abs: 1e-4 };
        let workload = Workload::new(dag, vec![bucket.clone()], tolerance);
        let maker = Maker::Cpu(CpuTarget::generic(Isa::Avx2));
        let task = Task::new((0, &workload), &bucket, &maker, 1.0);
        let case = CaseSpec::new(&task.dag, &task.dims()[0], 1, &|_| (0.0, 0.0));
        (task, case)
    }

    #[test]
    fn a_sample_of_elements_tells_right_results_from_wrong_ones() {
        let (task, case) = task();
        let right =
            tvmtune_ir::interp::run(&task.dag, case.dims(), &case.params(), &case.scalars());
        assert_eq!(sampled(&task, &case, &right), None);
        let last = right[0].len() - 1;
        for place in [0, last] {
            let mut wrong = right.clone();
            let value = Number::Float(wrong[0].get(place).to_f64() + 1.0).cast(wrong[0].dtype);
            wrong[0].set(place, value);
            let found = sampled(&task, &case, &wrong);
            assert!(found.is_some_and(|it| it.starts_with(&format!("element {place} "))));
        }
    }
}
