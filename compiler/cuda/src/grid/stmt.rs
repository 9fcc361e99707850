//! What a thread does: the statements of a kernel.
//!
//! Loops and stores come from the nest; everything else is put in by the steps of the grid.

use tvmtune_ir::dag::{DType, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::nest::Guard;

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
    /// A warpgroup multiplies two operands, and adds, some time until it waits:
    /// `wgmma.mma_async.m64nNk16`, or `k32` of 8-bit integers.
    GroupMultiply {
        /// What is added to.
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
        /// Up to [`WARP`](super::WARP): those of a warp wait, else those of the block.
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

/// An operand of a warpgroup's matrix instruction, in a [permuted](super::Buffer::permuted) buffer.
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

/// The first operand of a warpgroup's matrix instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum FirstOperand {
    /// In shared memory.
    Shared(SharedOperand),
    /// In the registers of the threads.
    Registers(RegisterOperand),
}

/// The elements of an operand that one thread of a warpgroup has, in registers: what is of row `8h`
/// of the thread's, and of step `8f + p` of those that start at its own, is
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
    WarpSpecialized(u8),
    /// With its body repeated.
    Unrolled,
    /// The same, where no matrix instruction took its place.
    Tensorized,
    /// As one access of several elements where memory allows it, else repeated.
    Vectorized,
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

    pub(super) fn body_mut(&mut self) -> Option<&mut Vec<Stmt>> {
        match self {
            Stmt::For { body, .. }
            | Stmt::Thread { body, .. }
            | Stmt::If { body, .. }
            | Stmt::Matrices { body }
            | Stmt::Async { body } => Some(body),
            _ => None,
        }
    }

    /// With every polynomial of this statement and of all inside it changed, as long as they are
    /// loops, conditions, and accesses.
    pub(super) fn map_polys(mut self, change: &dyn Fn(&Poly) -> Poly) -> Self {
        match &mut self {
            Stmt::For { extent, .. } => *extent = change(extent),
            Stmt::If { guards, .. } => {
                for Guard { value, bound } in guards {
                    (*value, *bound) = (change(value), change(bound));
                }
            }
            Stmt::Store { index, value, .. } | Stmt::Update { index, value, .. } => {
                *index = index.iter().map(change).collect();
                *value = value.map_polys(&mut |it| change(it));
            }
            Stmt::Combine { index, .. } => *index = index.iter().map(change).collect(),
            Stmt::Thread { .. }
            | Stmt::Sync { .. }
            | Stmt::Async { .. }
            | Stmt::Commit
            | Stmt::Wait { .. }
            | Stmt::LoadFragment { .. }
            | Stmt::Multiply { .. }
            | Stmt::GroupMultiply { .. }
            | Stmt::Matrices { .. }
            | Stmt::WaitMatrices { .. }
            | Stmt::WaitFull { .. }
            | Stmt::WaitEmpty { .. }
            | Stmt::CopyBox { .. }
            | Stmt::Release { .. }
            | Stmt::Advance { .. }
            | Stmt::FenceAsync => {}
        }
        if let Some(body) = self.body_mut() {
            *body = std::mem::take(body).into_iter().map(|it| it.map_polys(change)).collect();
        }
        self
    }

    /// Calls `visit` with this statement and all inside it, outermost first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        visit(self);
        for stmt in self.body() {
            stmt.walk(visit);
        }
    }

    /// Whether threads wait in it for one another.
    pub(super) fn waits_for_threads(&self) -> bool {
        let mut found = false;
        self.walk(&mut |it| found |= matches!(it, Stmt::Sync { .. }));
        found
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
