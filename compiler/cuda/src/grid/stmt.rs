//! Statements of a kernel, as one thread runs them.
//!
//! Loops and stores come from the nest; the passes of the grid insert everything else. Loops over
//! threads are there until `bind`: a [`Stmt`] without a parameter can't hold any.

use std::convert::Infallible;

use tvmtune_ir::dag::{DType, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Guard, Statement, accesses};

/// A statement of one thread; `L` is [`ThreadLoop`] before threads are bound.
///
/// A `pipeline` is the index of a [circular buffer](super::Kernel::circular_buffers) of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt<L = Infallible> {
    /// `for var in 0..extent`, as in a nest. Blocks and threads are no loops any more; what is
    /// tensorized is unrolled where no MMA instruction took its place.
    For { var: VarId, name: String, extent: Poly, kind: LoopKind, body: Vec<Stmt<L>> },
    /// A loop over threads.
    Thread(L),
    /// `if all guards hold`, of at least one guard.
    If { guards: Vec<Guard>, body: Vec<Stmt<L>> },
    /// `tensor[index] = value`
    Store { tensor: TensorId, index: Vec<Poly>, value: Expr },
    /// `tensor[index] = reducer(tensor[index], value)`
    Update { tensor: TensorId, index: Vec<Poly>, reducer: Reducer, value: Expr },
    /// A warp or block all-reduce: a register of each of `range` consecutive threads becomes the
    /// reduction of all of them. Their number is a power of two up to a warp, else whole warps.
    AllReduce { tensor: TensorId, index: Vec<Poly>, reducer: Reducer, range: u32 },
    /// The four lanes of a warp that have a row exchange four pairs of registers each: pair `n` of lane
    /// `q` becomes pair `q` of lane `n`. The whole warp does so at the same time if it is converged. If
    /// it is ordered, a lane may then overwrite memory that another has read.
    TransposeQuad { tensor: TensorId, is_converged: bool, is_ordered: bool },
    /// Stores as `cp.async`, from memory that nobody writes to shared memory: complete once this
    /// thread has waited for their group.
    CpAsync { body: Vec<Stmt<L>> },
    /// `cp.async.commit_group`
    CpAsyncCommit,
    /// `cp.async.wait_group`: so many groups may still be pending.
    CpAsyncWait { groups: u32 },
    /// A warp loads operand number `at` of a [fragment](super::Kernel::fragments) of the kernel.
    LoadFragment { fragment: usize, at: Poly, operand: Operand },
    /// A warp's `mma.sync`: `m16n8k16`, or `m16n8k32` of 8-bit integers.
    Mma {
        /// The accumulators, in registers.
        tensor: TensorId,
        /// The four of one thread: rows `g` and `g + 8`, columns `2q` and `2q + 1` of each.
        index: Box<[Vec<Poly>; 4]>,
        /// The first operand: fragment, and number in it.
        a: (usize, Poly),
        /// The second.
        b: (usize, Poly),
        /// The type of the operands.
        dtype: DType,
    },
    /// A warpgroup's `wgmma.mma_async.m64nNk16`, or `k32` of 8-bit integers: complete once its
    /// group was waited for.
    Wgmma {
        /// The accumulators.
        accumulators: Box<Accumulators>,
        /// N, a multiple of 8 up to 256.
        columns: u32,
        /// The 64 rows.
        a: Box<FirstOperand>,
        /// The columns.
        b: Box<SharedOperand>,
        /// The type of the operands.
        dtype: DType,
    },
    /// A group of WGMMA instructions, committed together: each a [`Stmt::Wgmma`].
    WgmmaGroup { body: Vec<Stmt<L>> },
    /// `wgmma.wait_group`: so many groups, which accumulate in `sum`, may still be pending.
    WgmmaWait { groups: u32, sum: TensorId },
    /// The producer copies a box of a tensor to its stage by `cp.async.bulk.tensor`, with zero fill
    /// outside of the tensor.
    TmaLoad {
        /// Index of the kernel's tensor map.
        tensor_map: usize,
        /// The position of the box in the buffer.
        position: Poly,
        /// The first element in the tensor.
        coordinates: Vec<Poly>,
        /// Index of the kernel's circular buffer.
        pipeline: usize,
    },
    /// The producer waits until its stage is empty, and expects the bytes of one.
    ProducerAcquire { pipeline: usize },
    /// Consumers wait until their stage is full.
    ConsumerWait { pipeline: usize },
    /// Consumers are done with a stage.
    ConsumerRelease { pipeline: usize, stage: Released },
    /// On to the next stage.
    AdvanceStage { pipeline: usize },
    /// `fence.proxy.async`: stores to shared memory become visible to WGMMA and TMA.
    FenceProxyAsync,
    /// A barrier of `range` consecutive threads: up to [`WARP`](super::WARP) of a warp, else of the
    /// block.
    Barrier { range: u32 },
}

/// A loop over threads, before it is bound to positions of threads: its iterations are runs of
/// `step` threads among the `range` that have got here.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadLoop {
    /// The loop's variable.
    pub var: VarId,
    /// Number of iterations.
    pub extent: u32,
    /// Threads of one iteration.
    pub step: u32,
    /// Threads there are for all of them.
    pub range: u32,
    /// The statements of an iteration.
    pub body: Vec<Stmt<ThreadLoop>>,
}

/// The stage that consumers release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The one they are at.
    Current,
    /// The one before.
    Previous,
}

/// An operand of an MMA instruction in memory: element `(row, k)` at
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
    /// True if it is the first operand, of 16 rows; else the second, of 8.
    pub is_first: bool,
    /// The kind of load.
    pub load: OperandLoad,
}

/// The accumulators of one thread of a warpgroup, in registers: number `4j + 2h + p` of an
/// instruction, in row `8h` and column `8j + p` of the thread's, is
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

/// A WGMMA operand in a [swizzled](super::Buffer::swizzle) buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedOperand {
    /// The buffer.
    pub tensor: TensorId,
    /// Position of its first element.
    pub base: Poly,
    /// True if it is MN-major: neighbors in memory are neighbors in rows (columns, of the second
    /// operand); else K-major.
    pub transposed: bool,
    /// If transposed: elements from one panel, as wide as the buffer's rows, to the next.
    pub panel: i64,
}

/// The first operand of a WGMMA instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum FirstOperand {
    /// In shared memory.
    Shared(SharedOperand),
    /// In the registers of the threads.
    Registers(RegisterOperand),
}

/// The fragment of a register operand that one thread of a warpgroup has: the element in row `8h`
/// of the thread's, at step `8f + p` of those that start at its own, is
/// `base + half * h + far * f + pair * p`.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterOperand {
    /// The buffer, of 16-bit elements.
    pub tensor: TensorId,
    /// Position of the first.
    pub base: Poly,
    /// From one row to the one 8 below.
    pub half: i64,
    /// From one step of the reduction to the one 8 further.
    pub far: i64,
    /// From one step of the reduction to the next.
    pub pair: i64,
}

/// The load of an operand of an MMA instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandLoad {
    /// By `ldmatrix`, from rows of 16 bytes of shared memory.
    Ldmatrix {
        /// True if neighbors in memory are neighbors in rows: `.trans`.
        transposed: bool,
    },
    /// Element by element.
    Elements,
}

/// The loops over threads that statements may hold: [`ThreadLoop`]s, or none.
pub trait ThreadLoops: Sized {
    /// The statements of an iteration.
    fn body(&self) -> &[Stmt<Self>];
    /// The same, to be changed.
    fn body_mut(&mut self) -> &mut Vec<Stmt<Self>>;
}

impl ThreadLoops for Infallible {
    fn body(&self) -> &[Stmt] {
        match *self {}
    }

    fn body_mut(&mut self) -> &mut Vec<Stmt> {
        match *self {}
    }
}

impl ThreadLoops for ThreadLoop {
    fn body(&self) -> &[Stmt<Self>] {
        &self.body
    }

    fn body_mut(&mut self) -> &mut Vec<Stmt<Self>> {
        &mut self.body
    }
}

impl<L: ThreadLoops> Statement for Stmt<L> {
    fn body(&self) -> &[Self] {
        match self {
            Stmt::For { body, .. }
            | Stmt::If { body, .. }
            | Stmt::WgmmaGroup { body }
            | Stmt::CpAsync { body } => body,
            Stmt::Thread(it) => it.body(),
            _ => &[],
        }
    }

    fn body_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Stmt::For { body, .. }
            | Stmt::If { body, .. }
            | Stmt::WgmmaGroup { body }
            | Stmt::CpAsync { body } => Some(body),
            Stmt::Thread(it) => Some(it.body_mut()),
            _ => None,
        }
    }

    fn write(&self) -> Option<(TensorId, &[Poly], &Expr)> {
        match self {
            Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } => {
                Some((*tensor, index.as_slice(), value))
            }
            _ => None,
        }
    }
}

impl<L: ThreadLoops> Stmt<L> {
    /// With every polynomial of loops, conditions and accesses changed.
    pub(super) fn map_polys(mut self, change: &dyn Fn(&Poly) -> Poly) -> Self {
        self.for_each_mut(&mut |it| match it {
            Stmt::For { extent, .. } => *extent = change(extent),
            Stmt::If { guards, .. } => guards.iter_mut().for_each(|it| *it = it.map_polys(change)),
            Stmt::Store { index, value, .. } | Stmt::Update { index, value, .. } => {
                *index = index.iter().map(change).collect();
                *value = value.map_polys(&mut |it| change(it));
            }
            Stmt::AllReduce { index, .. } => *index = index.iter().map(change).collect(),
            _ => {}
        });
        self
    }

    /// Returns whether threads wait in it, for one another or for copies.
    pub fn waits(&self) -> bool {
        self.any(&|it| {
            matches!(
                it,
                Stmt::Barrier { .. }
                    | Stmt::AllReduce { .. }
                    | Stmt::CpAsyncCommit
                    | Stmt::CpAsyncWait { .. }
                    | Stmt::WgmmaWait { .. }
                    | Stmt::ConsumerWait { .. }
                    | Stmt::ConsumerRelease { .. }
            )
        })
    }
}

/// Counts the reads and writes of a buffer.
pub(super) fn n_accesses<L: ThreadLoops>(body: &[Stmt<L>], tensor: TensorId) -> usize {
    let mut n = 0;
    accesses(body, &mut |it| n += usize::from(it.tensor() == tensor));
    n
}
