//! Reductions as kernels compute them: term by term, each result rounded to its type, in the order of the
//! ranges, or, of a program with fixed numerics, in the order that it has.

use super::code::Code;
use super::column::Column;
use super::partial::PartialResults;
use super::{Array, Env, chunks, flatten, for_each_point};
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
    let spatial_axis = spatial_axis.filter(|_| order.lanes().is_none());
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
    let partial_results = |len: usize| {
        let identity = Column::identity(Some(reducer), dtype, len);
        PartialResults::new(order, identity, |a: Column, b| a.binary(reducer.op(), b, dtype))
    };

    for_each_point(&spatial, &extents, &mut vec![0; extents.len()], &mut |point| {
        let row = flatten(&point[..n_spatial], &extents);
        if lane_axis == last {
            let mut results = partial_results(1);
            for_each_point(&others, &extents, point, &mut |point| {
                for lanes in &chunks {
                    let values = terms.values(point, lanes);
                    for (n, at) in lanes.iter().enumerate() {
                        point[last] = *at;
                        results.add(order.place(point, &extents), |so_far| {
                            values.lane(n).combined_with(so_far, reducer, dtype)
                        });
                    }
                    point[last] = 0;
                }
            });
            out.set(row as usize, results.result().get(0));
            return;
        }
        for lanes in &chunks {
            let mut results = partial_results(lanes.len());
            for_each_point(&others, &extents, point, &mut |point| {
                results.add(order.place(point, &extents), |so_far| {
                    terms.values(point, lanes).combined_with(so_far, reducer, dtype)
                });
            });
            let result = results.result();
            for (n, lane) in lanes.iter().enumerate() {
                out.set((row + lane * stride) as usize, result.get(n));
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use crate::dag::DType;
    use crate::dsl;
    use crate::interp::{Array, Elements, run_in_order};

    /// The first half combined with the second, until one is left.
    fn by_halves(mut partial: Vec<f32>) -> f32 {
        while partial.len() > 1 {
            let half = partial.len() / 2;
            partial = (0..half).map(|n| partial[n] + partial[n + half]).collect();
        }
        partial[0]
    }

    /// A dot product of blocks of lanes, as `docs/numerics.md` has it.
    fn dot(x: &[f32], y: &[f32], size: usize, n_lanes: usize) -> f32 {
        let mut sum = 0.0;
        for (x, y) in x.chunks(size).zip(y.chunks(size)) {
            let mut lanes = vec![0.0_f32; n_lanes];
            for (t, (x, y)) in x.iter().zip(y).enumerate() {
                lanes[t % n_lanes] = x.mul_add(*y, lanes[t % n_lanes]);
            }
            sum += by_halves(lanes);
        }
        sum
    }

    #[test]
    fn dot_products_are_taken_in_the_order_that_is_written() {
        let function = "fn f(x: Tensor<f32, K>, w: Tensor<f32, 3, K>) -> Tensor<f32, 3> {
            compute(|i| sum(0..K, |k| x[[k]] * w[[i, k]]))
        }";
        let all = usize::MAX;
        for (order, size, n_lanes) in [
            ("sequence", all, 1),
            ("lanes(8)", all, 8),
            ("lanes(128)", all, 128),
            ("blocks(2)", 2, 1),
            ("blocks(37)", 37, 1),
            ("blocks(64, lanes(16))", 64, 16),
            ("blocks(37, lanes(64))", 37, 64),
        ] {
            let options = format!("#[autotune(dims(K = 1..=300), order = \"{order}\")]");
            let dag = dsl::program(&format!("{options} {function}")).unwrap();
            for k in [1, 2, 7, 8, 9, 36, 37, 38, 63, 64, 65, 74, 128, 129, 300] {
                let numbers = |shape: &[u64], seed| Array::random(DType::F32, shape, seed);
                let params = [numbers(&[k], 1), numbers(&[3, k], 2)];
                let [x, w] = [0, 1].map(|it: usize| params[it].to_f32_vec());
                let dims = [k as i64];
                let found = run_in_order(&dag, &dims, &params, &[]).remove(0).to_f32_vec();
                let rows = w.chunks(k as usize);
                let expected: Vec<f32> = rows.map(|w| dot(&x, w, size, n_lanes)).collect();
                assert_eq!(found, expected, "{order}, {k}");
                let mut elements = Elements::new(&dag, &dims, &params, &[]);
                let mut element = |n| elements.get(dag.outputs[0], n).to_f64() as f32;
                assert_eq!((0..3).map(&mut element).collect::<Vec<f32>>(), expected);
            }
        }
    }

    #[test]
    fn everything_is_summed_in_blocks_of_rows() {
        let dag = dsl::program(
            "#[autotune(dims(M = 1..=20), order = \"blocks(3, lanes(4))\")]
            fn f(x: Tensor<f32, M, 5>) -> (Tensor<f32, 1>, Tensor<f32, 5>) {
                let all = compute(|i| sum((0..M, 0..5), |j, k| x[[j, k]]));
                (all, compute(|k| sum(0..M, |j| x[[j, k]])))
            }",
        )
        .unwrap();
        for m in [1, 2, 3, 4, 20] {
            let params = [Array::random(DType::F32, &[m, 5], m)];
            let x = params[0].to_f32_vec();
            let found = run_in_order(&dag, &[m as i64], &params, &[]);
            let ones = vec![1.0; x.len()];
            assert_eq!(found[0].to_f32_vec(), [dot(&x, &ones, 15, 4)], "{m}");
            let column = |k: usize| x.iter().skip(k).step_by(5).copied().collect::<Vec<f32>>();
            let expected: Vec<f32> = (0..5).map(|k| dot(&column(k), &ones, 3, 1)).collect();
            assert_eq!(found[1].to_f32_vec(), expected, "{m}");
        }
    }
}
