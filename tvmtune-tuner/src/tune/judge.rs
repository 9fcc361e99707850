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
//! in the same way.

use tvmtune_core::dag::Dag;
use tvmtune_core::interp::{self, Array, Elements, Number};
use tvmtune_core::schedule::{Schedule, default};

use super::task::{Task, Tolerance};
use crate::measure::{CaseSpec, Job, MeasureError, Measurer};
use crate::random::Random;

/// Operations up to which a program is evaluated by definition, in full.
const SMALL: f64 = 2e7;
/// Operations up to which plain loops are the reference.
const MEDIUM: f64 = 5e9;
/// Bodies evaluated to sample the results of one case.
const SAMPLED: u64 = 1_000_000;
/// Places in each result that are sampled if they are cheap.
const PLACES: usize = 512;

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
    measurer: &mut Measurer,
) -> Result<Result<Reference, String>, MeasureError> {
    let dag = &task.dag;
    let exact = |_| (0.0, 0.0);
    let cases: Vec<_> = dims.iter().map(|it| CaseSpec::new(dag, it, seed, &exact)).collect();
    let mut expected = Vec::new();
    for (n, case) in cases.iter().enumerate() {
        let results = if n_operations(dag, case.dims()) <= SMALL {
            interp::dag::run(dag, case.dims(), &case.params(), &case.scalars())
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

/// How far a result may be from a reference, relatively and absolutely.
fn allowed(tolerance: Tolerance, reference: &Array) -> (f64, f64) {
    let squares = (0..reference.len()).map(|n| reference.get(n).to_f64().powi(2));
    let (sum, n) = squares.filter(|it| it.is_finite()).fold((0.0, 0), |(s, n), it| (s + it, n + 1));
    let rms = if n == 0 { 0.0 } else { (sum / f64::from(n)).sqrt() };
    (tolerance.rel, tolerance.abs + tolerance.rel * rms)
}

/// The results of a kernel that was found to agree with the definition.
fn trusted(
    task: &Task,
    cases: &[CaseSpec],
    n: usize,
    measurer: &mut Measurer,
) -> Result<Result<Vec<Array>, String>, MeasureError> {
    let case = &cases[n];
    let plain = || Schedule::new(&task.dag).trace;
    let default = || default::schedule(&task.dag, &task.target).trace;
    let medium = n_operations(&task.dag, case.dims()) <= MEDIUM;
    let traces = if medium { vec![plain(), default()] } else { vec![default()] };
    let mut why = String::new();
    for trace in traces {
        let generated = match task.generate(&trace) {
            Ok(generated) => generated,
            Err(refusal) => {
                why = refusal;
                continue;
            }
        };
        let job = Job::new(&generated.kernel, &generated.code.phases, cases);
        measurer.set_up(cases, None)?;
        let results = match measurer.evaluate(&job, n)? {
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

/// Where results differ from the definition among some elements; `None` if nowhere.
fn sampled(task: &Task, case: &CaseSpec, results: &[Array]) -> Option<String> {
    let (params, scalars) = (case.params(), case.scalars());
    let mut elements = Elements::new(&task.dag, case.dims(), &params, &scalars);
    for (id, result) in task.dag.outputs.iter().zip(results) {
        let (rel, abs) = allowed(task.tolerance, result);
        for flat in places(result) {
            let (got, want) = (result.get(flat), elements.get(*id, flat));
            if !agrees(got, want, rel, abs) {
                let (got, want) = (got.to_f64(), want.to_f64());
                return Some(format!("element {flat} is {got}, not {want}"));
            }
            if elements.n_evaluated() > SAMPLED {
                break;
            }
        }
    }
    None
}

/// Places to look at, the most telling first: both ends, then random ones, each with its neighbor
/// and with the ends of its row.
fn places(result: &Array) -> Vec<usize> {
    let n = result.len();
    if n == 0 {
        return Vec::new();
    }
    let row = result.shape.last().map_or(1, |it| *it as usize).max(1);
    let mut random = Random::new(n as u64);
    let mut places = vec![0, n - 1];
    while places.len() < PLACES.min(4 * n) {
        let at = random.below(n);
        let first = at - at % row;
        places.extend([at, (at + 1).min(n - 1), first, first + row - 1]);
    }
    places
}

fn agrees(got: Number, want: Number, rel: f64, abs: f64) -> bool {
    match (got, want) {
        (Number::Float(a), Number::Float(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= abs + rel * b.abs()
        }
        (a, b) => a == b,
    }
}

/// Operations that evaluating a program takes.
fn n_operations(dag: &Dag, dims: &[i64]) -> f64 {
    let of = |compute: &tvmtune_core::dag::Compute| {
        let mut n_nodes = 0.0;
        compute.body.walk(&mut |_| n_nodes += 1.0);
        let points = compute.axes.iter().map(|it| it.extent.eval_dims(dims) as f64);
        n_nodes * points.product::<f64>()
    };
    dag.computes.iter().map(of).sum()
}
