//! How much a program has to do: arithmetic, and memory that must be touched.

use tvmtune_core::dag::prefix::Prefix;
use tvmtune_core::dag::{Compute, Dag, Expr, Subscript, TensorId, Types, UnaryOp};

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
/// of others all.
pub fn least_points(dag: &Dag, compute: &Compute, dims: &[i64]) -> f64 {
    let all = points(compute, dims);
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    match Prefix::of(compute, &shape, dag, &dag.facts()) {
        Some(prefix) => all / compute.axes[prefix.axis].extent.eval_dims(dims).max(1) as f64,
        None => all,
    }
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
