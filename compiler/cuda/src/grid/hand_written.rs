//! Kernels that somebody wrote, as kernels of a grid: their launches, without statements.

use super::kernel::BlockVar;
use super::memory::undecided;
use super::{Buffer, Grid, Kernel, MemoryScope};
use tvmtune_ir::dag::kernel_template::SetLaunch;
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::nest::{HandWritten, Nest};

/// Returns the grid of hand-written kernels: nothing in it says what they do.
pub(super) fn grid(nest: &Nest, written: &HandWritten) -> Grid {
    let buffer = |it| {
        let buffer: Buffer = undecided(it);
        let is_argument = buffer.scope == MemoryScope::Argument;
        // Intermediate tensors of the definition have no memory of their own in a hand-written kernel.
        let scope = if is_argument { buffer.scope } else { MemoryScope::Unused };
        Buffer { scope, ..buffer }
    };
    Grid {
        name: nest.name.clone(),
        dims: nest.dims.clone(),
        scalars: nest.scalars.clone(),
        buffers: nest.buffers.iter().map(buffer).collect(),
        params: nest.params.clone(),
        outputs: nest.outputs.clone(),
        n_vars: nest.n_vars + 1,
        threads: nest.threads,
        hand_written: Some(written.clone()),
        body: written.launches.iter().map(|it| kernel(it, VarId(nest.n_vars))).collect(),
    }
}

fn kernel(launch: &SetLaunch, block: VarId) -> Kernel {
    let SetLaunch { grid, threads, shared_bytes } = launch;
    let blocks = BlockVar {
        var: block,
        name: "block".to_owned(),
        extent: grid.clone(),
        in_cluster: false,
        is_reversed: false,
    };
    Kernel {
        blocks: vec![blocks],
        tiles: None,
        threads: *threads,
        shared_bytes: *shared_bytes,
        partials: None,
        fragments: Vec::new(),
        thread_vars: Vec::new(),
        circular_buffers: Vec::new(),
        tensor_maps: Vec::new(),
        producer: Vec::new(),
        body: Vec::new(),
    }
}
