//! Decoded instructions: what the machine runs.

use crate::registers::{Class, Relation, Rows, Slot};
use crate::tensor_map::Element;

/// One instruction.
pub(crate) struct Inst {
    /// The predicate it depends on, and whether that must be false.
    pub(crate) guard: Option<(Slot, bool)>,
    pub(crate) op: Op,
    /// Where it was printed from: an index into the places of the module.
    pub(crate) place: u32,
}

/// A register of either file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) class: Class,
    pub(crate) slot: Slot,
}

pub(crate) enum Op {
    /// What each lane does alone: the destination, then operands.
    Rows(Rows, [Slot; 5]),
    Compare(Compare),
    Logic(Logic),
    Branch(usize),
    BranchIndexed(Slot, Vec<usize>),
    Call {
        target: usize,
        before: Vec<Move>,
        after: Vec<Move>,
    },
    Return,
    Exit,
    Trap,
    Assert,
    Nop,
    Clock(Register),
    Load(Load),
    Store(Store),
    Atomic(Atomic),
    IsSpace(Slot, Register, Space),
    Warp(Slot, Warp),
    Barrier(Barrier),
    Fence(Fence),
    Copy(Copy),
    CopyGroup(CopyGroup),
    CopyArrive(CopyArrive),
    MoveMatrix(MoveMatrix),
    Mma(Mma),
    Mbarrier(Mbarrier),
    Bulk(Bulk),
    BulkGroup(BulkGroup),
    Wgmma(Wgmma),
    WgmmaGroup(WgmmaGroup),
    /// Another instruction, which touches registers of some `wgmma`.
    Touch(Box<Op>, Touched),
}

/// Registers of `wgmma` that another instruction touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    /// Accumulators that it reads or writes.
    pub(crate) sums: Vec<Slot>,
    /// Factors that it writes.
    pub(crate) factors: Vec<Slot>,
}

/// Bytes copied between the frames of functions: from, to, how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bytes: u32,
}

/// `setp`: a relation, combined with a third operand.
pub(crate) struct Compare {
    pub(crate) relation: Relation,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    /// Where the result goes, and where the negated one.
    pub(crate) to: Slot,
    pub(crate) negated: Option<Slot>,
    pub(crate) with: Option<(Combine, Flag)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    And,
    Or,
    Xor,
}

/// A predicate or its negation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) slot: Slot,
    pub(crate) negated: bool,
}

/// Boolean operations on predicates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Logic {
    Copy(Slot, Flag),
    Constant(Slot, bool),
    Two(Slot, Combine, Flag, Flag),
}

/// Which memory an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

/// A register plus a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Register,
    pub(crate) offset: i64,
}

/// What an access promises to other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strength {
    /// Not torn, and no race with others of its kind.
    pub(crate) strong: bool,
    /// What the thread did before may be learned by who reads it.
    pub(crate) release: bool,
}

pub(crate) struct Load {
    pub(crate) space: Space,
    pub(crate) address: Address,
    /// Bytes of one element.
    pub(crate) bytes: u8,
    pub(crate) signed: bool,
    pub(crate) to: Vec<Register>,
    /// What the address must be a multiple of.
    pub(crate) align: u32,
    pub(crate) strength: Strength,
}

pub(crate) struct Store {
    pub(crate) space: Space,
    pub(crate) address: Address,
    pub(crate) bytes: u8,
    pub(crate) from: Vec<Register>,
    pub(crate) strength: Strength,
}

/// The old value and an operand to the new value.
pub(crate) type Combination = fn(u64, u64) -> u64;

pub(crate) struct Atomic {
    pub(crate) space: Space,
    pub(crate) address: Address,
    pub(crate) bytes: u8,
    /// Where old values go, if anybody wants them.
    pub(crate) to: Vec<Register>,
    pub(crate) from: Vec<Register>,
    /// For `cas`: what is stored if the old value equals the operand.
    pub(crate) swap: Option<Register>,
    pub(crate) combine: Combination,
    pub(crate) strength: Strength,
}

/// What the lanes of a warp do together.
pub(crate) enum Warp {
    Shuffle { mode: Shuffle, to: Slot, valid: Option<Slot>, from: Slot, lane: Slot, clamp: Slot },
    Vote(Vote, Register, Flag),
    Match { to: Slot, all: Option<Option<Slot>>, value: Register },
    Reduce { to: Slot, from: Slot, with: fn(u32, u32) -> u32 },
    Elect { leader: Slot, to: Slot },
    ActiveMask(Slot),
    Sync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A barrier of a CTA or of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Barrier {
    Cta(CtaBarrier),
    ClusterArrive { aligned: bool },
    ClusterWait { aligned: bool },
}

/// A barrier of some or all threads of a CTA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CtaBarrier {
    pub(crate) id: Slot,
    pub(crate) threads: Option<Slot>,
    pub(crate) wait: bool,
    pub(crate) aligned: bool,
    pub(crate) reduce: Option<Reduce>,
}

/// What a barrier computes from a predicate of each thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduce {
    pub(crate) what: Reduction,
    pub(crate) to: Register,
    pub(crate) of: Flag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Count,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Orders what the thread did and saw before what it does next.
    Memory,
    /// Between ordinary accesses and those of asynchronous copies.
    ProxyAsync,
    /// Between the initialisation of mbarriers and asynchronous copies.
    MbarrierInit,
}

/// `cp.async`: 4, 8 or 16 bytes from global to shared memory.
pub(crate) struct Copy {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: u32,
    /// How many of them are read; the rest is zero.
    pub(crate) source_bytes: Option<Slot>,
    /// Lanes that read nothing.
    pub(crate) ignored: Option<Flag>,
}

/// Groups of such copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyGroup {
    Commit,
    /// Until at most this many groups are pending.
    Wait(u32),
    WaitAll,
}

/// An arrival at an mbarrier when all copies of the thread so far are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyArrive {
    pub(crate) address: Address,
    /// Whether it counts as one of the arrivals that the mbarrier waits for; else it adds one more.
    pub(crate) counted: bool,
}

/// `ldmatrix` and `stmatrix`: matrices of 8 x 8 halves.
pub(crate) struct MoveMatrix {
    pub(crate) load: bool,
    pub(crate) transposed: bool,
    /// One for each matrix.
    pub(crate) registers: Vec<Slot>,
    /// Of a row in each lane.
    pub(crate) address: Address,
}

/// What is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    F16,
    Bf16,
    Tf32,
    S8,
    U8,
}

impl Factor {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 => 4,
            Self::S8 | Self::U8 => 1,
        }
    }

    /// Whether sums are integers.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8)
    }
}

/// What products are added up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    F32,
    F16,
    S32 { saturate: bool },
}

/// `mma.sync` of 16 x k by k x 8.
pub(crate) struct Mma {
    pub(crate) k: usize,
    pub(crate) to: Vec<Slot>,
    pub(crate) a: Vec<Slot>,
    pub(crate) b: Vec<Slot>,
    pub(crate) c: Vec<Slot>,
    pub(crate) factors: (Factor, Factor),
    pub(crate) sum: Sum,
}

/// A barrier in shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mbarrier {
    pub(crate) space: Space,
    pub(crate) address: Address,
    pub(crate) op: MbarrierOp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum MbarrierOp {
    /// For so many arrivals a phase.
    Init(Slot),
    Invalidate,
    /// More bytes will come in this phase.
    Expect(Slot),
    /// Bytes have come.
    Complete(Slot),
    Arrive(Arrive),
    Wait(Wait),
}

/// Arrivals, and bytes that come besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrive {
    /// Where the phase goes.
    pub(crate) state: Option<Slot>,
    pub(crate) count: Option<Slot>,
    pub(crate) bytes: Option<Slot>,
    /// Whether later phases need fewer arrivals.
    pub(crate) drop: bool,
    pub(crate) release: bool,
}

/// A question whether a phase is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) to: Slot,
    pub(crate) phase: Phase,
    /// Whether it may take as long as it takes.
    pub(crate) suspend: bool,
    pub(crate) acquire: bool,
}

/// The phase that is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    Parity(Slot),
    State(Slot),
}

/// A bulk copy.
pub(crate) struct Bulk {
    pub(crate) to: BulkMemory,
    pub(crate) from: BulkMemory,
    pub(crate) what: BulkWhat,
    pub(crate) end: BulkEnd,
    /// Whether it adds; for bytes, numbers of which type.
    pub(crate) add: Option<Option<Element>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkMemory {
    Global,
    Shared,
}

pub(crate) enum BulkWhat {
    /// A box of a tensor.
    Tensor {
        map: Slot,
        coordinates: Vec<Slot>,
        shared: Address,
    },
    Bytes {
        to: Address,
        from: Address,
        bytes: Slot,
    },
}

/// How the end of a bulk copy shows.
pub(crate) enum BulkEnd {
    /// By bytes that an mbarrier counts, perhaps in several CTAs.
    Mbarrier { address: Address, mask: Option<Slot> },
    /// In the groups of the thread.
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkGroup {
    Commit,
    Wait(u32),
}

/// `wgmma.mma_async`: 64 x k by k x n.
pub(crate) struct Wgmma {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) to: Vec<Slot>,
    pub(crate) left: Left,
    pub(crate) right: Slot,
    /// Whether sums are added to; else they are replaced.
    pub(crate) add: Flag,
    pub(crate) scales: [f32; 2],
    /// Whether a factor's rows, instead of its columns, are next to each other.
    pub(crate) transposed: [bool; 2],
    pub(crate) factors: (Factor, Factor),
    pub(crate) sum: Sum,
}

/// Where the first factor is.
pub(crate) enum Left {
    /// A descriptor.
    Shared(Slot),
    Registers(Vec<Slot>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WgmmaGroup {
    Fence,
    Commit,
    Wait(u32),
}
