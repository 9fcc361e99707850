//! The lower bound on the latency of a program: a timing below it is an error.

use tvmtune_ir::dag::{Compute, Dag, Types};
use tvmtune_ir::target::{CpuTarget, GpuTarget, Target};
use tvmtune_space::work::min_points;

use crate::outcome::Outcome;

/// Vector multiply-adds per cycle of a core, and its clock in GHz, at most: above all x86 cores of 2025.
const MAX_FMA_PER_CYCLE: f64 = 2.0;
const MAX_CPU_GHZ: f64 = 6.5;
/// The clock of a GPU in GHz, at most: above all of 2025.
const MAX_GPU_GHZ: f64 = 3.5;
/// The share of the work that remains without the padding of images, at least: schedules may skip
/// products with zeros.
const UNPADDED_SHARE: f64 = 0.5;

/// Returns the lower bound in ns at given extents: all float reductions at the peak rate.
pub(super) fn lower_bound_ns(dag: &Dag, dims: &[i64], target: &Target) -> f64 {
    let per_ns = match target {
        Target::Cpu(cpu) => peak_of_cpu(cpu),
        Target::Gpu(gpu) => peak_of_gpu(gpu),
    };
    let points = |it: &Compute| {
        let is_wide = Types::tensor(dag, it.tensor).is_float();
        // Memory sets no bound, as arguments may be in a cache; nor do narrow integers, of which a
        // lane holds several.
        if it.reducer.is_some() && is_wide { min_points(dag, it, dims) } else { 0.0 }
    };
    let all: f64 = dag.computes.iter().map(points).sum();
    UNPADDED_SHARE * all / per_ns
}

/// Returns the peak rate of a CPU, in multiply-adds per ns.
fn peak_of_cpu(cpu: &CpuTarget) -> f64 {
    MAX_FMA_PER_CYCLE * f64::from(cpu.isa.lanes()) * MAX_CPU_GHZ * f64::from(cpu.threads.max(1))
}

/// Returns the peak rate of a GPU, in multiply-adds per ns, with or without tensor cores.
fn peak_of_gpu(gpu: &GpuTarget) -> f64 {
    let limits = gpu.arch.limits();
    let in_a_cycle = f64::from(limits.tensor_fma.max(limits.fma));
    in_a_cycle * f64::from(gpu.multiprocessors) * MAX_GPU_GHZ
}

/// Rejects a timing below the lower bound: something was not computed.
pub(super) fn check(outcome: Outcome, lower_bound_ns: f64) -> Outcome {
    match outcome.timing() {
        Some(timing) if timing.min_ns() < lower_bound_ns => Outcome::Wrong(format!(
            "it took {:.0} ns, less than the {lower_bound_ns:.0} ns that this machine needs at least",
            timing.min_ns(),
        )),
        _ => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Timing;
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::Isa;
    use tvmtune_ir::target::gpu::Arch;

    fn timing(ns: f64) -> Timing {
        Timing::new(vec![ns]).unwrap()
    }

    #[test]
    fn a_timing_below_the_lower_bound_is_wrong() {
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
        let checked = check(Outcome::Timed(timing(limit * 0.9)), limit);
        assert!(matches!(checked, Outcome::Wrong(why) if why.contains("at least")));
        assert!(check(Outcome::Timed(timing(limit * 1.1)), limit).timing().is_some());
        assert_eq!(check(Outcome::TimedOut, limit), Outcome::TimedOut);
    }
}
