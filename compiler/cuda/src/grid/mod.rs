//! Step 5 of 12, for GPUs: a nest placed on a grid: blocks, threads, shared memory, registers.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> [grid] -> codegen::cuda -> compile -> measure -> ...
//! ```
//!
//! In: a [`Nest`]. Out: a [`Grid`]: for each phase of the nest a kernel, written as what one of its
//! threads does; phases of one block that follow one another are one kernel. Next:
//! [`crate::codegen`] prints it.
//!
//! Parallel loops become blocks. Loops over threads, wherever they stand, become positions of the
//! threads of one block: the walk goes from loops that run one after the other, each by all threads
//! (`threads`), over where each buffer lives (`memory`) and what lies outside of tensors (`tails`),
//! to the one program that every thread runs (`bind`), waiting for the others where it must
//! (`barrier`). Blocks may take several tiles (`persistent`), or parts of some (`stream`); those with
//! most to do start first (`order`).
//!
//! # Invariants
//!
//! - Whether a thread reaches a [`Stmt::Sync`] or a [`Stmt::Combine`] does not depend on the thread.
//! - Registers have constant extents, and their indices depend on loops that are written out.
//! - What one thread wrote and another reads, or writes again, has a [`Stmt::Sync`] between.
//!
//! # Source
//!
//! Loops over threads that stand one after the other, fused into one program with barriers: the
//! reverse of the loop fission by which MCUDA (Stratton et al., 2008) and POCL run kernels on CPUs.

mod banks;
mod barrier;
mod bind;
mod copied;
mod distribute;
mod feed;
mod group;
mod memory;
mod operand;
mod order;
mod persistent;
mod pipeline;
mod reduce;
mod stmt;
mod stream;
mod tails;
mod tensor;
mod threads;
mod write_out;

pub use copied::{Copied, copied};
use operand::Spreads;
pub use stmt::{
    Accumulators, FirstOperand, LoopKind, Operand, RegisterOperand, SharedOperand, Stmt, Way,
};
pub use stream::Division;
use tvmtune_ir::dag::{DType, Dim, Reducer, Scalar, ScalarId, TensorId, Types};
use tvmtune_ir::poly::{DimId, Facts, Poly, VarId};
use tvmtune_schedule::Layout;
use tvmtune_schedule::nest::{self, Nest};

/// Threads of a warp.
pub const WARP: u32 = 32;
/// Threads of four warps that multiply together.
pub const WARPGROUP: u32 = 4 * WARP;
/// Threads of the largest block.
pub const MOST_THREADS: u32 = 1024;

/// Why a nest cannot run on a grid as it is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Unplaceable {
    /// The number of threads is known at launch only.
    #[error("the extent of a loop over threads is no constant")]
    DynamicThreads,
    /// More threads than a block has.
    #[error("{0} threads in a block, of {MOST_THREADS} at most")]
    Threads(u32),
    /// Memory of a block, or registers, whose size is known at launch only.
    #[error("memory of a block whose size is no constant")]
    DynamicMemory,
    /// Threads that wait for one another in a loop which not all of them run as often.
    #[error("threads wait for one another in a loop that they do not all run as often")]
    Divergent,
    /// A fed loop copies what are no boxes of a tensor.
    #[error("a fed loop copies what are no boxes of a tensor")]
    NotBoxes,
    /// All threads of a block would combine values, and its feeder would not come.
    #[error("all threads of a block combine values beside a loop that is fed")]
    FedReduction,
    /// Blocks would take parts of tiles that no single loop adds up.
    #[error("blocks take parts of tiles that no single loop adds up")]
    Undivided,
    /// Threads that combine values inside of which others are told apart.
    #[error("a loop over threads stands inside one whose threads reduce together")]
    ReductionOutside,
    /// No instruction reads an operand that is in registers for one.
    #[error("no matrix instruction reads an operand that is in registers")]
    OperandInRegisters,
    /// So many bytes of shared memory.
    #[error("{0} bytes of shared memory in a block")]
    Shared(u64),
    /// So many 4-byte registers for one thread's values.
    #[error("{0} registers in arrays of one thread")]
    Registers(u64),
}

/// A nest on a grid. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The program's name, for people.
    pub name: String,
    /// The dynamic dimensions.
    pub dims: Vec<Dim>,
    /// The run-time scalars.
    pub scalars: Vec<Scalar>,
    /// Where each tensor lives: those of the schedule by the same ids, then those added here.
    pub buffers: Vec<Buffer>,
    /// The parameters, in order of declaration.
    pub params: Vec<TensorId>,
    /// The results, in order.
    pub outputs: Vec<TensorId>,
    /// What is launched, one after the other.
    pub kernels: Vec<Kernel>,
}

/// The memory of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// For people; unique.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// Extents as stored, outermost first; constant in shared memory and registers.
    pub shape: Vec<Poly>,
    /// Where it lives.
    pub home: Home,
    /// How a weight is rearranged before it is passed.
    pub layout: Option<Layout>,
    /// Of a buffer that matrix instructions read in shared memory: the bytes of its rows, 32, 64
    /// or 128, whose 16-byte chunks are permuted so that a column of them is in all banks.
    pub permuted: Option<u32>,
    /// Of a buffer that boxes are copied to: whether `f32` are rounded to TF32 on their way.
    pub is_rounded: bool,
}

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Home {
    /// In memory the caller passes.
    Argument,
    /// In memory that lives through one launch and that all kernels see.
    Workspace,
    /// In the shared memory of a block, at that many bytes from its start.
    Shared(u32),
    /// In each thread, which sees only its own.
    Registers,
    /// Nowhere.
    Unused,
}

/// One launch: a grid of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The loops that number the blocks, outermost first: name and extent.
    pub blocks: Vec<BlockVar>,
    /// Where blocks take several tiles: which.
    pub tiles: Option<Tiles>,
    /// Threads of a block that run the body.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Where in it warps leave what they combined, if blocks combine anything.
    pub partials: Option<u32>,
    /// Operands of matrix instructions, in registers.
    pub fragments: Vec<Fragment>,
    /// Variables that say which thread it is.
    pub thread_vars: Vec<ThreadVar>,
    /// Slots that boxes are copied to.
    pub rings: Vec<Ring>,
    /// What boxes are copied.
    pub maps: Vec<BoxMap>,
    /// What one thread beside the others does: it copies boxes.
    pub feeder: Vec<Stmt>,
    /// What each of the other threads does.
    pub body: Vec<Stmt>,
}

/// A ring of slots in shared memory, which the feeder fills and the other threads empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The variable by which each side counts its way around: the slot it is at.
    pub slot: VarId,
    /// How many slots.
    pub depth: u32,
    /// Bytes that make a slot full.
    pub bytes: u32,
    /// Where in shared memory its barriers are: for each slot one that says it is full, then for
    /// each one that says it is empty.
    pub place: u32,
}

/// Boxes of a tensor in memory, as the hardware copies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxMap {
    /// The tensor.
    pub tensor: TensorId,
    /// The buffer in shared memory that they are copied to.
    pub to: TensorId,
    /// Elements of a box along each dimension of the tensor.
    pub extents: Vec<i64>,
    /// How far apart in the tensor they are, along each dimension.
    pub steps: Vec<i64>,
    /// Whether it goes to all blocks of a cluster.
    pub is_shared: bool,
}

/// Operands of matrix instructions: each thread of a warp has a part of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// For people; not unique.
    pub name: String,
    /// How many operands.
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
    /// How many there are.
    pub extent: Poly,
    /// Whether they run at the same time; the last ones do.
    pub in_cluster: bool,
    /// Whether the last iteration starts first.
    pub is_reversed: bool,
}

/// The tiles that blocks take, one after the other: of block `b`, those of number `b`,
/// `b + stride`, `b + 2 * stride` and so on.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    /// The loop of a block over its tiles, around all that it does.
    pub wave: VarId,
    /// The loop over blocks that numbers those which share the tiles.
    pub block: VarId,
    /// How many tiles further the next one of a block is: there are no more blocks than that.
    pub stride: i64,
    /// The loops that number the tiles, outermost first.
    pub vars: Vec<BlockVar>,
    /// How blocks divide the last ones between them, if they do.
    pub shares: Option<Shares>,
}

/// What blocks have of tiles that they divide between them. All tiles stand in a row, each as its
/// iterations; blocks have equal parts of that, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// The iterations of a tile.
    pub depth: Poly,
    /// What a block does with its part.
    pub part: Part,
}

/// What a block does with its part of a tile.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// It adds up.
    Sums {
        /// The part's first iteration.
        first: VarId,
        /// The iteration after its last one.
        end: VarId,
        /// What is added up, and how.
        sums: Vec<(TensorId, Reducer)>,
    },
    /// It joins the sums of a tile that it began and did not end.
    Joins {
        /// The parts of that tile: its own, and those of the blocks that follow.
        count: VarId,
    },
}

impl Tiles {
    /// How many there are.
    pub fn count(&self) -> Poly {
        self.vars.iter().fold(Poly::constant(1), |n, it| n * it.extent.clone())
    }

    /// The variables that say what part a block has, each with one more than it is at most.
    pub fn of_parts(&self) -> Vec<(VarId, Poly)> {
        let Some(Shares { depth, part }) = &self.shares else { return Vec::new() };
        match part {
            Part::Sums { first, end, .. } => {
                vec![(*first, depth.clone()), (*end, depth.clone() + Poly::constant(1))]
            }
            Part::Joins { count } => vec![(*count, Poly::constant(self.stride + 1))],
        }
    }
}

/// `var = thread % range / step`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadVar {
    /// The variable.
    pub var: VarId,
    /// So many threads in a row have the same value.
    pub step: u32,
    /// After so many threads it starts again at 0.
    pub range: u32,
}

/// Places a nest on a grid.
///
/// # Errors
///
/// If the schedule asks for what no GPU does.
pub fn place(nest: &Nest) -> Result<Grid, Unplaceable> {
    let nest = &*nest::fold_constant_dims(nest);
    let mut facts = Facts::default();
    for (n, dim) in nest.dims.iter().enumerate() {
        facts.bound_dim(DimId(n as u32), dim.range);
    }
    let mut grid = Grid {
        name: nest.name.clone(),
        dims: nest.dims.clone(),
        scalars: nest.scalars.clone(),
        buffers: nest.buffers.iter().map(memory::unplaced).collect(),
        params: nest.params.clone(),
        outputs: nest.outputs.clone(),
        kernels: Vec::new(),
    };
    let mut n_vars = nest.n_vars;
    // What one block does after another one costs no launch of its own.
    let are_one = |a: &nest::Stmt, b: &nest::Stmt| [a, b].into_iter().all(threads::is_one_block);
    for phases in nest.body.chunk_by(are_one) {
        let (buffers, first_var) = (grid.buffers.clone(), n_vars);
        let mut placed = place_phases(phases, nest, &mut grid.buffers, &mut n_vars, &facts, true);
        if placed == Err(Unplaceable::OperandInRegisters) {
            (grid.buffers, n_vars) = (buffers, first_var);
            placed = place_phases(phases, nest, &mut grid.buffers, &mut n_vars, &facts, false);
        }
        let mut kernel = placed?;
        let joining = stream::join(&mut kernel, &mut grid.buffers, &mut n_vars)?;
        grid.kernels.push(kernel);
        grid.kernels.extend(joining);
    }
    Ok(grid)
}

/// The kernel of some phases; with operands of instructions in registers, where that can be and is
/// allowed.
fn place_phases(
    phases: &[nest::Stmt],
    nest: &Nest,
    buffers: &mut Vec<Buffer>,
    n_vars: &mut u32,
    facts: &Facts,
    may_hold: bool,
) -> Result<Kernel, Unplaceable> {
    let mut kernel = threads::kernel(phases, nest, buffers, n_vars, facts)?;
    let facts = kernel_facts(&kernel, facts);
    let unneeded = tails::fill(&mut kernel, buffers, &facts);
    let spreads = match may_hold {
        true => Spreads::new(&kernel, buffers, n_vars),
        false => Spreads::default(),
    };
    memory::place(&mut kernel, buffers, &facts, (&unneeded, &spreads), n_vars)?;
    barrier::insert(&mut kernel, buffers)?;
    let in_registers = |it: TensorId| buffers[it.0 as usize].home == Home::Registers;
    bind::bind(&mut kernel, &in_registers, n_vars);
    group::find(&mut kernel, buffers, &spreads);
    if spreads.any_left(&kernel.body) {
        return Err(Unplaceable::OperandInRegisters);
    }
    banks::pad(&kernel, buffers);
    tensor::find(&mut kernel, buffers);
    order::longest_first(&mut kernel, &facts);
    memory::allocate(&mut kernel, buffers)?;
    Ok(kernel)
}

/// What is known of a kernel's variables.
fn kernel_facts(kernel: &Kernel, known: &Facts) -> Facts {
    fn visit(body: &[Stmt], facts: &mut Facts) {
        for stmt in body {
            match stmt {
                Stmt::For { var, extent, body, .. } => {
                    facts.bound_var(*var, extent.clone());
                    visit(body, facts);
                }
                Stmt::Thread { var, extent, body, .. } => {
                    facts.bound_var(*var, Poly::constant(i64::from(*extent)));
                    visit(body, facts);
                }
                other => visit(other.body(), facts),
            }
        }
    }
    let mut facts = known.clone();
    let of_tiles = kernel.tiles.iter().flat_map(|it| &it.vars);
    for it in kernel.blocks.iter().chain(of_tiles) {
        facts.bound_var(it.var, it.extent.clone());
    }
    for (var, extent) in kernel.tiles.iter().flat_map(Tiles::of_parts) {
        facts.bound_var(var, extent);
    }
    visit(&kernel.body, &mut facts);
    facts
}

/// Registers of a thread that multiplies, and of one that feeds, by how many warpgroups multiply:
/// more than all threads get at launch.
const REGISTERS: [Option<(u32, u32)>; 4] = [None, None, Some((232, 40)), Some((160, 32))];

impl Kernel {
    /// Registers that threads of the body, and those of the feeder, are dealt out, where that is not
    /// the same.
    pub fn granted_registers(&self) -> Option<(u32, u32)> {
        let groups = (self.threads / WARPGROUP) as usize;
        let divides = !self.feeder.is_empty() && self.multiplies_by_groups();
        REGISTERS.get(groups).copied().flatten().filter(|_| divides)
    }

    /// Threads of a block, the feeder's warps among them.
    pub fn block_threads(&self) -> u32 {
        match (self.feeder.is_empty(), self.threads % WARPGROUP) {
            (true, _) => self.threads,
            // Registers are dealt out to whole warpgroups.
            (false, 0) => self.threads + WARPGROUP,
            (false, _) => self.threads + WARP,
        }
    }

    /// Whether warpgroups multiply in it.
    pub fn multiplies_by_groups(&self) -> bool {
        let mut found = false;
        for stmt in &self.body {
            stmt.walk(&mut |it| found |= matches!(it, Stmt::GroupMultiply { .. }));
        }
        found
    }

    /// Blocks that run at the same time, so that boxes can be copied to all of them: 1 if none are.
    pub fn cluster(&self) -> u32 {
        if !self.maps.iter().any(|it| it.is_shared) {
            return 1;
        }
        let extent = |it: &BlockVar| it.extent.as_constant().unwrap_or(1) as u32;
        self.blocks.iter().filter(|it| it.in_cluster).map(extent).product()
    }

    /// The loops that number tiles, outermost first: each block has one, or takes several.
    pub fn tile_vars(&self) -> impl Iterator<Item = &BlockVar> {
        let tiles = self.tiles.as_ref();
        self.blocks.iter().flat_map(move |it| match tiles {
            Some(tiles) if tiles.block == it.var => &tiles.vars[..],
            _ => std::slice::from_ref(it),
        })
    }

    /// What all threads do: the feeder, then the others.
    pub fn statements(&self) -> impl Iterator<Item = &Stmt> {
        self.feeder.iter().chain(&self.body)
    }
}

impl Grid {
    /// The buffer of that tensor.
    pub fn buffer(&self, tensor: TensorId) -> &Buffer {
        &self.buffers[tensor.0 as usize]
    }
}

impl Types for Grid {
    fn tensor(&self, tensor: TensorId) -> DType {
        self.buffers[tensor.0 as usize].dtype
    }

    fn scalar(&self, scalar: ScalarId) -> DType {
        self.scalars[scalar.0 as usize].dtype
    }
}
