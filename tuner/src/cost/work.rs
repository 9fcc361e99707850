//! How much a program has to do: arithmetic, and memory that must be touched.

use tvmtune_ir::dag::prefix::Prefix;
use tvmtune_ir::dag::{Compute, Dag, Expr, Subscript, TensorId, Types, UnaryOp};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::mask::dont_care;

/// What a launch can't do without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Arithmetic on elements; a fused multiply-add counts twice, a transcendental once.
    pub flops: f64,
    /// Bytes of the parameters read and of the results written, each once.
    pub bytes: f64,
}

/// Below so many operations for each byte, memory is what limits a CPU.
const BALANCE: f64 = 8.0;

impl Work {
    /// The work of a program with those extents of its dynamic dimensions.
    pub fn of(dag: &Dag, dims: &[i64]) -> Self {
        let per_compute =
            dag.computes.iter().map(|it| flops(dag, it) * least_points(dag, it, dims));
        let params = dag.params().map(|it| bytes_read(dag, it, dims));
        let outputs = dag.outputs.iter().map(|it| size(dag, *it, dims));
        Self { flops: per_compute.sum(), bytes: params.chain(outputs).sum() }
    }

    /// Whether arithmetic is what takes the time.
    pub fn is_arithmetic(&self) -> bool {
        self.flops > BALANCE * self.bytes
    }
}

/// Iterations of all axes.
fn points(compute: &Compute, dims: &[i64]) -> f64 {
    compute.axes.iter().map(|it| it.extent.eval_dims(dims) as f64).product()
}

/// Iterations that schedules do not do without: of a reduction up to an index one for each value,
/// of others those that no mask hides. Padding counts, as it does for everyone who states the work
/// of a convolution.
pub fn least_points(dag: &Dag, compute: &Compute, dims: &[i64]) -> f64 {
    let all = points(compute, dims);
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    match Prefix::of(compute, &shape, dag, &dag.facts()) {
        Some(prefix) => all / compute.axes[prefix.axis].extent.eval_dims(dims).max(1) as f64,
        None => {
            let mut masks = dont_care(dag, compute);
            let edges = edges(dag, compute);
            masks.retain(|it| !edges.contains(it));
            all * share(compute, &masks, dims)
        }
    }
}

/// What is not negative where reads are inside of their tensors.
fn edges(dag: &Dag, compute: &Compute) -> Vec<Poly> {
    let mut edges = Vec::new();
    compute.body.walk(&mut |it| {
        let Expr::Read { tensor, index } = it else { return };
        for (subscript, extent) in index.iter().zip(&dag.tensor(*tensor).shape) {
            if let Subscript::Affine(at) = subscript {
                edges.push(at.clone());
                edges.push(extent.clone() - Poly::constant(1) - at.clone());
            }
        }
    });
    edges
}

/// Of the iterations of a compute, the share in which none of some polynomials is negative: of a
/// sample that is spread evenly.
fn share(compute: &Compute, masks: &[Poly], dims: &[i64]) -> f64 {
    let depends = |axis: &usize| masks.iter().any(|it| it.mentions(VarId(*axis as u32)));
    let axes: Vec<usize> = (0..compute.axes.len()).filter(depends).collect();
    let most = match axes.len() {
        0..=1 => 4096,
        2 => 128,
        3 => 32,
        _ => 8,
    };
    let mut samples = vec![vec![0; compute.axes.len()]];
    for axis in axes {
        let extent = compute.axes[axis].extent.eval_dims(dims).max(1);
        let places = extent.min(most);
        let at = |sample: &Vec<i64>, place: i64| {
            let mut sample = sample.clone();
            sample[axis] = (2 * place + 1) * extent / (2 * places);
            sample
        };
        samples = samples.iter().flat_map(|it| (0..places).map(move |n| at(it, n))).collect();
    }
    let is_seen = |sample: &&Vec<i64>| {
        let value = |it: &Poly| it.eval(&|it| dims[it.0 as usize], &|it| sample[it.0 as usize]);
        masks.iter().all(|it| value(it) >= 0)
    };
    samples.iter().filter(is_seen).count() as f64 / samples.len() as f64
}

/// Arithmetic of one iteration on values of the tensor's own kind: what computes indices and
/// decides bounds is not the program's work.
fn flops(dag: &Dag, compute: &Compute) -> f64 {
    let is_float = Types::tensor(dag, compute.tensor).is_float();
    let mut n = usize::from(compute.reducer.is_some());
    compute.body.walk(&mut |it| {
        // What rounds is a conversion.
        let converts = matches!(it, Expr::Unary(UnaryOp::Tf32, _));
        let arithmetic = matches!(it, Expr::Unary(..) | Expr::Binary(..)) && !converts;
        n += usize::from(arithmetic && it.dtype(dag).is_float() == is_float);
    });
    n as f64
}

/// All of a parameter; of one that is only gathered from, at most what is gathered.
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

fn size(dag: &Dag, tensor: TensorId, dims: &[i64]) -> f64 {
    let elements = dag.tensor(tensor).shape.iter().map(|it| it.eval_dims(dims) as f64);
    elements.product::<f64>() * Types::tensor(dag, tensor).bytes() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    #[test]
    fn what_a_mask_hides_is_no_work() {
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
                products.map(|it| least_points(&dag, it, dims)).sum()
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
