//! The schedule used where nothing was measured.
//!
//! In: a [`Dag`] and a [`Target`]. Out: the first sketch of the dag at the options of the analytic cost
//! model: tiles from registers and ports, blocks from cache sizes, threads from an estimate of the
//! work. Search starts from the same point.

use super::sketch::{Sketch, sketches};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_schedule::Schedule;

/// Returns a schedule that is good with no measurement. Never fails: where no template applies, loops
/// run as the program wrote them.
pub fn schedule(dag: &Dag, target: &Target) -> Schedule {
    let default = |it: &Sketch| Schedule::replay(dag, &it.instructions(&it.default)).ok();
    let sketches = sketches(dag, target);
    let mut schedules = sketches.iter().filter_map(default);
    schedules.find(|it| can_run(it, target)).unwrap_or_else(|| Schedule::new(dag))
}

/// Returns whether a device runs a schedule at all: CPUs run any.
fn can_run(schedule: &Schedule, target: &Target) -> bool {
    match target {
        Target::Cpu(_) => true,
        #[cfg(feature = "cuda")]
        Target::Gpu(gpu) => {
            let max_bytes = gpu.arch.limits().block_shared_bytes;
            let grid = tvmtune_cuda::grid::place(&tvmtune_schedule::nest::lower(schedule));
            grid.is_ok_and(|it| it.body.iter().all(|it| it.shared_bytes <= max_bytes))
        }
        #[cfg(not(feature = "cuda"))]
        Target::Gpu(_) => schedule.trace.is_empty(),
    }
}
