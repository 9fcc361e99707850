//! Rooflines: the larger of a program's arithmetic at peak throughput and its compulsory memory traffic
//! at peak bandwidth.

use std::fmt;

use tvmtune_ir::dag::{Dag, Expr, UnaryOp};
use tvmtune_ir::target::GpuTarget;
use tvmtune_space::work::Work;

use crate::problem::Problem;

/// A lower bound of the time of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// The time, in ns.
    pub ns: f64,
    /// The resource that bounds it.
    pub bound: Bound,
}

/// The resource that bounds a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Its arithmetic.
    Arithmetic,
    /// The bytes of its parameters and results.
    Memory,
}

impl Roofline {
    /// Returns the roofline of a program at its largest extents.
    pub fn of(problem: &Problem, target: &GpuTarget) -> Self {
        let work = Work::of(&problem.dag, &problem.largest());
        let cycles = f64::from(target.multiprocessors) * f64::from(target.clock_mhz) / 1e3;
        let arithmetic_ns =
            work.flops / (2.0 * f64::from(multiply_adds(&problem.dag, target)) * cycles);
        let memory_ns = work.bytes / f64::from(target.bandwidth_gbps);
        match arithmetic_ns > memory_ns {
            true => Self { ns: arithmetic_ns, bound: Bound::Arithmetic },
            false => Self { ns: memory_ns, bound: Bound::Memory },
        }
    }
}

/// Returns the multiply-adds of a multiprocessor in a cycle, by the fastest units for a program:
/// its parameters of several dimensions are the multiplicands.
fn multiply_adds(dag: &Dag, target: &GpuTarget) -> u32 {
    let limits = target.arch.limits();
    let operands = dag.params().map(|it| dag.tensor(it)).filter(|it| it.shape.len() > 1);
    let by_matrix_instructions = match operands.map(|it| it.dtype.bytes()).max() {
        Some(1) => 2 * limits.tensor_fma,
        Some(2) => limits.tensor_fma,
        _ if rounds_to_tf32(dag) => limits.tensor_fma / 2,
        _ => 0,
    };
    limits.fma.max(by_matrix_instructions)
}

/// Returns whether MMA may multiply `f32`.
fn rounds_to_tf32(dag: &Dag) -> bool {
    let mut is_tf32 = |it: &Expr| matches!(it, Expr::Unary(UnaryOp::Tf32, _));
    dag.computes.iter().any(|it| it.body.any(&mut is_tf32))
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
        })
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::target::gpu::Arch;

    use super::*;
    use crate::case;

    #[test]
    fn nothing_is_faster_than_the_peak_of_what_could_do_it() {
        let target = GpuTarget::generic(Arch { sm: 90, exact: true });
        let near = |case: &str, dims: &str, bound: Bound, ns: f64| {
            let problem = Problem::new(case::named(case).unwrap(), dims).unwrap();
            let roofline = Roofline::of(&problem, &target);
            assert!((roofline.ns / ns - 1.0).abs() < 0.1, "{case}: {roofline:?}");
            assert_eq!(roofline.bound, bound, "{case}");
        };
        // 1979 TOP/s, 989, 494 and 62 TFLOP/s, 4800 GB/s are what the vendor says at this clock.
        let square = "M = 4096, N = 4096, K = 4096";
        let flops = 2.0 * 4096_f64.powi(3);
        near("matmul_i8", square, Bound::Arithmetic, flops / 1979e3);
        near("linear_bf16", square, Bound::Arithmetic, flops / 989e3);
        near("linear_tf32", square, Bound::Arithmetic, flops / 494e3);
        near("matmul_f32", square, Bound::Arithmetic, flops / 62e3);
        near("softmax_f32", "R = 8192, D = 4096", Bound::Memory, 8.0 * 8192.0 * 4096.0 / 4800.0);
        // Its scale and shift are `f32`, its products are not.
        let conv = "B = 32, C = 256, H = 14, W = 14, O = 256, T = 3";
        let flops = 2.0 * 32.0 * 14.0 * 14.0 * 9.0 * 256.0 * 256.0;
        near("conv_bn_relu_f16", conv, Bound::Arithmetic, flops / 989e3);
    }
}
