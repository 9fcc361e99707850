//! Launches of a program, with what they compute by definition.

use std::f64::consts::PI;

use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::{self, Array};
use tvmtune_tuner::definition::rounding::{self, distance};
use tvmtune_tuner::random::Random;

use crate::section::Problem;

/// The relative error of operations of generated programs: 64 units in the last place of an `f32`.
const OPERATION_ERROR: f64 = 8.0 * rounding::ERROR;

/// The numbers of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Small whole numbers, of which sums are exact in any order.
    Whole,
    /// Fractions between -1 and 1.
    Fractions,
    /// The ends of each type, infinities, NaNs, denormals, signed zeros, and what lies between.
    Extremes,
}

/// A launch of a program.
#[derive(Clone, Debug)]
pub struct Launch {
    /// An extent for each dynamic dimension.
    pub dims: Vec<i64>,
    /// The arguments.
    pub params: Vec<Array>,
    /// Run-time scalars.
    pub scalars: Vec<Number>,
    /// The results, by the interpreter of dags.
    pub expected: Vec<Array>,
    /// For each element of each result, how far rounding may carry it; nothing where results are exact.
    slack: Vec<Vec<f64>>,
}

impl Launch {
    /// Returns a launch at some extents with random arguments.
    pub fn new(dag: &Dag, dims: &[i64], numbers: Numbers, random: &mut Random) -> Self {
        let param = |random: &mut Random, id| {
            let tensor = dag.tensor(id);
            let extents = tensor.shape.iter().map(|it| it.eval_dims(dims).max(0) as u64);
            array(tensor.dtype, &extents.collect::<Vec<_>>(), numbers, random)
        };
        let params: Vec<Array> = dag.params().map(|id| param(random, id)).collect();
        let scalars: Vec<Number> =
            dag.scalars.iter().map(|it| number(it.dtype, numbers, random).cast(it.dtype)).collect();
        let expected = interp::run(dag, dims, &params, &scalars);
        let slack = match numbers {
            Numbers::Fractions => {
                rounding::slack(dag, dims, (&params, &scalars), &expected, OPERATION_ERROR)
            }
            Numbers::Whole | Numbers::Extremes => Vec::new(),
        };
        Self { dims: dims.to_vec(), params, scalars, expected, slack }
    }

    /// Compares results with what is expected, as closely as these are defined.
    ///
    /// # Errors
    ///
    /// The worst difference.
    pub fn compare(
        &self,
        found: &[Array],
        tolerance: &dyn Fn(DType) -> f64,
        by: &str,
    ) -> Result<(), Problem> {
        let mut found = found.to_vec();
        for ((found, expected), slack) in found.iter_mut().zip(&self.expected).zip(&self.slack) {
            for (n, slack) in slack.iter().enumerate() {
                if distance(found.get(n), expected.get(n)) <= *slack {
                    found.set(n, expected.get(n));
                }
            }
        }
        compare(&found, &self.expected, tolerance, by)
    }
}

/// Compares results with expected ones.
///
/// # Errors
///
/// The worst difference.
pub fn compare(
    found: &[Array],
    expected: &[Array],
    tolerance: &dyn Fn(DType) -> f64,
    by: &str,
) -> Result<(), Problem> {
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        let tolerance = tolerance(expected.dtype);
        if let Some(it) = found.max_error(expected, tolerance, tolerance) {
            let of = expected.dtype.name();
            return Err(Problem::wrong(format!("{by}: a wrong result of {of}\n{n}: {it:?}")));
        }
    }
    Ok(())
}

/// Returns how many points all computes of a program have together.
pub fn volume(dag: &Dag, dims: &[i64]) -> f64 {
    let extents = |it: &tvmtune_ir::dag::Compute| -> f64 {
        it.axes.iter().map(|it| it.extent.eval_dims(dims).max(0) as f64).product()
    };
    dag.computes.iter().map(extents).sum()
}

/// Returns how many elements all tensors of a program have together.
pub fn elements(dag: &Dag, dims: &[i64]) -> f64 {
    let extents = |it: &tvmtune_ir::dag::Tensor| -> f64 {
        it.shape.iter().map(|it| it.eval_dims(dims).max(0) as f64).product()
    };
    dag.tensors.iter().map(extents).sum()
}

fn array(dtype: DType, shape: &[u64], numbers: Numbers, random: &mut Random) -> Array {
    match (numbers, dtype.is_float()) {
        (Numbers::Extremes, _) => Array::from_fn(dtype, shape, |_| number(dtype, numbers, random)),
        (Numbers::Fractions, true) => Array::random(dtype, shape, random.bits()),
        (Numbers::Fractions, false) | (Numbers::Whole, _) => {
            Array::whole_numbers(dtype, shape, random.bits())
        }
    }
}

fn number(dtype: DType, numbers: Numbers, random: &mut Random) -> Number {
    match (numbers, dtype.is_float()) {
        (Numbers::Extremes, true) => Number::Float(extreme_float(random)),
        (Numbers::Extremes, false) => Number::Int(extreme_integer(dtype, random)),
        (Numbers::Fractions, true) => Number::Float(2.0 * random.unit() - 1.0),
        _ => Number::Int(random.below(5) as i64),
    }
}

fn extreme_float(random: &mut Random) -> f64 {
    let ends = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        PI,
        1e-45,
        -1e-40,
        f64::from(f32::MIN_POSITIVE),
        f64::from(f32::MAX),
        f64::from(f32::MIN),
        65504.0,
        65520.0,
        -2147483648.0,
        2147483647.0,
        4294967296.0,
        9.3e18,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    match random.below(4) {
        0 => f64::from(f32::from_bits(random.bits() as u32)),
        1 => 2.0 * random.unit() - 1.0,
        _ => ends[random.below(ends.len())],
    }
}

fn extreme_integer(dtype: DType, random: &mut Random) -> i64 {
    let (lo, hi) = match dtype {
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::U8 => (0, i64::from(u8::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::U32 => (0, i64::from(u32::MAX)),
        DType::Bool => (0, 1),
        _ => (i64::MIN, i64::MAX),
    };
    let near = random.below(3) as i64;
    match random.below(4) {
        0 => lo.saturating_add(near).min(hi),
        1 => hi.saturating_sub(near).max(lo),
        2 => (near - 1).clamp(lo, hi),
        _ => {
            let span = i128::from(hi) - i128::from(lo) + 1;
            (i128::from(lo) + i128::from(random.bits()) % span) as i64
        }
    }
}
