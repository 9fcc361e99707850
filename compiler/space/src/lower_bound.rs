//! The lower bound on the latency of a program: a time below it is an error, of a measurement or of a
//! record.
//!
//! In: a [`Dag`], extents and a [`Target`]. Out: the least time in which any schedule computes it.

use tvmtune_ir::dag::{Compute, Dag, TensorKind, Types};
use tvmtune_ir::target::{CpuTarget, GpuTarget, Target};
use tvmtune_schedule::normal::normalized;

use crate::work::{bytes_of, min_points};

/// The least time of a launch in ns, whatever it computes: some calls of functions.
pub const MIN_LAUNCH_NS: f64 = 1.0;

/// Vector multiply-adds and stores per cycle of a core, and its clock in GHz, at most: above all x86 cores
/// of 2025.
const MAX_FMA_PER_CYCLE: f64 = 2.0;
const MAX_STORES_PER_CYCLE: f64 = 2.0;
const MAX_CPU_GHZ: f64 = 6.5;
/// The clock of a GPU in GHz, and the bytes that a multiprocessor stores in a cycle, at most: above all of
/// 2025.
const MAX_GPU_GHZ: f64 = 3.5;
const MAX_GPU_STORE_BYTES: f64 = 256.0;
/// The share of the work that remains without the padding of images, at least: schedules may skip
/// products with zeros.
const UNPADDED_SHARE: f64 = 0.5;

/// The most that a device does in a ns.
struct Peak {
    multiply_adds: f64,
    stored_bytes: f64,
}

/// Returns the lower bound in ns at given extents: all float reductions at the peak rate, or all results
/// stored.
pub fn lower_bound_ns(dag: &Dag, dims: &[i64], target: &Target) -> f64 {
    let dag = &normalized(dag);
    let peak = match target {
        Target::Cpu(cpu) => Peak::of_cpu(cpu),
        Target::Gpu(gpu) => Peak::of_gpu(gpu),
    };
    let points = |it: &Compute| {
        let is_wide = Types::tensor(dag, it.tensor).is_float();
        // Reading sets no bound, as arguments may be in a cache; nor do narrow integers, of which a
        // lane holds several.
        if it.reducer.is_some() && is_wide { min_points(dag, it, dims) } else { 0.0 }
    };
    // Hand-written kernels need not do what the definition does: a sort is no comparison of all pairs.
    let is_hand_written = dag.kernel_template.is_some() && matches!(target, Target::Gpu(_));
    let all: f64 = if is_hand_written { 0.0 } else { dag.computes.iter().map(points).sum() };
    // Of a result in place, what stays as it was need not be stored.
    let is_in_place = dag.tensors.iter().any(|it| it.kind == TensorKind::InOut);
    let stored = |it| bytes_of(dag, it, dims);
    let stored: f64 = if is_in_place { 0.0 } else { dag.outputs.iter().copied().map(stored).sum() };
    f64::max(UNPADDED_SHARE * all / peak.multiply_adds, stored / peak.stored_bytes)
}

impl Peak {
    fn of_cpu(cpu: &CpuTarget) -> Self {
        let lanes = f64::from(cpu.isa.lanes());
        let cycles = MAX_CPU_GHZ * f64::from(cpu.threads.max(1));
        let multiply_adds = MAX_FMA_PER_CYCLE * lanes * cycles;
        Self { multiply_adds, stored_bytes: MAX_STORES_PER_CYCLE * 4.0 * lanes * cycles }
    }

    /// With or without tensor cores.
    fn of_gpu(gpu: &GpuTarget) -> Self {
        let limits = gpu.arch.limits();
        let in_a_cycle = f64::from(limits.tensor_fma.max(limits.fma));
        let cycles = f64::from(gpu.multiprocessors) * MAX_GPU_GHZ;
        Self { multiply_adds: in_a_cycle * cycles, stored_bytes: MAX_GPU_STORE_BYTES * cycles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::Isa;
    use tvmtune_ir::target::gpu::Arch;

    #[test]
    fn products_take_as_long_as_their_multiply_adds() {
        let source =
            "fn mm(a: Tensor<f32, 64, 64>, b: Tensor<f32, 64, 64>) -> Tensor<f32, 64, 64> {
            compute(|i, j| sum(0..64, |k| a[[i, k]] * b[[k, j]]))
        }";
        let dag = dsl::program(source).unwrap();
        let target = CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx512) };
        let limit = lower_bound_ns(&dag, &[], &target.into());
        // Half of 262,144 multiply-adds by two threads, 2 x 16 in a cycle, 6.5 cycles in a ns.
        assert!((limit - 131_072.0 / (2.0 * 32.0 * 6.5)).abs() < 1e-6, "{limit}");
        let gpu = GpuTarget::generic(Arch { sm: 90, exact: true });
        let on_gpu = lower_bound_ns(&dag, &[], &gpu.into());
        assert!((on_gpu - 131_072.0 / (132.0 * 2048.0 * 3.5)).abs() < 1e-6, "{on_gpu}");
    }

    #[test]
    fn hand_written_kernels_are_bound_by_their_results_alone() {
        let source = "#[autotune(template = \"f.cu\" (\"f\\n\"), kernels(f(grid = 1, block = 64)))]
            fn f(a: Tensor<f32, 64, 64>) -> Tensor<f32, 64> {
                compute(|i| sum((0..64, 0..64), |j, k| a[[i, k]] * a[[j, k]]))
            }";
        let dag = dsl::program(source).unwrap();
        let gpu = GpuTarget::generic(Arch { sm: 90, exact: true });
        let on_gpu = lower_bound_ns(&dag, &[], &gpu.into());
        assert!((on_gpu - 256.0 / (132.0 * 256.0 * 3.5)).abs() < 1e-9, "{on_gpu}");
        let plain = lower_bound_ns(&Dag { kernel_template: None, ..dag }, &[], &gpu.into());
        assert!(plain > 10.0 * on_gpu, "{plain}");
    }

    #[test]
    fn results_are_stored() {
        let source = "#[autotune(dims(N = 1..=4096))]
            fn add(a: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, N> {
                compute(|i| a[[i]] + b[[i]])
            }";
        let dag = dsl::program(source).unwrap();
        let target = CpuTarget { threads: 1, ..CpuTarget::generic(Isa::Avx2) };
        let limit = lower_bound_ns(&dag, &[4096], &target.into());
        assert!((limit - 16384.0 / (2.0 * 32.0 * 6.5)).abs() < 1e-6, "{limit}");
    }
}
