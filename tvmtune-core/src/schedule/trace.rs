//! Primitives as data: what a record stores, what search mutates, what replay applies.

use super::{AxisId, Layout, LoopKind, StageId};
use crate::dag::TensorId;

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
    /// [`Schedule::inline`](super::Schedule::inline)
    Inline { stage: StageId },
    /// [`Schedule::cache_read`](super::Schedule::cache_read)
    CacheRead { tensor: TensorId, reader: StageId },
    /// [`Schedule::cache_padded`](super::Schedule::cache_padded)
    CachePadded { tensor: TensorId, reader: StageId },
    /// [`Schedule::cache_write`](super::Schedule::cache_write)
    CacheWrite { stage: StageId },
    /// [`Schedule::rfactor`](super::Schedule::rfactor)
    Rfactor { stage: StageId, axis: AxisId },
    /// [`Schedule::pack`](super::Schedule::pack)
    Pack { tensor: TensorId, layout: Layout },
    /// [`Schedule::threads`](super::Schedule::set_threads)
    Threads { threads: Threads },
}

/// How many threads a kernel may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Threads {
    /// The caller's only: below some 30 us, waking others costs more than they do.
    One,
    /// All of the pool.
    #[default]
    All,
}
