//! Comparison of results with the definition of a program: of all elements, or of a sample.
//!
//! Interpreting a large program would take minutes; a few hundred elements of its results take a
//! moment. The sample has those where schedules err: ends, ends of rows, neighbors.

use std::time::{Duration, Instant};

use tvmtune_ir::dag::{Dag, Number, Numerics};
use tvmtune_ir::interp::{Array, Elements};

use super::task::Tolerance;
use crate::definition::{Definition, rounding};
use crate::random::Random;

/// Operations up to which a program is interpreted in full: some tenths of a second.
pub(super) const MAX_INTERPRETED: f64 = 2e7;
/// The maximum number of bodies evaluated to sample the results of one case.
const MAX_EVALUATED: u64 = 300_000;
/// The maximum number of sampled elements of each result.
const MAX_SAMPLES: usize = 512;
/// Elements of each result that are sampled even if that takes too long: both ends, one inside, its
/// neighbor, and the ends of its row.
const MIN_SAMPLES: usize = 6;
/// The time of sampling outside of a tuning session.
const SAMPLE_TIME: Duration = Duration::from_secs(60);
/// The maximum absolute tolerance, relative to the root mean square.
const MAX_ABS_PER_RMS: f64 = 0.1;
/// The number of elements from which the root mean square is estimated.
const RMS_SAMPLES: usize = 1 << 16;

/// A program with its arguments.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The program.
    pub dag: &'a Dag,
    /// Its definition.
    pub definition: &'a Definition,
    /// The extents of its dynamic dimensions.
    pub dims: &'a [i64],
    /// Its parameters.
    pub params: &'a [Array],
    /// Its scalars.
    pub scalars: &'a [Number],
    /// The tolerance of its results.
    pub tolerance: Tolerance,
}

/// Compares results with the definition, in all elements of a small program, else in a sample; returns
/// the largest difference, as a share of the tolerance.
///
/// # Errors
///
/// The first mismatch, or the reason why there are no results to compare with.
///
/// # Panics
///
/// If arguments or results are not those of the program at these extents.
pub fn difference(inputs: &Inputs<'_>, results: &[Array]) -> Result<f64, String> {
    let Inputs { dag, definition, dims, params, scalars, tolerance } = *inputs;
    if dag.reference().is_none() && n_operations(dag, dims) > MAX_INTERPRETED {
        return sampled(inputs, results, SAMPLE_TIME);
    }
    let expected = definition.results(dag, dims, params, scalars)?;
    let tolerances: Vec<_> = expected.iter().map(|it| allowed(tolerance, it)).collect();
    let compared = compare(results, &expected, &tolerances);
    if compared.is_ok() || !is_perturbable(dag) {
        return compared;
    }
    let inputs = (params, scalars);
    let found = rounding::ill_conditioned(dag, dims, inputs, &expected, &tolerances);
    let mut results = results.to_vec();
    for ((result, expected), elements) in results.iter_mut().zip(&expected).zip(&found) {
        rounding::forgive(result, expected, elements);
    }
    compare(&results, &expected, &tolerances)
}

/// Tells if rounding errors of a program are estimated: its computes define it, and leave their order open.
pub(super) fn is_perturbable(dag: &Dag) -> bool {
    dag.reference().is_none() && dag.numerics == Numerics::Free
}

/// Compares results in all elements; returns the largest difference, as a share of the tolerance.
fn compare(
    results: &[Array],
    expected: &[Array],
    tolerances: &[(f64, f64)],
) -> Result<f64, String> {
    let mut largest: f64 = 0.0;
    for ((result, expected), (rel, abs)) in results.iter().zip(expected).zip(tolerances) {
        if let Some(mismatch) = result.max_error(expected, *rel, *abs) {
            return Err(mismatch.to_string());
        }
        let shares = (0..result.len()).map(|n| share(result.get(n), expected.get(n), *rel, *abs));
        largest = shares.fold(largest, f64::max);
    }
    Ok(largest)
}

/// Compares a sample of the results of an interpreted program with the definition, as large as a time limit
/// allows; returns the largest difference, as a share of the tolerance.
///
/// # Errors
///
/// The first mismatch.
pub(super) fn sampled(
    inputs: &Inputs<'_>,
    results: &[Array],
    limit: Duration,
) -> Result<f64, String> {
    let Inputs { dag, dims, params, scalars, tolerance, .. } = *inputs;
    let mut largest: f64 = 0.0;
    let mut elements = Elements::new(dag, dims, params, scalars);
    for (id, result) in dag.outputs.iter().zip(results) {
        let clock = Instant::now();
        let (rel, abs) = allowed(tolerance, result);
        for (n, flat) in sample_indices(&result.shape).into_iter().enumerate() {
            let is_spent = elements.n_evaluated() > MAX_EVALUATED
                || clock.elapsed() > limit / results.len() as u32;
            if n >= MIN_SAMPLES && is_spent {
                break;
            }
            let (got, want) = (result.get(flat), elements.get(*id, flat));
            let share = share(got, want, rel, abs);
            if share > 1.0 {
                let (got, want) = (got.to_f64(), want.to_f64());
                return Err(format!("element {flat} is {got}, not {want}"));
            }
            largest = largest.max(share);
        }
    }
    Ok(largest)
}

/// Returns the indices to compare: both ends, then random ones, each with its neighbor and with the
/// ends of its row.
pub(super) fn sample_indices(shape: &[u64]) -> Vec<usize> {
    let n = shape.iter().product::<u64>() as usize;
    if n == 0 {
        return Vec::new();
    }
    let row = shape.last().map_or(1, |it| *it as usize).max(1);
    let mut random = Random::new(n as u64);
    let mut indices = vec![0, n - 1];
    while indices.len() < MAX_SAMPLES.min(4 * n) {
        let index = random.below(n);
        let first = index - index % row;
        indices.extend([index, (index + 1).min(n - 1), first, first + row - 1]);
    }
    indices
}

/// Returns the difference of a value from the expected one, as a share of the tolerance; infinite if
/// nothing bounds it.
fn share(got: Number, want: Number, rel: f64, abs: f64) -> f64 {
    match (got, want) {
        (Number::Float(a), Number::Float(b)) if a == b || (a.is_nan() && b.is_nan()) => 0.0,
        (Number::Float(a), Number::Float(b)) => {
            let share = (a - b).abs() / (abs + rel * b.abs());
            if share.is_nan() { f64::INFINITY } else { share }
        }
        (a, b) if a == b => 0.0,
        _ => f64::INFINITY,
    }
}

/// Returns the number of operations of interpreting a program.
pub fn n_operations(dag: &Dag, dims: &[i64]) -> f64 {
    let n_of = |compute: &tvmtune_ir::dag::Compute| {
        let mut n_nodes = 0.0;
        compute.body.walk(&mut |_| n_nodes += 1.0);
        let points = compute.axes.iter().map(|it| it.extent.eval_dims(dims) as f64);
        n_nodes * points.product::<f64>()
    };
    dag.computes.iter().map(n_of).sum()
}

/// Returns the relative and absolute tolerance of a result, given its reference.
pub fn allowed(tolerance: Tolerance, reference: &Array) -> (f64, f64) {
    // A subset of a large one suffices.
    let step = (reference.len() / RMS_SAMPLES) | 1;
    let indices = (0..reference.len()).step_by(step);
    let squares = indices.map(|n| reference.get(n).to_f64().powi(2));
    let (sum, n) = squares.filter(|it| it.is_finite()).fold((0.0, 0), |(s, n), it| (s + it, n + 1));
    let rms = if n == 0 { 0.0 } else { (sum / f64::from(n)).sqrt() };
    // Zeros must not pass for small results, as those of softmax over long rows.
    let abs = if rms > 0.0 { tolerance.abs.min(MAX_ABS_PER_RMS * rms) } else { tolerance.abs };
    (tolerance.rel, abs + tolerance.rel * rms)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tvmtune_ir::dag::DType;
    use tvmtune_schedule::arbitrary::{self, Family};

    use super::*;
    use crate::measure::CaseSpec;

    #[test]
    fn a_sample_of_elements_tells_right_results_from_wrong_ones() {
        let (dag, _) = arbitrary::dag(Family::ALL[0], &[5; 24]);
        let dims: Vec<i64> = dag.dims.iter().map(|it| it.range.hi).collect();
        let dag = Arc::new(dag);
        let case = CaseSpec::new(&dag, &dims, 1, &|_| (0.0, 0.0));
        let (params, scalars) = (case.params(), case.scalars());
        let tolerance = Tolerance { rel: 1e-4, abs: 1e-4 };
        let definition = Definition::default();
        let inputs = Inputs {
            dag: &dag,
            definition: &definition,
            dims: &dims,
            params: &params,
            scalars: &scalars,
            tolerance,
        };
        let right = tvmtune_ir::interp::run(&dag, &dims, &params, &scalars);
        assert_eq!(sampled(&inputs, &right, SAMPLE_TIME), Ok(0.0));
        let last = right[0].len() - 1;
        for index in [0, last] {
            let mut wrong = right.clone();
            let value = Number::Float(wrong[0].get(index).to_f64() + 1.0).cast(wrong[0].dtype);
            wrong[0].set(index, value);
            // The ends are compared even if there is no time.
            for limit in [SAMPLE_TIME, Duration::ZERO] {
                let mismatch = sampled(&inputs, &wrong, limit);
                assert!(mismatch.is_err_and(|it| it.starts_with(&format!("element {index} "))));
            }
        }
    }

    #[test]
    fn ends_of_rows_are_sampled() {
        let indices = sample_indices(&[40, 33]);
        assert_eq!(indices[..2], [0, 40 * 33 - 1]);
        for column in [0, 32] {
            let n = indices.iter().filter(|it| *it % 33 == column).count();
            assert!(n >= MAX_SAMPLES / 4, "{n} of column {column}");
        }
        assert!(indices.iter().all(|it| *it < 40 * 33));
        assert!(sample_indices(&[0]).is_empty());
    }

    #[test]
    fn zeros_are_not_close_to_small_results() {
        let (rel, abs) = (1e-4, 1e-4);
        let small = Array::from_f32(&[3], vec![2e-5, 1e-5, 3e-5]);
        let (rel, abs) = allowed(Tolerance { rel, abs }, &small);
        let zero = Number::Float(0.0);
        assert!((0..3).all(|it| share(zero, small.get(it), rel, abs) > 1.0));
        let nothing = Array::zeros(DType::F32, &[3]);
        assert_eq!(allowed(Tolerance { rel: 1e-4, abs: 1e-4 }, &nothing), (1e-4, 1e-4));
    }

    #[test]
    fn where_terms_cancel_the_size_of_the_others_counts() {
        let reference = Array::from_f32(&[4], vec![100.0, -100.0, 100.0, 0.0]);
        let (rel, abs) = allowed(Tolerance { rel: 1e-4, abs: 0.0 }, &reference);
        let share = |got, want| share(Number::Float(got), Number::Float(want), rel, abs);
        assert!((0.3..1.0).contains(&share(5e-3, 0.0)));
        assert!(share(2e-2, 0.0) > 1.0);
        assert_eq!(share(f64::NAN, f64::NAN), 0.0);
        assert!(share(f64::NAN, 0.0).is_infinite() && share(f64::INFINITY, 0.0).is_infinite());
    }
}
