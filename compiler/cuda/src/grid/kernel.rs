//! Grids, kernels and buffers: the types that lowering fills in and codegen prints.

use std::convert::Infallible;

use super::stmt::{Stmt, ThreadLoops};
use super::{WARP, WARPGROUP};
use tvmtune_ir::dag::{Reducer, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{self, Nest, Statement};

/// A nest on a grid: its kernels are launched one after the other. See the
/// [module documentation](super).
pub type Grid = Nest<MemoryScope, Kernel>;

/// The memory of one tensor; of constant extents in shared memory and registers.
pub type Buffer = nest::Buffer<MemoryScope>;

/// The memory that a buffer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryScope {
    /// In memory the caller passes.
    Argument,
    /// In memory that lives through one launch and that all kernels see.
    Workspace,
    /// In the shared memory of a block.
    Shared(SharedMemory),
    /// In each thread, which sees only its own.
    Registers,
    /// Nowhere.
    Unused,
    /// Of a block or of its threads: `memory::place` decides. No buffer of a [`Grid`] is that.
    Undecided,
}

/// A place in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedMemory {
    /// Bytes from its start.
    pub offset: u32,
    /// Of a buffer that MMA instructions read: the bytes of its rows, 32, 64 or 128, whose 16-byte
    /// chunks are swizzled so that a column of them is in all banks.
    pub swizzle: Option<u32>,
    /// Of a buffer that boxes are copied to: whether `f32` are rounded to TF32 on their way.
    pub is_rounded: bool,
}

impl MemoryScope {
    /// Returns whether it is memory that all blocks see.
    pub fn is_global(self) -> bool {
        matches!(self, Self::Argument | Self::Workspace)
    }

    /// Returns whether it is memory of a block or of its threads.
    pub fn is_local(self) -> bool {
        matches!(self, Self::Shared(_) | Self::Registers | Self::Undecided)
    }

    /// Returns whether it is shared memory.
    pub fn is_shared(self) -> bool {
        self.shared().is_some()
    }

    /// Returns the place in shared memory.
    pub fn shared(self) -> Option<SharedMemory> {
        match self {
            Self::Shared(it) => Some(it),
            _ => None,
        }
    }

    /// Returns the bytes of swizzled rows.
    pub fn swizzle(self) -> Option<u32> {
        self.shared()?.swizzle
    }
}

/// One launch: a grid of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel<L = Infallible> {
    /// The loops that number the blocks, outermost first: name and extent.
    pub blocks: Vec<BlockVar>,
    /// The tiles of persistent blocks.
    pub tiles: Option<Tiles>,
    /// Threads of a block that run the body.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Offset of the partial results of warps in it, for block all-reduces.
    pub partials: Option<u32>,
    /// Register fragments of MMA operands.
    pub fragments: Vec<Fragment>,
    /// Variables that are positions of the thread.
    pub thread_vars: Vec<ThreadVar>,
    /// Slots that boxes are copied to.
    pub circular_buffers: Vec<CircularBuffer>,
    /// The tensor maps of TMA loads.
    pub tensor_maps: Vec<TensorMap>,
    /// The statements of the producer: one thread of a warp of its own, which issues TMA loads.
    pub producer: Vec<Stmt<L>>,
    /// The statements of each of the other threads, the consumers.
    pub body: Vec<Stmt<L>>,
}

/// A circular buffer of pipeline stages in shared memory, filled by the producer and emptied by the
/// consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircularBuffer {
    /// The variable of the stage that each side is at.
    pub stage: VarId,
    /// Number of stages.
    pub n_stages: u32,
    /// Bytes of a full stage.
    pub stage_bytes: u32,
    /// Offset of its barriers in shared memory: the full barrier of each stage, then the empty
    /// barrier of each.
    pub barriers: u32,
}

/// A TMA descriptor: boxes of a tensor in memory, as the hardware copies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The tensor.
    pub tensor: TensorId,
    /// The buffer in shared memory that they are copied to.
    pub to: TensorId,
    /// Elements of a box along each dimension of the tensor.
    pub box_extents: Vec<i64>,
    /// Distance of neighbors in the tensor, along each dimension.
    pub element_strides: Vec<i64>,
    /// True if boxes go to all blocks of a cluster.
    pub is_multicast: bool,
}

/// Registers for operands of MMA instructions, of which each thread of a warp has a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// For people; not unique.
    pub name: String,
    /// Number of operands.
    pub count: i64,
    /// 32-bit registers of each in one thread.
    pub registers: u32,
}

/// A loop over blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockVar {
    /// Its variable.
    pub var: VarId,
    /// For people; not unique.
    pub name: String,
    /// Number of iterations.
    pub extent: Poly,
    /// True if its iterations are the blocks of a cluster; such loops are the last.
    pub in_cluster: bool,
    /// True if iterations are numbered from the last one.
    pub is_reversed: bool,
}

/// The tiles of persistent blocks: block `b` runs those of number `b`, `b + stride`,
/// `b + 2 * stride` and so on.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    /// The persistent tile loop, around the whole body.
    pub tile_loop: VarId,
    /// The loop that numbers the blocks.
    pub block: VarId,
    /// Distance of the tiles of a block, and the most blocks there are.
    pub stride: i64,
    /// The loops that number the tiles, outermost first.
    pub vars: Vec<BlockVar>,
    /// The stream-K decomposition of the last tiles, if there is one.
    pub stream_k: Option<StreamK>,
}

/// A stream-K decomposition: the iterations of all tiles in a row, of which blocks have equal
/// consecutive shares.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamK {
    /// Iterations of a tile.
    pub iterations: Poly,
    /// The work of a block on its share of a tile.
    pub work_unit: WorkUnit,
}

/// The work of a block on its share of a tile.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkUnit {
    /// Partial sums.
    PartialSums {
        /// The first iteration.
        first: VarId,
        /// The iteration after the last one.
        end: VarId,
        /// The accumulators.
        sums: Vec<(TensorId, Reducer)>,
    },
    /// The fix-up of a tile that the block began and did not end: the sum of the partial sums.
    FixUp {
        /// Work units of that tile: the block's own, and those of the blocks that follow.
        count: VarId,
    },
}

impl Tiles {
    /// Returns the number of tiles.
    pub fn count(&self) -> Poly {
        self.vars.iter().fold(Poly::constant(1), |n, it| n * it.extent.clone())
    }

    /// Returns the variables of the work unit, each with its exclusive upper bound.
    pub fn work_unit_vars(&self) -> Vec<(VarId, Poly)> {
        let Some(StreamK { iterations, work_unit }) = &self.stream_k else { return Vec::new() };
        match work_unit {
            WorkUnit::PartialSums { first, end, .. } => {
                vec![(*first, iterations.clone()), (*end, iterations.clone() + Poly::constant(1))]
            }
            WorkUnit::FixUp { count } => vec![(*count, Poly::constant(self.stride + 1))],
        }
    }
}

/// `var = thread % range / step`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadVar {
    /// The variable.
    pub var: VarId,
    /// Consecutive threads with the same value.
    pub step: u32,
    /// Threads after which it starts again at 0.
    pub range: u32,
}

/// Registers of a consumer and of a producer thread, by the number of consumer warpgroups: more
/// than all threads get at launch.
const REGISTERS: [Option<(u32, u32)>; 4] = [None, None, Some((232, 40)), Some((160, 32))];

impl Kernel {
    /// Returns the registers of consumers and of the producer after `setmaxnreg`, where it is used.
    pub fn redistributed_registers(&self) -> Option<(u32, u32)> {
        let groups = (self.threads / WARPGROUP) as usize;
        let divides = !self.producer.is_empty() && self.uses_wgmma();
        REGISTERS.get(groups).copied().flatten().filter(|_| divides)
    }

    /// Returns the registers of all threads of a block after `setmaxnreg`, where it is used. They are no
    /// more than those of its launch, or it waits for ever.
    pub fn registers_after_redistribution(&self) -> Option<u32> {
        let (many, few) = self.redistributed_registers()?;
        Some(many * self.threads + few * (self.block_threads() - self.threads))
    }

    /// Returns the threads of a block, the producer's warps among them.
    pub fn block_threads(&self) -> u32 {
        match (self.producer.is_empty(), self.threads % WARPGROUP) {
            (true, _) => self.threads,
            // `setmaxnreg` is for whole warpgroups.
            (false, 0) => self.threads + WARPGROUP,
            (false, _) => self.threads + WARP,
        }
    }

    /// Returns whether it has WGMMA instructions.
    pub fn uses_wgmma(&self) -> bool {
        nest::any(&self.body, &|it| matches!(it, Stmt::Wgmma { .. }))
    }

    /// Returns whether the four lanes of a row exchange elements.
    pub fn exchanges_in_quads(&self) -> bool {
        nest::any(&self.body, &|it| matches!(it, Stmt::TransposeQuad { .. }))
    }

    /// Returns the blocks of a cluster that TMA loads multicast to; 1 if none does.
    pub fn cluster(&self) -> u32 {
        if !self.tensor_maps.iter().any(|it| it.is_multicast) {
            return 1;
        }
        let extent = |it: &BlockVar| it.extent.as_constant().unwrap_or(1) as u32;
        self.blocks.iter().filter(|it| it.in_cluster).map(extent).product()
    }

    /// Returns the statements of all threads: those of the producer, then of the consumers.
    pub fn statements(&self) -> impl Iterator<Item = &Stmt> {
        self.producer.iter().chain(&self.body)
    }
}

/// Hands out the next variable.
pub(super) fn fresh(n_vars: &mut u32) -> VarId {
    *n_vars += 1;
    VarId(*n_vars - 1)
}

/// Returns the variable of a position of threads, which is added if there is none.
pub(super) fn thread_var(
    vars: &mut Vec<ThreadVar>,
    step: u32,
    range: u32,
    n_vars: &mut u32,
) -> VarId {
    if let Some(known) = vars.iter().find(|it| (it.step, it.range) == (step, range)) {
        return known.var;
    }
    let var = fresh(n_vars);
    vars.push(ThreadVar { var, step, range });
    var
}

impl<L: ThreadLoops> Kernel<L> {
    /// Bounds the variables of loops, over blocks or in a thread.
    pub(crate) fn bound_loops(&self, facts: &mut Facts) {
        let of_tiles = self.tiles.iter().flat_map(|it| &it.vars);
        for it in self.blocks.iter().chain(of_tiles) {
            facts.bound_var(it.var, it.extent.clone());
        }
        for (var, extent) in self.tiles.iter().flat_map(Tiles::work_unit_vars) {
            facts.bound_var(var, extent);
        }
        for stmt in self.producer.iter().chain(&self.body) {
            stmt.walk(&mut |it| {
                if let Stmt::For { var, extent, .. } = it {
                    facts.bound_var(*var, extent.clone());
                }
            });
        }
    }
}

impl<L> Kernel<L> {
    /// Returns the loops that number tiles, outermost first: each block has one, or runs several.
    pub fn tile_vars(&self) -> impl Iterator<Item = &BlockVar> {
        let tiles = self.tiles.as_ref();
        self.blocks.iter().flat_map(move |it| match tiles {
            Some(tiles) if tiles.block == it.var => &tiles.vars[..],
            _ => std::slice::from_ref(it),
        })
    }
}
