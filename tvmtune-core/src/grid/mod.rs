//! Step 5 of 12, for GPUs: a nest placed on a grid: blocks, threads, shared memory, registers.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> [grid] -> codegen::cuda -> compile -> measure -> ...
//! ```
//!
//! In: a [`Nest`]. Out: a [`Grid`]: for each phase of the nest a kernel, written as what one of its
//! threads does; phases of one block that follow one another are one kernel. Next:
//! [`crate::codegen::cuda`] prints it.
//!
//! Parallel loops become blocks. Loops over threads, wherever they stand, become positions of the
//! threads of one block: the walk goes from loops that run one after the other, each by all threads
//! (`threads`), over where each buffer lives (`memory`) and what lies outside of tensors (`tails`),
//! to the one program that every thread runs (`bind`), waiting for the others where it must
//! (`barrier`).
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
mod distribute;
mod feed;
mod group;
mod memory;
mod pipeline;
mod reduce;
mod tails;
mod tensor;
mod threads;
mod write_out;

use crate::dag::{DType, Dim, Expr, Reducer, Scalar, ScalarId, TensorId, Types};
use crate::nest::{self, Guard, Nest};
use crate::poly::{DimId, Facts, Poly, VarId};
use crate::schedule::Layout;

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
    /// Threads that combine values inside of which others are told apart.
    #[error("a loop over threads stands inside one whose threads reduce together")]
    ReductionOutside,
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

/// What a thread does.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `for var in 0..extent`, in order.
    For {
        /// The loop's variable.
        var: VarId,
        /// For people; not unique.
        name: String,
        /// Number of iterations; none if it is 0 or less.
        extent: Poly,
        /// How it is written.
        kind: LoopKind,
        /// What each iteration does.
        body: Vec<Stmt>,
    },
    /// A loop over threads, until `bind` makes it a position: its iterations are runs of `step`
    /// threads among the `range` that have got here.
    Thread {
        /// The loop's variable.
        var: VarId,
        /// Number of iterations.
        extent: u32,
        /// Threads of one iteration.
        step: u32,
        /// Threads there are for all of them.
        range: u32,
        /// What each iteration does.
        body: Vec<Stmt>,
    },
    /// `if all guards hold`
    If {
        /// At least one.
        guards: Vec<Guard>,
        /// What happens then.
        body: Vec<Stmt>,
    },
    /// `tensor[index] = value`
    Store {
        /// The buffer written.
        tensor: TensorId,
        /// Where.
        index: Vec<Poly>,
        /// Of the buffer's type.
        value: Expr,
    },
    /// `tensor[index] = reducer(tensor[index], value)`
    Update {
        /// The buffer read and written.
        tensor: TensorId,
        /// Where.
        index: Vec<Poly>,
        /// How old and new combine.
        reducer: Reducer,
        /// Of the buffer's type.
        value: Expr,
    },
    /// A register gets what those of `range` threads in a row combine to, in all of them.
    Combine {
        /// A buffer in registers.
        tensor: TensorId,
        /// Which of its elements.
        index: Vec<Poly>,
        /// How they combine.
        reducer: Reducer,
        /// How many threads; a power of two up to a warp, else whole warps.
        range: u32,
    },
    /// Stores that may happen any time until this thread waits for their group.
    Async {
        /// Copies from memory that nobody writes to shared memory.
        body: Vec<Stmt>,
    },
    /// Ends a group of stores that happen later.
    Commit,
    /// Waits until all groups of this thread but the last so many have happened.
    Wait {
        /// How many may still be on their way.
        groups: u32,
    },
    /// A warp loads an operand of a matrix instruction.
    LoadFragment {
        /// Which of the kernel's fragments.
        fragment: usize,
        /// Which operand of those.
        at: Poly,
        /// What it is made of.
        operand: Operand,
    },
    /// A warp multiplies and adds: `m16n8k16`, or `m16n8k32` of 8-bit integers.
    Multiply {
        /// The accumulators, in registers.
        tensor: TensorId,
        /// The four of one thread: rows `g` and `g + 8`, columns `2q` and `2q + 1` of each.
        index: Box<[Vec<Poly>; 4]>,
        /// The first operand: fragment, and which.
        a: (usize, Poly),
        /// The second.
        b: (usize, Poly),
        /// The type of the operands.
        dtype: DType,
    },
    /// A warpgroup multiplies two operands in shared memory, and adds, some time until it waits:
    /// `wgmma.mma_async.m64nNk16`, or `k32` of 8-bit integers.
    GroupMultiply {
        /// What is added to.
        accumulators: Box<Accumulators>,
        /// N, a multiple of 8 up to 256.
        columns: u32,
        /// The 64 rows, and the columns.
        operands: Box<[SharedOperand; 2]>,
        /// The type of the operands.
        dtype: DType,
    },
    /// A batch of instructions.
    Matrices {
        /// Each a [`Stmt::GroupMultiply`].
        body: Vec<Stmt>,
    },
    /// Waits until all batches but the last so many are done.
    WaitMatrices {
        /// How many may still run.
        batches: u32,
        /// What they add to.
        sum: TensorId,
    },
    /// The feeder copies a box to the slot it is at; what lies outside of the tensor is zero.
    CopyBox {
        /// Which of the kernel's maps.
        map: usize,
        /// The position of its first element in the buffer.
        position: Poly,
        /// Where it starts in the tensor.
        coordinates: Vec<Poly>,
        /// The ring.
        ring: usize,
    },
    /// The feeder waits until its slot is empty, and says how many bytes it will copy to it.
    WaitEmpty {
        /// The ring.
        ring: usize,
    },
    /// Threads wait until their slot is full.
    WaitFull {
        /// The ring.
        ring: usize,
    },
    /// Threads are done with a slot.
    Release {
        /// The ring.
        ring: usize,
        /// Whether with the one before the one they are at.
        before: bool,
    },
    /// On to the next slot.
    Advance {
        /// The ring.
        ring: usize,
    },
    /// What this thread wrote to shared memory can be read by who reads it asynchronously.
    FenceAsync,
    /// So many threads in a row wait for one another.
    Sync {
        /// Up to [`WARP`]: those of a warp wait, else those of the block.
        range: u32,
    },
}

/// An operand of a matrix instruction, where it lies: element `(row, k)` at
/// `base + row * row_stride + k * k_stride`. Rows of the second operand are columns of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The buffer.
    pub tensor: TensorId,
    /// Position of the first element.
    pub base: Poly,
    /// Elements from one row to the next.
    pub row_stride: i64,
    /// Elements from one step of the reduction to the next.
    pub k_stride: i64,
    /// Whether it is the first operand, of 16 rows; else the second, of 8.
    pub is_first: bool,
    /// How threads get at it.
    pub way: Way,
}

/// The accumulators of one thread of a warpgroup, in registers: number `4j + 2h + p` of an
/// instruction, which is of row `8h` and column `8j + p` of the thread's, is
/// `base + eight * j + half * h + pair * p`.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulators {
    /// The buffer.
    pub tensor: TensorId,
    /// Position of the first.
    pub base: Poly,
    /// Registers from one row to the one 8 below.
    pub half: i64,
    /// Registers from one column to the next.
    pub pair: i64,
    /// Registers from one column to the one 8 further.
    pub eight: i64,
}

/// An operand of a warpgroup's matrix instruction, in a [permuted](Buffer::permuted) buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedOperand {
    /// The buffer.
    pub tensor: TensorId,
    /// Position of its first element.
    pub base: Poly,
    /// Whether neighbors in memory are neighbors in rows (columns, of the second operand); else
    /// along the reduction.
    pub transposed: bool,
    /// If transposed: elements from one panel, as wide as the buffer's rows, to the next.
    pub panel: i64,
}

/// How threads get at an operand of a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Whole rows of 16 bytes of shared memory, exchanged by the hardware: along the reduction, or
    /// transposed.
    Matrices {
        /// Whether neighbors in memory are neighbors in rows.
        transposed: bool,
    },
    /// Element by element.
    Elements,
}

/// How a loop is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopKind {
    /// As a loop.
    Serial,
    /// As a loop, with copies on their way that many iterations ahead, this one counted.
    Pipelined(u8),
    /// The same, with copies made by the feeder; none is left once it has its part.
    Fed(u8),
    /// With its body repeated.
    Unrolled,
    /// The same, where no matrix instruction took its place.
    Tensor,
    /// As one access of several elements where memory allows it, else repeated.
    Vectorized,
}

/// Places a nest on a grid.
///
/// # Errors
///
/// If the schedule asks for what no GPU does.
pub fn place(nest: &Nest) -> Result<Grid, Unplaceable> {
    let nest = &*nest::fix(nest);
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
        let mut kernel = threads::kernel(phases, nest, &mut grid.buffers, &mut n_vars)?;
        let facts = kernel_facts(&kernel, &facts);
        tails::fill(&mut kernel, &grid.buffers, &facts);
        memory::place(&mut kernel, &mut grid.buffers, &facts, &mut n_vars)?;
        barrier::insert(&mut kernel, &grid.buffers)?;
        let in_registers = |it: TensorId| grid.buffers[it.0 as usize].home == Home::Registers;
        bind::bind(&mut kernel, &in_registers, &mut n_vars);
        group::find(&mut kernel, &mut grid.buffers);
        banks::pad(&kernel, &mut grid.buffers);
        tensor::find(&mut kernel, &grid.buffers);
        memory::allocate(&mut kernel, &mut grid.buffers)?;
        grid.kernels.push(kernel);
    }
    Ok(grid)
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
    for block in &kernel.blocks {
        facts.bound_var(block.var, block.extent.clone());
    }
    visit(&kernel.body, &mut facts);
    facts
}

impl Kernel {
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

impl Stmt {
    /// The statements inside.
    pub fn body(&self) -> &[Stmt] {
        match self {
            Stmt::For { body, .. }
            | Stmt::Thread { body, .. }
            | Stmt::If { body, .. }
            | Stmt::Matrices { body }
            | Stmt::Async { body } => body,
            _ => &[],
        }
    }

    fn body_mut(&mut self) -> Option<&mut Vec<Stmt>> {
        match self {
            Stmt::For { body, .. }
            | Stmt::Thread { body, .. }
            | Stmt::If { body, .. }
            | Stmt::Matrices { body }
            | Stmt::Async { body } => Some(body),
            _ => None,
        }
    }

    /// Calls `visit` with this statement and all inside it, outermost first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        visit(self);
        for stmt in self.body() {
            stmt.walk(visit);
        }
    }

    /// Whether threads wait in it, for one another or for copies.
    pub fn waits(&self) -> bool {
        let mut found = false;
        self.walk(&mut |it| {
            found |= matches!(
                it,
                Stmt::Sync { .. }
                    | Stmt::Combine { .. }
                    | Stmt::Commit
                    | Stmt::Wait { .. }
                    | Stmt::WaitMatrices { .. }
                    | Stmt::WaitFull { .. }
                    | Stmt::Release { .. }
            );
        });
        found
    }
}
