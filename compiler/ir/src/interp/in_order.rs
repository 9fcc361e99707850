//! Reductions as kernels compute them: term by term, each result rounded to its type, in the order of the
//! ranges, or, of a program with fixed numerics, in the order that it has.

use super::code::Code;
use super::column::Column;
use super::{Array, Env, chunks, flatten, for_each_point};
use crate::dag::order::LANES;
use crate::dag::{BinaryOp, Compute, DType, Dag, Expr, Order, Reducer};

/// The terms of a reduction, for several lanes.
enum Terms<'a> {
    /// They are summed as they are, without rounding them before.
    Products(Code<'a>, Code<'a>),
    Any(Code<'a>),
}

/// The values of terms.
enum Values {
    Products(Column, Column),
    Any(Column),
}

impl Terms<'_> {
    fn values(&self, point: &[i64], lanes: &[i64]) -> Values {
        match self {
            Terms::Products(a, b) => {
                Values::Products(a.column(point, lanes), b.column(point, lanes))
            }
            Terms::Any(code) => Values::Any(code.column(point, lanes)),
        }
    }
}

impl Values {
    fn lane(&self, lane: usize) -> Self {
        match self {
            Values::Products(a, b) => Values::Products(a.lane(lane), b.lane(lane)),
            Values::Any(it) => Values::Any(it.lane(lane)),
        }
    }

    /// Combines them with the results so far. Of equal numbers a minimum keeps the one that it has.
    fn combined_with(self, sum: Column, reducer: Reducer, dtype: DType) -> Column {
        match self {
            Values::Products(a, b) => sum.add_products(a, &b),
            Values::Any(it) => it.binary(reducer.op(), sum, dtype),
        }
    }
}

/// Combines the first half of partial results with the second, until one is left. Of equal numbers a
/// minimum is that of the second half.
fn combine_by_halves(mut partial: Vec<Column>, reducer: Reducer, dtype: DType) -> Column {
    while partial.len() > 1 {
        let upper = partial.split_off(partial.len() / 2);
        let pairs = partial.into_iter().zip(upper);
        partial = pairs.map(|(lower, upper)| lower.binary(reducer.op(), upper, dtype)).collect();
    }
    partial.pop().unwrap_or_else(|| Column::identity(Some(reducer), dtype, 1))
}

/// Evaluates a compute with a reducer.
pub(super) fn reduce(dag: &Dag, compute: &Compute, reducer: Reducer, env: &Env<'_>) -> Array {
    let extents: Vec<i64> = compute.axes.iter().map(|it| it.extent.eval_dims(env.dims)).collect();
    let (n_spatial, dtype) = (compute.n_spatial, dag.tensor(compute.tensor).dtype);
    let shape: Vec<u64> = extents[..n_spatial].iter().map(|it| *it as u64).collect();
    let mut out = Array::zeros(dtype, &shape);
    let order = dag.order(compute).unwrap_or(Order::Sequence);
    // Lanes have results of their own, or the terms that follow one another.
    let spatial_axis = (0..n_spatial).max_by_key(|it| extents[*it]);
    let last = extents.len() - 1;
    let is_wide = |it: &usize| extents[*it] >= extents[last];
    let spatial_axis = spatial_axis.filter(|_| order == Order::Sequence);
    let lane_axis = spatial_axis.filter(is_wide).unwrap_or(last);
    let code = |body: &Expr| Code::new(body, env, &extents, Some(lane_axis));
    let terms = match (&compute.body, reducer) {
        (Expr::Binary(BinaryOp::Mul, a, b), Reducer::Sum) if dtype == DType::F32 => {
            Terms::Products(code(a), code(b))
        }
        (body, _) => Terms::Any(code(body)),
    };
    let axes = |range: std::ops::Range<usize>| range.filter(|it| *it != lane_axis).collect();
    let (spatial, others): (Vec<usize>, Vec<usize>) =
        (axes(0..n_spatial), axes(n_spatial..extents.len()));
    let chunks = chunks(extents[lane_axis]);
    let stride: i64 = extents[..n_spatial].iter().skip(lane_axis + 1).product();
    let identity = |len: usize| Column::identity(Some(reducer), dtype, len);

    for_each_point(&spatial, &extents, &mut vec![0; extents.len()], &mut |point| {
        let row = flatten(&point[..n_spatial], &extents);
        if let Order::Lanes { first } = order {
            let mut partial: Vec<Column> = (0..LANES).map(|_| identity(1)).collect();
            for_each_point(&others, &extents, point, &mut |point| {
                let before = flatten(&point[first..last], &extents[first..]) * extents[last];
                for lanes in &chunks {
                    let values = terms.values(point, lanes);
                    for (n, at) in lanes.iter().enumerate() {
                        let partial = &mut partial[(before + at) as usize % LANES as usize];
                        let sum_so_far = std::mem::replace(partial, Column::Bool(Vec::new()));
                        *partial = values.lane(n).combined_with(sum_so_far, reducer, dtype);
                    }
                }
            });
            out.set(row as usize, combine_by_halves(partial, reducer, dtype).get(0));
            return;
        }
        if lane_axis == last {
            let mut sum = identity(1);
            for_each_point(&others, &extents, point, &mut |point| {
                for lanes in &chunks {
                    let values = terms.values(point, lanes);
                    for lane in 0..lanes.len() {
                        let sum_so_far = std::mem::replace(&mut sum, Column::Bool(Vec::new()));
                        sum = values.lane(lane).combined_with(sum_so_far, reducer, dtype);
                    }
                }
            });
            out.set(row as usize, sum.get(0));
            return;
        }
        for lanes in &chunks {
            let mut sum = identity(lanes.len());
            for_each_point(&others, &extents, point, &mut |point| {
                let sum_so_far = std::mem::replace(&mut sum, Column::Bool(Vec::new()));
                sum = terms.values(point, lanes).combined_with(sum_so_far, reducer, dtype);
            });
            for (n, lane) in lanes.iter().enumerate() {
                out.set((row + lane * stride) as usize, sum.get(n));
            }
        }
    });
    out
}
