//! Decoded instructions: what the machine runs.

use crate::registers::{Lanewise, Register, Relation, Slot};
use crate::space::Space;
use crate::tensor_map::Element;

/// One instruction.
pub(crate) struct Inst {
    /// The guard predicate, and whether it is negated.
    pub(crate) guard: Option<(Slot, bool)>,
    pub(crate) op: Op,
    /// Its location: an index into the lines of the module.
    pub(crate) location: u32,
}

pub(crate) enum Op {
    /// A lane-wise instruction: the destination, then operands.
    Lanewise(Lanewise, [Slot; 5]),
    Compare(Compare),
    Logic(Logic),
    Branch(usize),
    /// One that all threads take, or none.
    UniformBranch(usize),
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
    SetRegisters(SetRegisters),
    Fence(Fence),
    CpAsync(CpAsync),
    CpAsyncGroup(CpAsyncGroup),
    CpAsyncArrive(CpAsyncArrive),
    LdStMatrix(LdStMatrix),
    Mma(Mma),
    Mbarrier(Mbarrier),
    Bulk(Bulk),
    BulkGroup(BulkGroup),
    Wgmma(Wgmma),
    WgmmaGroup(WgmmaGroup),
    /// Another instruction, which accesses registers of some `wgmma`.
    WgmmaAccess(Box<Op>, WgmmaRegisters),
}

/// Registers of `wgmma` that another instruction accesses.
#[derive(Clone, Debug, Default)]
pub(crate) struct WgmmaRegisters {
    /// Accumulators that it reads or writes.
    pub(crate) accumulators: Vec<Slot>,
    /// Registers of A that it writes.
    pub(crate) multiplicands: Vec<Slot>,
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
    /// The destinations of the result and of its negation.
    pub(crate) to: Slot,
    pub(crate) negated: Option<Slot>,
    pub(crate) with: Option<(BoolOp, Flag)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolOp {
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
    Binary(Slot, BoolOp, Flag, Flag),
}

/// A register plus a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Register,
    pub(crate) offset: i64,
}

/// The memory-model semantics of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strength {
    /// Strong: not torn, and no race with other strong accesses.
    pub(crate) strong: bool,
    /// Release: a read of it comes after all that the thread did before.
    pub(crate) release: bool,
}

pub(crate) struct Load {
    pub(crate) space: Space,
    pub(crate) address: Address,
    /// Bytes of one element.
    pub(crate) bytes: u8,
    pub(crate) signed: bool,
    pub(crate) to: Vec<Register>,
    /// The alignment of the address, in bytes.
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

/// The old value and the operand to the new value.
pub(crate) type AtomicFn = fn(u64, u64) -> u64;

pub(crate) struct Atomic {
    pub(crate) space: Space,
    pub(crate) address: Address,
    pub(crate) bytes: u8,
    /// Destinations of the old values, if any.
    pub(crate) to: Vec<Register>,
    pub(crate) from: Vec<Register>,
    /// For `cas`: the new value if the old one equals the operand.
    pub(crate) swap: Option<Register>,
    pub(crate) combine: AtomicFn,
    pub(crate) strength: Strength,
}

/// Warp-level collectives: shuffles, votes, matches, reductions.
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

/// `setmaxnreg`: the registers that each thread of a warp has from then on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetRegisters {
    pub(crate) grows: bool,
    pub(crate) registers: u32,
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

/// A reduction over a predicate of each thread at a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduce {
    pub(crate) op: Reduction,
    pub(crate) to: Register,
    pub(crate) predicate: Flag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Count,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// `fence.acq_rel` or `fence.sc`: orders accesses before it before those after it.
    Memory,
    /// `fence.proxy.async`: between the generic and the asynchronous proxy.
    ProxyAsync,
    /// `fence.mbarrier_init`.
    MbarrierInit,
}

/// `cp.async`: 4, 8 or 16 bytes from global to shared memory.
pub(crate) struct CpAsync {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: u32,
    /// Bytes that are read; the rest is zero-filled.
    pub(crate) source_bytes: Option<Slot>,
    /// Lanes whose bytes are all zero-filled.
    pub(crate) ignored: Option<Flag>,
}

/// `cp.async.commit_group`, `wait_group` and `wait_all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpAsyncGroup {
    Commit,
    /// Waits until at most this many groups are pending.
    Wait(u32),
    WaitAll,
}

/// `cp.async.mbarrier.arrive`: an arrival once all copies of the thread so far have completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpAsyncArrive {
    pub(crate) address: Address,
    /// `.noinc`: the arrival is one of the expected ones; else it adds one to the pending count.
    pub(crate) counted: bool,
}

/// `ldmatrix` and `stmatrix`: matrices of 8 x 8 elements of 16 bits.
pub(crate) struct LdStMatrix {
    pub(crate) load: bool,
    pub(crate) transposed: bool,
    /// One for each matrix.
    pub(crate) registers: Vec<Slot>,
    /// The address of a row in each lane.
    pub(crate) address: Address,
}

/// The type of a multiplicand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multiplicand {
    F16,
    Bf16,
    Tf32,
    S8,
    U8,
}

impl Multiplicand {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 => 4,
            Self::S8 | Self::U8 => 1,
        }
    }

    /// Returns whether accumulators are integers.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8)
    }
}

/// The type of the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
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
    pub(crate) multiplicands: (Multiplicand, Multiplicand),
    pub(crate) accumulator: Accumulator,
}

/// An instruction on an mbarrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mbarrier {
    pub(crate) space: Space,
    pub(crate) address: Address,
    pub(crate) op: MbarrierOp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum MbarrierOp {
    /// Initialises with an expected count of arrivals.
    Init(Slot),
    Invalidate,
    /// Increases the tx-count of the phase.
    ExpectTx(Slot),
    /// Decreases the tx-count.
    CompleteTx(Slot),
    Arrive(Arrive),
    Wait(Wait),
}

/// An arrival, perhaps with an expect-tx.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrive {
    /// The destination of the phase's state.
    pub(crate) state: Option<Slot>,
    pub(crate) count: Option<Slot>,
    pub(crate) bytes: Option<Slot>,
    /// `arrive_drop`: later phases expect fewer arrivals.
    pub(crate) drop: bool,
    pub(crate) release: bool,
}

/// `mbarrier.test_wait` and `try_wait`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) to: Slot,
    pub(crate) phase: Phase,
    /// `try_wait`: may suspend the thread.
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
    pub(crate) to: BulkSpace,
    pub(crate) from: BulkSpace,
    pub(crate) shape: BulkShape,
    pub(crate) completion: BulkCompletion,
    /// `cp.reduce.async.bulk.add`; with the element type for linear copies.
    pub(crate) add: Option<Option<Element>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkSpace {
    Global,
    Shared,
}

pub(crate) enum BulkShape {
    /// A box of a tensor, by its tensor map.
    Tensor {
        map: Slot,
        coordinates: Vec<Slot>,
        shared: Address,
    },
    Linear {
        to: Address,
        from: Address,
        bytes: Slot,
    },
}

/// The completion mechanism of a bulk copy.
pub(crate) enum BulkCompletion {
    /// The tx-count of an mbarrier, with a CTA mask for multicast.
    Mbarrier { address: Address, mask: Option<Slot> },
    /// The bulk groups of the thread.
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
    pub(crate) a: OperandA,
    pub(crate) b: Slot,
    /// `scale-d`: adds to the accumulators; else replaces them.
    pub(crate) add: Flag,
    pub(crate) scales: [f32; 2],
    /// `imm-trans-a` and `imm-trans-b`: the M or N dimension is contiguous, not K.
    pub(crate) transposed: [bool; 2],
    pub(crate) multiplicands: (Multiplicand, Multiplicand),
    pub(crate) accumulator: Accumulator,
}

/// The A operand.
pub(crate) enum OperandA {
    /// A matrix descriptor.
    Shared(Slot),
    Registers(Vec<Slot>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WgmmaGroup {
    Fence,
    Commit,
    Wait(u32),
}
