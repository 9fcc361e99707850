//! Primitives as data: the instructions that records store, search mutates and replay applies.

use super::error::{ErrorKind, refuse_if};
use super::{AxisId, Layout, LoopKind, Schedule, ScheduleError, StageId};
use tvmtune_ir::dag::{DType, TensorId};

/// One primitive with its arguments. Its text is one line: see [`std::fmt::Display`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instruction {
    /// [`Schedule::split`](super::Schedule::split)
    Split { stage: StageId, axis: AxisId, factors: Vec<u64> },
    /// [`Schedule::fuse`](super::Schedule::fuse)
    Fuse { stage: StageId, outer: AxisId, inner: AxisId },
    /// [`Schedule::reorder`](super::Schedule::reorder)
    Reorder { stage: StageId, order: Vec<AxisId> },
    /// [`Schedule::annotate`](super::Schedule::annotate)
    Annotate { stage: StageId, axis: AxisId, kind: LoopKind },
    /// [`Schedule::compute_at`](super::Schedule::compute_at)
    ComputeAt { stage: StageId, consumer: StageId, axis: AxisId },
    /// [`Schedule::online_reduction`](super::Schedule::online_reduction)
    OnlineReduction { stage: StageId, host: StageId, axis: AxisId },
    /// [`Schedule::factor_out`](super::Schedule::factor_out)
    FactorOut { stage: StageId },
    /// [`Schedule::hoist_invariant`](super::Schedule::hoist_invariant)
    HoistInvariant { stage: StageId },
    /// [`Schedule::downcast`](super::Schedule::downcast)
    Downcast { stage: StageId, dtype: DType },
    /// [`Schedule::reciprocal`](super::Schedule::reciprocal)
    Reciprocal { stage: StageId },
    /// [`Schedule::inline`](super::Schedule::inline)
    Inline { stage: StageId },
    /// [`Schedule::cache_read`](super::Schedule::cache_read)
    CacheRead { tensor: TensorId, reader: StageId },
    /// [`Schedule::cache_operand`](super::Schedule::cache_operand)
    CacheOperand { reader: StageId, read: u32 },
    /// [`Schedule::cache_padded`](super::Schedule::cache_padded)
    CachePadded { tensor: TensorId, reader: StageId },
    /// [`Schedule::cache_write`](super::Schedule::cache_write)
    CacheWrite { stage: StageId },
    /// [`Schedule::rfactor`](super::Schedule::rfactor)
    Rfactor { stage: StageId, axis: AxisId },
    /// [`Schedule::polyphase`](super::Schedule::polyphase)
    Polyphase { stage: StageId },
    /// [`Schedule::scan`](super::Schedule::scan)
    Scan { stage: StageId, axis: AxisId },
    /// [`Schedule::scan_in_order`](super::Schedule::scan_in_order)
    ScanInOrder { stage: StageId },
    /// [`Schedule::tighten_bounds`](super::Schedule::tighten_bounds)
    TightenBounds { stage: StageId, axis: AxisId },
    /// [`Schedule::pack`](super::Schedule::pack)
    Pack { tensor: TensorId, layout: Layout },
    /// [`Schedule::threads`](super::Schedule::set_threads)
    Threads { threads: Threads },
    /// [`Schedule::set_knobs`](super::Schedule::set_knobs)
    SetKnobs { values: Vec<u64> },
}

/// The threads that a kernel may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Threads {
    /// The caller's only: below some 30 us, waking others costs more than it saves.
    One,
    /// All of the pool.
    #[default]
    All,
}

impl Schedule {
    /// Applies one instruction; ids that it hands out are the next ones.
    ///
    /// # Errors
    ///
    /// The error of the primitive; the schedule is then unchanged.
    pub fn apply(&mut self, instruction: &Instruction) -> Result<(), ScheduleError> {
        // Hand-written kernels have no loops that anything could change.
        refuse_if(self.knobs.is_some(), ErrorKind::HandWritten.of_program())?;
        match *instruction {
            Instruction::Split { stage, axis, ref factors } => {
                self.split(stage, axis, factors).map(drop)
            }
            Instruction::Fuse { stage, outer, inner } => self.fuse(stage, outer, inner).map(drop),
            Instruction::Reorder { stage, ref order } => self.reorder(stage, order),
            Instruction::Annotate { stage, axis, kind } => self.annotate(stage, axis, kind),
            Instruction::ComputeAt { stage, consumer, axis } => {
                self.compute_at(stage, consumer, axis)
            }
            Instruction::OnlineReduction { stage, host, axis } => {
                self.online_reduction(stage, host, axis)
            }
            Instruction::FactorOut { stage } => self.factor_out(stage).map(drop),
            Instruction::HoistInvariant { stage } => self.hoist_invariant(stage).map(drop),
            Instruction::Downcast { stage, dtype } => self.downcast(stage, dtype),
            Instruction::Reciprocal { stage } => self.reciprocal(stage),
            Instruction::Inline { stage } => self.inline(stage),
            Instruction::CacheRead { tensor, reader } => self.cache_read(tensor, reader).map(drop),
            Instruction::CacheOperand { reader, read } => {
                self.cache_operand(reader, read).map(drop)
            }
            Instruction::CachePadded { tensor, reader } => {
                self.cache_padded(tensor, reader).map(drop)
            }
            Instruction::CacheWrite { stage } => self.cache_write(stage).map(drop),
            Instruction::Rfactor { stage, axis } => self.rfactor(stage, axis).map(drop),
            Instruction::Polyphase { stage } => self.polyphase(stage).map(drop),
            Instruction::Scan { stage, axis } => self.scan(stage, axis).map(drop),
            Instruction::ScanInOrder { stage } => self.scan_in_order(stage).map(drop),
            Instruction::TightenBounds { stage, axis } => self.tighten_bounds(stage, axis),
            Instruction::Pack { tensor, ref layout } => self.pack(tensor, layout.clone()),
            Instruction::Threads { threads } => {
                self.set_threads(threads);
                Ok(())
            }
            Instruction::SetKnobs { ref values } => self.set_knobs(values),
        }
    }
}
