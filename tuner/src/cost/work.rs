//! The work of a program: arithmetic operations, and compulsory memory traffic.

use tvmtune_ir::dag::prefix::Prefix;
use tvmtune_ir::dag::{Compute, Dag, Expr, Subscript, TensorId, Types, UnaryOp};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::mask::dont_care;

/// The minimum work of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Arithmetic on elements; a fused multiply-add counts twice, a transcendental once.
    pub flops: f64,
    /// Bytes of the parameters read and of the results written, each once.
    pub bytes: f64,
}

/// The ridge point of a CPU, in operations per byte: below it, memory limits it; an estimate.
const RIDGE_POINT: f64 = 8.0;

impl Work {
    /// Computes the work of a program at given extents of its dynamic dimensions.
    pub fn of(dag: &Dag, dims: &[i64]) -> Self {
        let per_compute = dag.computes.iter().map(|it| flops(dag, it) * min_points(dag, it, dims));
        let params = dag.params().map(|it| bytes_read(dag, it, dims));
        let outputs = dag.outputs.iter().map(|it| size(dag, *it, dims));
        Self { flops: per_compute.sum(), bytes: params.chain(outputs).sum() }
    }

    /// Tells if the program is compute-bound on a CPU.
    pub fn is_compute_bound(&self) -> bool {
        self.flops > RIDGE_POINT * self.bytes
    }
}

/// Returns the number of iterations of all axes.
fn points(compute: &Compute, dims: &[i64]) -> f64 {
    compute.axes.iter().map(|it| it.extent.eval_dims(dims) as f64).product()
}

/// Returns the number of iterations that every schedule has: of a prefix scan one for each value, of
/// others those that no mask skips. Padding counts, as is usual for the work of a convolution.
pub fn min_points(dag: &Dag, compute: &Compute, dims: &[i64]) -> f64 {
    let all = points(compute, dims);
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    match Prefix::of(compute, &shape, dag, &dag.facts()) {
        Some(prefix) => all / compute.axes[prefix.axis].extent.eval_dims(dims).max(1) as f64,
        None => {
            let mut masks = dont_care(dag, compute);
            let bounds = bound_predicates(dag, compute);
            masks.retain(|it| !bounds.contains(it));
            all * active_fraction(compute, &masks, dims)
        }
    }
}

/// Returns the predicates of reads that are in bounds: polynomials that are then not negative.
fn bound_predicates(dag: &Dag, compute: &Compute) -> Vec<Poly> {
    let mut bounds = Vec::new();
    compute.body.walk(&mut |it| {
        let Expr::Read { tensor, index } = it else { return };
        for (subscript, extent) in index.iter().zip(&dag.tensor(*tensor).shape) {
            if let Subscript::Affine(index) = subscript {
                bounds.push(index.clone());
                bounds.push(extent.clone() - Poly::constant(1) - index.clone());
            }
        }
    });
    bounds
}

/// Returns the fraction of a compute's iterations in which all predicates hold (are not negative), on
/// an evenly spaced sample.
fn active_fraction(compute: &Compute, predicates: &[Poly], dims: &[i64]) -> f64 {
    let depends = |axis: &usize| predicates.iter().any(|it| it.mentions(VarId(*axis as u32)));
    let axes: Vec<usize> = (0..compute.axes.len()).filter(depends).collect();
    let max_samples = match axes.len() {
        0..=1 => 4096,
        2 => 128,
        3 => 32,
        _ => 8,
    };
    let mut samples = vec![vec![0; compute.axes.len()]];
    for axis in axes {
        let extent = compute.axes[axis].extent.eval_dims(dims).max(1);
        let n_samples = extent.min(max_samples);
        let with_axis = |sample: &Vec<i64>, n: i64| {
            let mut sample = sample.clone();
            sample[axis] = (2 * n + 1) * extent / (2 * n_samples);
            sample
        };
        samples =
            samples.iter().flat_map(|it| (0..n_samples).map(move |n| with_axis(it, n))).collect();
    }
    let is_executed = |sample: &&Vec<i64>| {
        let value = |it: &Poly| it.eval(&|it| dims[it.0 as usize], &|it| sample[it.0 as usize]);
        predicates.iter().all(|it| value(it) >= 0)
    };
    samples.iter().filter(is_executed).count() as f64 / samples.len() as f64
}

/// Counts the arithmetic of one iteration on values of the element type: index arithmetic and bound
/// checks are not the program's work.
fn flops(dag: &Dag, compute: &Compute) -> f64 {
    let is_float = Types::tensor(dag, compute.tensor).is_float();
    let mut n = usize::from(compute.reducer.is_some());
    compute.body.walk(&mut |it| {
        // Rounding to TF32 is a conversion.
        let converts = matches!(it, Expr::Unary(UnaryOp::Tf32, _));
        let arithmetic = matches!(it, Expr::Unary(..) | Expr::Binary(..)) && !converts;
        n += usize::from(arithmetic && it.dtype(dag).is_float() == is_float);
    });
    n as f64
}

/// Returns the size of a parameter in bytes; of one that is only gathered from, at most that of the
/// gathered elements.
fn bytes_read(dag: &Dag, param: TensorId, dims: &[i64]) -> f64 {
    let element = dag.tensor(param).dtype.bytes() as f64;
    let all = size(dag, param, dims);
    let mut read: f64 = 0.0;
    for compute in &dag.computes {
        compute.body.walk(&mut |it| {
            if let Expr::Read { tensor, index } = it
                && *tensor == param
            {
                let gathers = index.iter().any(|it| matches!(it, Subscript::Value(_)));
                read += if gathers { points(compute, dims) * element } else { all };
            }
        });
    }
    read.min(all)
}

/// Returns the size of a tensor in bytes.
fn size(dag: &Dag, tensor: TensorId, dims: &[i64]) -> f64 {
    let elements = dag.tensor(tensor).shape.iter().map(|it| it.eval_dims(dims) as f64);
    elements.product::<f64>() * Types::tensor(dag, tensor).bytes() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    #[test]
    fn masked_iterations_are_no_work() {
        let attention = |mask: &str| {
            let dag = dsl::program(&format!(
                "#[autotune(dims(H = 4, S = 1..=512, T = 1..=512, D = 64))]
                fn attention(q: Tensor<f16, H, S, D>, k: Tensor<f16, H, T, D>, v: Tensor<f16, H, T, D>)
                    -> Tensor<f32, H, S, D> {{
                    let s = compute(|h, i, j| {{
                        let x = sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]);
                        if {mask} {{ x }} else {{ f32::NEG_INFINITY }}
                    }});
                    let m = compute(|h, i| max(0..T, |j| s[[h, i, j]]));
                    let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
                    let l = compute(|h, i| sum(0..T, |j| e[[h, i, j]]));
                    compute(|h, i, d| sum(0..T, |j| e[[h, i, j]] * v[[h, j, d]]) / l[[h, i]])
                }}"
            ))
            .unwrap();
            move |dims: &[i64]| -> f64 {
                let products = dag.computes.iter().filter(|it| it.axes.len() == 4);
                products.map(|it| min_points(&dag, it, dims)).sum()
            }
        };
        let all = |s: f64, t: f64| 2.0 * 4.0 * 64.0 * s * t;
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.02, "{a} {b}");
        near(attention("true || q[[h, i, 0]] as f32 > 0.0")(&[512, 512]), all(512.0, 512.0));
        near(attention("j <= i")(&[512, 512]), all(512.0, 512.0) / 2.0);
        near(attention("j > i")(&[512, 512]), all(512.0, 512.0) / 2.0);
        near(attention("j <= i + T - S")(&[512, 256]), all(512.0, 256.0) / 4.0);
        near(attention("j <= i && i < j + 64")(&[512, 512]), all(512.0, 64.0) * (1.0 - 1.0 / 16.0));
        assert_eq!(attention("j <= i")(&[1, 1]), all(1.0, 1.0));
    }
}
