//! The schedule used where nothing was measured.
//!
//! In: a [`Dag`] and a [`Target`]. Out: the first sketch of the dag at the options of the analytic cost
//! model: tiles from registers and ports, blocks from cache sizes, threads from an estimate of the
//! work. Search starts from the same point.

use super::fits;
use super::sketch::{Sketch, sketches};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{Schedule, nest};

/// Returns a schedule that is good with no measurement. Never fails: where no template applies, loops
/// run as the program wrote them.
pub fn schedule(dag: &Dag, target: &Target) -> Schedule {
    let default = |it: &Sketch| Schedule::replay(dag, &it.instructions(&it.default)).ok();
    let sketches = sketches(dag, target);
    let mut schedules = sketches.iter().filter_map(default);
    schedules.find(|it| can_run(it, target)).unwrap_or_else(|| Schedule::new(dag))
}

/// Returns whether a device runs a schedule at all: CPUs run any that has room in the memory of threads.
fn can_run(schedule: &Schedule, target: &Target) -> bool {
    match target {
        Target::Cpu(_) => fits::cpu::has_room(&nest::lower(schedule)),
        #[cfg(feature = "cuda")]
        Target::Gpu(gpu) => {
            let max_bytes = gpu.arch.limits().block_shared_bytes;
            let grid = tvmtune_cuda::grid::place(&nest::lower(schedule));
            grid.is_ok_and(|it| it.body.iter().all(|it| it.shared_bytes <= max_bytes))
        }
        #[cfg(not(feature = "cuda"))]
        Target::Gpu(_) => schedule.trace.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::Isa;

    /// Checks that threads have room for the default schedule of a product with a padded operand.
    #[track_caller]
    fn check_room(dims: &str, shape: &str, body: &str) {
        let source = format!(
            "#[autotune(dims({dims}))]
             fn f(x: Tensor<f32, 19, N>, y: Tensor<f32, 19, N, 64>, w: Tensor<f32, 19, N>)
                 -> Tensor<f32, {shape}> {{ compute({body}) }}"
        );
        let dag = dsl::program(&source).unwrap();
        for isa in [Isa::Avx2, Isa::Avx512] {
            let nest = nest::lower(&schedule(&dag, &Target::generic(isa)));
            assert!(fits::cpu::has_room(&nest), "{dims}, {isa:?}:\n{nest}");
        }
    }

    #[test]
    fn threads_have_room_for_padded_copies_of_long_axes() {
        let shifted = "|i, j| sum(0..9, |k| x.get([2 * i - 3, j]).unwrap_or(0.0) * w[[i, j]])";
        check_room("N = 5..=2147483647", "19, N", shifted);
        check_room("N = 200000000", "19, N", shifted);
        let taps = "|i, j| sum(0..19, |k| x.get([2 * k - 3, j]).unwrap_or(0.0) * w[[i, j]])";
        check_room("N = 5..=2147483647", "19, N", taps);
        let long =
            "|i, j| sum((0..N, 0..3), |k, r| y.get([i + r - 1, k, j]).unwrap_or(0.0) * w[[r, k]])";
        check_room("N = 5..=2147483647", "19, 64", long);
    }
}
