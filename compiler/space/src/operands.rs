//! The parameters that a launch finds in memory, and not in a cache.
//!
//! A program that is timed again and again finds its weights in a cache. In a network, all other
//! weights pass through the caches between two launches of it: the weights of a decode step come from
//! memory. So the program is timed with cold weights where that matters, and by default it matters
//! where a weight is no part of the first-level cache and is used a few times only.

use tvmtune_ir::dag::{Dag, Expr, TensorId, TensorKind};
use tvmtune_ir::dsl::Residence;
use tvmtune_ir::target::{CpuTarget, Platform, Target};

/// Operations per byte of a weight from which waiting for memory is a small part of a launch: four
/// times the ridge point of CPUs, some 12 operations per byte (two cores of an Emerald Rapids: 348
/// GFLOP/s, 28.5 GB/s).
const MAX_OPS_PER_BYTE: f64 = 48.0;

/// Returns, for each parameter, whether a launch at these extents finds it in memory, on a device.
/// `stated` has what the program says, for each parameter.
pub fn cold(dag: &Dag, dims: &[i64], stated: &[Option<Residence>], target: &Target) -> Vec<bool> {
    let by_size = |param: TensorId| match target {
        Target::Cpu(cpu) => is_cold(dag, param, dims, cpu),
        // Launches in a row overlap, and the L2 is shared: timing rotates through all operands.
        Target::Gpu(_) => true,
    };
    let stated = stated.iter().copied().chain(std::iter::repeat(None));
    let params = dag.params().zip(stated);
    params
        .map(|(param, stated)| match (dag.tensor(param).kind, target, stated) {
            // A copy of it would not be what the launch before has left.
            (TensorKind::InOut, Target::Cpu(_), _) => false,
            (_, _, Some(residence)) => residence == Residence::Cold,
            (_, _, None) => by_size(param),
        })
        .collect()
}

/// Returns the positions of the parameters that are cold, as a record names them: `None` where that is
/// none on a CPU, and all on a GPU.
pub fn recorded(cold: &[bool], platform: Platform) -> Option<Vec<u32>> {
    let is_usual = match platform {
        Platform::Cpu(_) => !cold.contains(&true),
        Platform::Cuda(_) => !cold.contains(&false),
    };
    let positions = (0..).zip(cold).filter_map(|(n, cold)| cold.then_some(n));
    (!is_usual).then(|| positions.collect())
}

/// Returns the size of a tensor in bytes, at these extents.
fn bytes(dag: &Dag, tensor: TensorId, dims: &[i64]) -> f64 {
    let tensor = dag.tensor(tensor);
    let elements = tensor.shape.iter().map(|it| it.eval_dims(dims) as f64);
    elements.product::<f64>() * tensor.dtype.bytes() as f64
}

/// Returns whether a launch finds a parameter in memory, by its size and use.
fn is_cold(dag: &Dag, param: TensorId, dims: &[i64], cpu: &CpuTarget) -> bool {
    let bytes = bytes(dag, param, dims);
    dag.tensor(param).kind == TensorKind::Weight
        && bytes > cpu.l1_bytes as f64
        && 2.0 * n_reads(dag, param, dims) < MAX_OPS_PER_BYTE * bytes
}

/// Returns the number of reads of a parameter.
fn n_reads(dag: &Dag, param: TensorId, dims: &[i64]) -> f64 {
    let mut n_reads = 0.0;
    for compute in &dag.computes {
        let points = compute.axes.iter().map(|it| it.extent.eval_dims(dims) as f64);
        let points: f64 = points.product();
        compute.body.walk(&mut |it| {
            if matches!(it, Expr::Read { tensor, .. } if *tensor == param) {
                n_reads += points;
            }
        });
    }
    n_reads
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::gpu::Arch;
    use tvmtune_ir::target::{GpuTarget, Isa};

    use super::*;

    #[test]
    fn large_weights_that_are_used_a_few_times_are_cold() {
        let source = "#[autotune(dims(M = 1..=512, N = 384, K = 384))]
            fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, y: Tensor<f32, M, N>)
                -> Tensor<f32, M, N> {
                compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + y[[i, j]])
            }";
        let dag = dsl::program(source).unwrap();
        let cpu = CpuTarget::generic(Isa::Avx2).into();
        let check = |m: i64, stated: &[Option<Residence>], target: &Target, expected: [bool; 3]| {
            assert_eq!(cold(&dag, &[m], stated, target), expected, "{m}");
        };
        check(1, &[], &cpu, [false, true, false]);
        check(64, &[], &cpu, [false, true, false]);
        check(512, &[], &cpu, [false, false, false]);
        let (cold, warm) = (Some(Residence::Cold), Some(Residence::Warm));
        check(1, &[cold, warm, None], &cpu, [true, false, false]);
        check(512, &[None, cold, cold], &cpu, [false, true, true]);
        let gpu = GpuTarget::generic(Arch::from_name("sm_90a").unwrap()).into();
        check(1, &[None, None, warm], &gpu, [true, true, false]);
    }
}
