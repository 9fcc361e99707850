//! The reference oracle: the expected results of a task's candidates.
//!
//! A small program is evaluated by definition, in full. For a large program, that would take minutes,
//! so a *reference kernel* computes the results: the program without a schedule, a plain loop nest
//! without tiles, predication, tasks, packed weights or fused stages. It is accepted if a few thousand
//! of its elements agree with the definition, among them the ends of rows, where remainders are handled.
//! Every candidate is then compared with it in all elements, so that an error in an element that was
//! not sampled would show as a disagreement with every other schedule: a task whose default schedule
//! disagrees is given up, and nothing is recorded.
//!
//! For a program so large that even the plain loops would take long, the default schedule is the
//! reference kernel. The reference kernel of a GPU task runs on the CPU, if that can run the program.

use tvmtune_ir::dag::Number;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::default;

use super::code::Builder;
use super::sample::{self, Inputs, MAX_INTERPRETED, allowed, n_operations};
use super::task::Task;
use crate::measure::{CaseSpec, Job, Measure, MeasureError};

/// Operations of a program whose plain loops are the reference kernel, at most: some seconds.
const MAX_PLAIN_OPERATIONS: f64 = 5e9;

/// Arguments with their expected results.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    /// The cases; candidates are timed on the first.
    pub(super) cases: Vec<CaseSpec>,
    /// The results of all cases, concatenated.
    pub(super) expected: Vec<u8>,
}

/// Computes the expected results of a task at several extents, from arguments drawn from a seed; the
/// inner error says why that failed.
pub(super) fn reference(
    task: &Task,
    dims: &[Vec<i64>],
    seed: u64,
    measurer: &mut dyn Measure,
) -> Result<Result<Reference, String>, MeasureError> {
    let dag = &task.dag;
    let exact = |_| (0.0, 0.0);
    if !measurer.runs_code() {
        // Logged outcomes were verified when they were measured.
        let case = CaseSpec::new(dag, &dims[0], seed, &exact);
        return Ok(Ok(Reference { cases: vec![case], expected: Vec::new() }));
    }
    let cases: Vec<_> = dims.iter().map(|it| CaseSpec::new(dag, it, seed, &exact)).collect();
    let mut expected = Vec::new();
    for (n, case) in cases.iter().enumerate() {
        let results = if n_operations(dag, case.dims()) <= MAX_INTERPRETED {
            tvmtune_ir::interp::run(dag, case.dims(), &case.params(), &case.scalars())
        } else {
            match reference_results(task, &cases, n, measurer)? {
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

/// Returns whether a candidate is correct on arguments drawn from another seed, at the extents where it is
/// timed: in all elements of a small program, else in a sample.
pub(super) fn is_correct(
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
    Ok(first_mismatch(task, &case, &results).is_none())
}

/// Compares the results of a case with the definition; returns the first mismatch.
pub(super) fn first_mismatch(task: &Task, case: &CaseSpec, results: &[Array]) -> Option<String> {
    sample::difference(&inputs(task, case, &case.params(), &case.scalars()), results)
}

/// Computes the results of a case by the first reference kernel that agrees with the definition.
fn reference_results(
    task: &Task,
    cases: &[CaseSpec],
    n: usize,
    measurer: &mut dyn Measure,
) -> Result<Result<Vec<Array>, String>, MeasureError> {
    let case = &cases[n];
    let mut why = String::new();
    for (builder, trace) in reference_kernels(task, case) {
        let code = match builder.build(&task.dag, &trace) {
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
                why = format!("the reference kernel {failure}");
                continue;
            }
        };
        let Some(results) = results else { continue };
        match sample::sampled(&inputs(task, case, &case.params(), &case.scalars()), &results) {
            None => return Ok(Ok(results)),
            Some(mismatch) => why = format!("the reference kernel is wrong: {mismatch}"),
        }
    }
    Ok(Err(why))
}

/// Returns the candidates for the reference kernel, in order of preference, with their builders.
fn reference_kernels(task: &Task, case: &CaseSpec) -> Vec<(Builder, Vec<Instruction>)> {
    let host = match task.target() {
        Target::Cpu(_) => Some(task.builder.clone()),
        Target::Gpu(_) => tvmtune_plan::device::detect().map(Builder::Cpu),
    };
    let plain = host.map(|it| (it, Schedule::new(&task.dag).trace));
    let is_plain_fast = n_operations(&task.dag, case.dims()) <= MAX_PLAIN_OPERATIONS;
    let default = default::schedule(&task.dag, &task.target()).trace;
    plain.into_iter().filter(|_| is_plain_fast).chain([(task.builder.clone(), default)]).collect()
}

/// Returns the arguments of a case, in the form that the evaluation of samples needs.
fn inputs<'a>(
    task: &'a Task,
    case: &'a CaseSpec,
    params: &'a [Array],
    scalars: &'a [Number],
) -> Inputs<'a> {
    Inputs { dag: &task.dag, dims: case.dims(), params, scalars, tolerance: task.tolerance }
}
