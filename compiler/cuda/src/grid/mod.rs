//! Step 5 of 12, for GPUs: a nest lowered to a grid: blocks, threads, shared memory, registers.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> [grid] -> codegen::cuda -> compile -> measure -> ...
//! ```
//!
//! In: a [`Nest`]. Out: a [`Grid`]: a kernel for each phase of the nest, as one of its threads runs
//! it; consecutive phases of one block are one kernel. Next: [`crate::codegen`] prints it.
//!
//! Parallel loops become blocks. Loops over threads, wherever they stand, become positions of the
//! threads of one block. `lowering` has the stages between, and what holds after each. Blocks may
//! run several tiles (`persistent`), or parts of some (`stream_k`); those with most work start first
//! (`lpt`).
//!
//! # Invariants
//!
//! - Whether a thread reaches a [`Stmt::Barrier`] or a [`Stmt::AllReduce`] does not depend on the
//!   thread.
//! - Registers have constant extents, and their indices depend on unrolled loops.
//! - Between a write of one thread and an access of another there is a [`Stmt::Barrier`].
//!
//! # Source
//!
//! Loops over threads that stand one after the other, fused into one program with barriers: the
//! reverse of the loop fission by which MCUDA (Stratton et al., 2008) and POCL run kernels on CPUs.

mod access_layout;
mod bank_conflicts;
mod barrier;
mod bind;
mod fix_up;
mod fragment_layout;
mod hand_written;
mod kernel;
mod lowering;
mod lpt;
mod memory;
mod mma;
mod persistent;
mod pipeline;
mod predicate;
mod predicated_load;
mod quad;
mod reduce;
mod shared_memory;
mod stmt;
mod stream_k;
mod threads;
mod unroll;
mod warp_specialize;
mod wgmma;

pub use kernel::{
    BlockVar, Buffer, CircularBuffer, Fragment, Grid, Kernel, MemoryScope, SharedMemory, StreamK,
    TensorMap, ThreadVar, Tiles, WorkUnit,
};
pub use persistent::resident_blocks;
pub use predicated_load::{PredicatedLoad, predicated_load};
pub use stmt::{
    Accumulators, FirstOperand, Operand, OperandLoad, RegisterOperand, Released, SharedOperand,
    Stmt, ThreadLoop, ThreadLoops,
};
pub use stream_k::Decomposition;

use lowering::Tables;
use tvmtune_ir::dag::Numerics;
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{self, Nest, Statement};

/// Kernels and statements whose loops over threads are not bound yet.
mod unbound {
    pub(super) type Kernel = super::Kernel<super::ThreadLoop>;
    pub(super) type Stmt = super::Stmt<super::ThreadLoop>;
}

/// Threads of a warp.
pub const WARP: u32 = 32;
/// Threads of a warpgroup, which runs WGMMA instructions.
pub const WARPGROUP: u32 = 4 * WARP;
/// Threads of the largest block.
pub const MAX_THREADS: u32 = 1024;

/// The reason why a nest cannot run on a grid as it is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Unplaceable {
    /// The number of threads is known at launch only.
    #[error("the extent of a loop over threads is no constant")]
    DynamicThreads,
    /// More threads than a block has.
    #[error("{0} threads in a block, of {MAX_THREADS} at most")]
    Threads(u32),
    /// Memory of a block, or registers, of a size that is known at launch only.
    #[error("memory of a block whose size is no constant")]
    DynamicMemory,
    /// A barrier in a loop that not all threads run equally often.
    #[error("threads wait for one another in a loop that they do not all run as often")]
    Divergent,
    /// The copies of a warp-specialized loop are no boxes of a tensor.
    #[error("the copies of a warp-specialized loop are no boxes of a tensor")]
    NotTmaLoads,
    /// A block all-reduce, in which the producer warp would have to take part.
    #[error("all threads of a block reduce together beside a warp-specialized loop")]
    BlockReductionBesideProducer,
    /// A stream-K loop whose tiles are no single sum.
    #[error("stream-K of tiles that no single loop adds up")]
    NotStreamK,
    /// A loop over threads inside of one whose threads reduce together.
    #[error("a loop over threads stands inside one whose threads reduce together")]
    NestedReduction,
    /// A register operand that no MMA instruction reads.
    #[error("no MMA instruction reads an operand that is in registers")]
    OperandInRegisters,
    /// More bytes of shared memory than can be addressed.
    #[error("{0} bytes of shared memory in a block")]
    Shared(u64),
    /// Results whose bits are fixed.
    #[error("`numerics = \"fixed\"` has no code for GPUs yet")]
    FixedNumerics,
    /// Too many 4-byte registers in arrays of one thread.
    #[error("{0} registers in arrays of one thread")]
    Registers(u64),
}

/// Lowers a nest to a grid.
///
/// # Errors
///
/// If the schedule cannot run on a GPU.
pub fn place(nest: &Nest) -> Result<Grid, Unplaceable> {
    if let Some(written) = &nest.hand_written {
        return Ok(hand_written::grid(nest, written));
    }
    if nest.numerics == Numerics::Fixed {
        return Err(Unplaceable::FixedNumerics);
    }
    let nest = &*nest::fold_constant_dims(nest);
    let facts = nest.facts();
    let mut tables = Tables {
        buffers: nest.buffers.iter().map(memory::undecided).collect(),
        n_vars: nest.n_vars,
    };
    let mut kernels = Vec::new();
    // Phases that one block runs one after the other need no launches of their own.
    let are_one = |a: &nest::Stmt, b: &nest::Stmt| [a, b].into_iter().all(threads::is_one_block);
    for phases in nest.body.chunk_by(are_one) {
        let mut kernel;
        (kernel, tables) = lowering::lower(phases, nest, tables, &facts)?;
        let fix_up = fix_up::fix_up(&mut kernel, &mut tables.buffers, &mut tables.n_vars)?;
        kernels.push(kernel);
        kernels.extend(fix_up);
    }
    let mut buffers = tables.buffers;
    for it in buffers.iter_mut().filter(|it| it.scope == MemoryScope::Undecided) {
        // No kernel accesses it.
        it.scope = MemoryScope::Unused;
    }
    Ok(Grid {
        name: nest.name.clone(),
        dims: nest.dims.clone(),
        scalars: nest.scalars.clone(),
        buffers,
        params: nest.params.clone(),
        outputs: nest.outputs.clone(),
        n_vars: tables.n_vars,
        threads: nest.threads,
        numerics: nest.numerics,
        hand_written: None,
        body: kernels,
    })
}
