//! Kernels that somebody wrote, as kernels of a grid: their launches, without statements.

use super::kernel::BlockVar;
use super::memory::undecided;
use super::{Buffer, Grid, Kernel, MemoryScope};
use tvmtune_ir::dag::kernel_template::SetLaunch;
use tvmtune_ir::poly::{Poly, VarId};
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
        n_vars: nest.n_vars + AXES.len() as u32,
        threads: nest.threads,
        numerics: nest.numerics,
        hand_written: Some(written.clone()),
        body: written.launches.iter().map(|it| kernel(it, VarId(nest.n_vars))).collect(),
    }
}

/// The names of the numbers of a block, outermost first: blocks count in x the fastest.
const AXES: [&str; 3] = ["block_z", "block_y", "block"];

fn kernel(launch: &SetLaunch, first: VarId) -> Kernel {
    let block_var = |(n, (name, extent)): (u32, (&str, &Poly))| BlockVar {
        var: VarId(first.0 + n),
        name: name.to_owned(),
        extent: extent.clone(),
        in_cluster: false,
        is_reversed: false,
    };
    let axes = (0..).zip(AXES.into_iter().zip(launch.grid.iter().rev()));
    Kernel {
        blocks: axes.map(block_var).collect(),
        tiles: None,
        threads: launch.n_threads(),
        shared_bytes: launch.shared_bytes,
        partials: None,
        fragments: Vec::new(),
        thread_vars: Vec::new(),
        circular_buffers: Vec::new(),
        tensor_maps: Vec::new(),
        producer: Vec::new(),
        body: Vec::new(),
    }
}
