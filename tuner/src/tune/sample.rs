//! Whether results are those of a program: all of them, or those elements that tell most.
//!
//! Evaluating a large program by definition would take minutes; a few hundred elements of its results
//! take a moment. Those that are looked at are the most telling: ends, ends of rows, neighbors.

use tvmtune_ir::dag::{Dag, Number};
use tvmtune_ir::interp::{Array, Elements};

use super::task::Tolerance;
use crate::random::Random;

/// Operations up to which a program is evaluated by definition, in full.
pub(super) const SMALL: f64 = 2e7;
/// Bodies evaluated to sample the results of one case.
const SAMPLED: u64 = 300_000;
/// Places in each result that are sampled if they are cheap.
const PLACES: usize = 512;
/// What a tolerance in units of one may be at most, in units of the root of the mean square.
const MOST_OF_RMS: f64 = 0.1;
/// Elements that the size of all is known from.
const ENOUGH: usize = 1 << 20;

/// Where results differ from the definition, in all elements if that is quick to know, else among
/// some; `None` if nowhere.
///
/// # Panics
///
/// If arguments or results are not those of the program at those extents.
pub fn difference(
    dag: &Dag,
    dims: &[i64],
    (params, scalars): (&[Array], &[Number]),
    results: &[Array],
    tolerance: Tolerance,
) -> Option<String> {
    if n_operations(dag, dims) > SMALL {
        return sampled(dag, dims, (params, scalars), results, tolerance);
    }
    let expected = tvmtune_ir::interp::run(dag, dims, params, scalars);
    results.iter().zip(&expected).find_map(|(result, expected)| {
        let (rel, abs) = allowed(tolerance, expected);
        result.max_error(expected, rel, abs).map(|it| it.to_string())
    })
}

/// The same, among some elements.
pub(super) fn sampled(
    dag: &Dag,
    dims: &[i64],
    (params, scalars): (&[Array], &[Number]),
    results: &[Array],
    tolerance: Tolerance,
) -> Option<String> {
    let mut elements = Elements::new(dag, dims, params, scalars);
    for (id, result) in dag.outputs.iter().zip(results) {
        let (rel, abs) = allowed(tolerance, result);
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
pub fn n_operations(dag: &Dag, dims: &[i64]) -> f64 {
    let of = |compute: &tvmtune_ir::dag::Compute| {
        let mut n_nodes = 0.0;
        compute.body.walk(&mut |_| n_nodes += 1.0);
        let points = compute.axes.iter().map(|it| it.extent.eval_dims(dims) as f64);
        n_nodes * points.product::<f64>()
    };
    dag.computes.iter().map(of).sum()
}

/// How far a result may be from a reference, relatively and absolutely.
pub fn allowed(tolerance: Tolerance, reference: &Array) -> (f64, f64) {
    // Of a large one, enough to know it.
    let step = (reference.len() / ENOUGH) | 1;
    let looked_at = (0..reference.len()).step_by(step);
    let squares = looked_at.map(|n| reference.get(n).to_f64().powi(2));
    let (sum, n) = squares.filter(|it| it.is_finite()).fold((0.0, 0), |(s, n), it| (s + it, n + 1));
    let rms = if n == 0 { 0.0 } else { (sum / f64::from(n)).sqrt() };
    // What is small altogether, as softmax over long rows, must not pass for nothing.
    let abs = if rms > 0.0 { tolerance.abs.min(MOST_OF_RMS * rms) } else { tolerance.abs };
    (tolerance.rel, abs + tolerance.rel * rms)
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dag::DType;

    use super::*;

    #[test]
    fn ends_of_rows_are_looked_at() {
        let places = places(&Array::zeros(DType::F32, &[40, 33]));
        assert_eq!(places[..2], [0, 40 * 33 - 1]);
        for column in [0, 32] {
            let n = places.iter().filter(|it| *it % 33 == column).count();
            assert!(n >= PLACES / 4, "{n} of column {column}");
        }
        assert!(places.iter().all(|it| *it < 40 * 33));
        assert!(self::places(&Array::zeros(DType::F32, &[0])).is_empty());
    }

    #[test]
    fn zeros_are_not_close_to_small_results() {
        let (rel, abs) = (1e-4, 1e-4);
        let small = Array::from_f32(&[3], vec![2e-5, 1e-5, 3e-5]);
        let (rel, abs) = allowed(Tolerance { rel, abs }, &small);
        let zero = Number::Float(0.0);
        assert!((0..3).all(|it| !agrees(zero, small.get(it), rel, abs)));
        let nothing = Array::zeros(DType::F32, &[3]);
        assert_eq!(allowed(Tolerance { rel: 1e-4, abs: 1e-4 }, &nothing), (1e-4, 1e-4));
    }

    #[test]
    fn where_terms_cancel_the_size_of_the_others_counts() {
        let reference = Array::from_f32(&[4], vec![100.0, -100.0, 100.0, 0.0]);
        let (rel, abs) = allowed(Tolerance { rel: 1e-4, abs: 0.0 }, &reference);
        assert!(agrees(Number::Float(5e-3), Number::Float(0.0), rel, abs));
        assert!(!agrees(Number::Float(2e-2), Number::Float(0.0), rel, abs));
        assert!(agrees(Number::Float(f64::NAN), Number::Float(f64::NAN), rel, abs));
        assert!(!agrees(Number::Float(f64::NAN), Number::Float(0.0), rel, abs));
    }
}
