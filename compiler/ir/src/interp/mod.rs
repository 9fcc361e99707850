//! The reference interpreter: evaluates each element of each tensor by definition, in order.
//!
//! Generated code is right if it computes the same, within a tolerance that the program states.
//! In: a [`Dag`], the extents of its dynamic dimensions, its parameters in order of declaration and
//! its run-time scalars. Out: its results, in order. Later crates have interpreters of loop nests
//! and of vector code, which are compared with this one.
//!
//! To be fast enough to check every winner, the body of a compute is resolved once for the given
//! extents (`code`), and evaluated for a few hundred values of the longest axis at a time
//! (`column`). A `Select` splits these values, so that a branch sees only those that chose it.
//!
//! There are two of it, which differ in floats only ([`Semantics`]): [`run`] says what a program means,
//! with as little rounding as it allows; [`run_in_order`] what its kernels compute, bit by bit, if they
//! add the terms of each sum in the order of its ranges.
//!
//! # Invariants
//!
//! - Arithmetic rounds to the type of each operation.
//! - The same inputs give the same bytes on every machine.

pub mod array;
mod code;
mod column;
pub mod element;
mod in_order;
mod partial;

use self::code::Code;
use self::column::Column;
use crate::dag::{Compute, DType, Dag, Number};

pub use self::array::{Array, Mismatch};
pub use self::element::Elements;

/// The number of values of the longest axis that are evaluated at a time.
const LANES: i64 = 512;

/// The arithmetic of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Semantics {
    /// Sums and products accumulate in `f64` and round once, so that no order of summation is favored.
    /// Functions are computed in `f64`, by `libm`.
    Wide,
    /// Sums and products accumulate in their type, in the order of their ranges; a product that is
    /// summed in `f32` is not rounded before. Functions of `f32` are those of `tvmtune_math`.
    InOrder,
}

/// Evaluates the program on these parameters.
///
/// `dims` holds an extent for each of [`Dag::dims`], `params` an array for each of
/// [`Dag::params`], and `scalars` a value for each of [`Dag::scalars`].
///
/// # Panics
///
/// If their number, types or shapes are not those of the program, if a function of Rust defines it, or
/// if a read is out of bounds, which `dag::verify` excludes.
pub fn run(dag: &Dag, dims: &[i64], params: &[Array], scalars: &[Number]) -> Vec<Array> {
    evaluate_all(dag, dims, params, scalars, Semantics::Wide)
}

/// Evaluates the program as kernels do that add the terms of each sum in the order of its ranges, bit by
/// bit: the last range of a reduction varies fastest.
///
/// # Panics
///
/// As [`run`].
pub fn run_in_order(dag: &Dag, dims: &[i64], params: &[Array], scalars: &[Number]) -> Vec<Array> {
    evaluate_all(dag, dims, params, scalars, Semantics::InOrder)
}

fn evaluate_all(
    dag: &Dag,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    semantics: Semantics,
) -> Vec<Array> {
    assert!(dag.reference().is_none(), "a function of Rust defines this program");
    assert_eq!(dims.len(), dag.dims.len(), "an extent for each dynamic dimension");
    assert_eq!(params.len(), dag.params().count(), "an array for each parameter");
    assert_eq!(scalars.len(), dag.scalars.len(), "a value for each run-time scalar");
    for (id, array) in dag.params().zip(params) {
        let tensor = dag.tensor(id);
        let shape: Vec<i64> = tensor.shape.iter().map(|it| it.eval_dims(dims)).collect();
        let given: Vec<i64> = array.shape.iter().map(|it| *it as i64).collect();
        assert_eq!((array.dtype, given), (tensor.dtype, shape), "parameter `{}`", tensor.name);
    }
    let scalars: Vec<Number> =
        scalars.iter().zip(&dag.scalars).map(|(value, it)| value.cast(it.dtype)).collect();
    let scalar_types: Vec<DType> = dag.scalars.iter().map(|it| it.dtype).collect();
    let mut arrays = params.to_vec();
    for compute in &dag.computes {
        let (arrays_so_far, scalars, scalar_types) = (&arrays, &scalars, &scalar_types);
        let env = Env { dims, arrays: arrays_so_far, scalars, scalar_types, semantics };
        let array = match (semantics, compute.reducer) {
            (Semantics::InOrder, Some(reducer)) => in_order::reduce(dag, compute, reducer, &env),
            _ => match compute.recurrent_axis() {
                Some(axis) => in_steps(dag, compute, axis, &env),
                None => evaluate(dag, compute, &env),
            },
        };
        arrays.push(array);
    }
    dag.outputs.iter().map(|it| arrays[it.0 as usize].clone()).collect()
}

/// The environment in which one compute is evaluated.
struct Env<'a> {
    dims: &'a [i64],
    /// The tensors so far, by [`TensorId`](crate::dag::TensorId).
    arrays: &'a [Array],
    scalars: &'a [Number],
    scalar_types: &'a [DType],
    semantics: Semantics,
}

fn evaluate(dag: &Dag, compute: &Compute, env: &Env) -> Array {
    let extents: Vec<i64> = compute.axes.iter().map(|it| it.extent.eval_dims(env.dims)).collect();
    let (n_spatial, dtype) = (compute.n_spatial, dag.tensor(compute.tensor).dtype);
    let shape: Vec<u64> = extents[..n_spatial].iter().map(|it| *it as u64).collect();
    let mut out = Array::zeros(dtype, &shape);

    // Of several longest axes the last; none if the compute has no axes.
    let lane_axis = (0..extents.len()).max_by_key(|it| extents[*it]);
    let code = Code::new(&compute.body, env, &extents, lane_axis);
    let lanes_reduce = lane_axis.is_some_and(|it| it >= n_spatial);
    let others = |axes: std::ops::Range<usize>| axes.filter(|it| Some(*it) != lane_axis).collect();
    let spatial: Vec<usize> = others(0..n_spatial);
    let reduce: Vec<usize> = others(n_spatial..extents.len());
    let chunks = chunks(lane_axis.map_or(1, |it| extents[it]));
    let lane_stride = lane_axis.map_or(0, |it| extents[..n_spatial].iter().skip(it + 1).product());

    for_each_point(&spatial, &extents, &mut vec![0; extents.len()], &mut |point| {
        let row = flatten(&point[..n_spatial], &extents);
        if lanes_reduce {
            let mut sum = Column::identity(compute.reducer, dtype, 1);
            for lanes in &chunks {
                for_each_point(&reduce, &extents, point, &mut |point| {
                    sum.combine(
                        compute.reducer,
                        code.column(point, lanes).fold(compute.reducer, dtype),
                    );
                });
            }
            out.set(row as usize, sum.get(0));
            return;
        }
        for lanes in &chunks {
            let mut sum = Column::identity(compute.reducer, dtype, lanes.len());
            for_each_point(&reduce, &extents, point, &mut |point| {
                sum.combine(compute.reducer, code.column(point, lanes));
            });
            for (n, lane) in lanes.iter().enumerate() {
                out.set((row + lane * lane_stride) as usize, sum.get(n));
            }
        }
    });
    out
}

/// Evaluates a recurrence, each step from the one before.
fn in_steps(dag: &Dag, compute: &Compute, axis: usize, env: &Env) -> Array {
    let extents: Vec<i64> = compute.axes.iter().map(|it| it.extent.eval_dims(env.dims)).collect();
    let shape: Vec<u64> = extents.iter().map(|it| *it as u64).collect();
    let mut arrays = env.arrays.to_vec();
    arrays.push(Array::zeros(dag.tensor(compute.tensor).dtype, &shape));
    let others = (0..extents.len()).filter(|it| *it != axis);
    let lane_axis = others.clone().max_by_key(|it| extents[*it]);
    let rows: Vec<usize> = others.filter(|it| Some(*it) != lane_axis).collect();
    let chunks = chunks(lane_axis.map_or(1, |it| extents[it]));
    let lane_stride = lane_axis.map_or(0, |it| extents.iter().skip(it + 1).product());
    let mut point = vec![0; extents.len()];
    for step in 0..extents[axis] {
        point[axis] = step;
        let code = Code::new(&compute.body, &Env { arrays: &arrays, ..*env }, &extents, lane_axis);
        let mut values = Vec::new();
        for_each_point(&rows, &extents, &mut point, &mut |point| {
            let row = flatten(point, &extents);
            for lanes in &chunks {
                let column = code.column(point, lanes);
                let place = |lane: &i64| (row + lane * lane_stride) as usize;
                values.extend(lanes.iter().map(place).zip((0..).map(|n| column.get(n))));
            }
        });
        let Some(states) = arrays.last_mut() else { unreachable!("it was added above") };
        values.into_iter().for_each(|(place, value)| states.set(place, value));
    }
    arrays.pop().unwrap_or_else(|| unreachable!("it was added above"))
}

/// `0..extent` in runs of at most [`LANES`].
fn chunks(extent: i64) -> Vec<Vec<i64>> {
    (0..extent)
        .step_by(LANES as usize)
        .map(|first| (first..extent.min(first + LANES)).collect())
        .collect()
}

/// Calls `visit` with each combination of values of `axes` in `point`, which it leaves at zeros.
fn for_each_point(
    axes: &[usize],
    extents: &[i64],
    point: &mut Vec<i64>,
    visit: &mut dyn FnMut(&mut Vec<i64>),
) {
    let Some((axis, inner)) = axes.split_first() else { return visit(point) };
    for value in 0..extents[*axis] {
        point[*axis] = value;
        for_each_point(inner, extents, point, visit);
    }
    point[*axis] = 0;
}

/// The row-major position of `index`; its axes are the first ones.
fn flatten(index: &[i64], extents: &[i64]) -> i64 {
    index.iter().zip(extents).fold(0, |flat, (at, extent)| flat * extent + at)
}

#[cfg(test)]
mod tests;
