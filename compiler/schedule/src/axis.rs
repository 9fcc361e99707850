//! The data of a schedule: stages, their axes, loop kinds and compute locations.

use super::layout::Layout;
use tvmtune_ir::dag::{Compute, TensorId};
use tvmtune_ir::poly::Poly;

/// A stage, by position in [`Schedule::stages`](super::Schedule::stages). Handed out in order:
/// the computes of the dag first, in their order, then what primitives add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId(pub u32);

/// An axis of a stage, by position in [`Stage::axes`]. Handed out in order: the compute's axes
/// first, in their order, then what primitives add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisId(pub u32);

/// The role of an axis: its iterations write different elements, or reduce into the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisRole {
    /// Indexes the output.
    Spatial,
    /// Reduced away.
    Reduce,
}

/// The execution of the iterations of one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopKind {
    /// Sequentially.
    Serial,
    /// Sequentially, as a software pipeline with that many stages, 2 to 8: copies at the head of an
    /// iteration are issued that many iterations ahead, less one. On a CPU: prefetches.
    Pipelined(u8),
    /// As [`Pipelined`](LoopKind::Pipelined), with the copies issued by a producer warp as bulk
    /// transfers (TMA) of whole boxes of a tensor: warp specialization.
    WarpSpecialized(u8),
    /// Sequentially, with the body repeated in the code: tensors that are indexed by such loops only
    /// may live in registers. Constant extent, at most 512.
    Unrolled,
    /// As the lanes of vector instructions: several where the extent is longer than a vector, the
    /// last one masked where it does not divide. Innermost.
    Vectorized,
    /// As part of an MMA, where the surrounding loops and the types match one. Else as
    /// [`Unrolled`](LoopKind::Unrolled).
    Tensorized,
    /// As tasks that any thread may take, in no order. Outermost, of a spatial axis of a root
    /// stage; several in a row make one grid of tasks.
    Parallel,
    /// As [`Parallel`](LoopKind::Parallel), as a persistent tile loop on GPUs: at most that many
    /// thread blocks share the iterations of this loop and of the parallel ones inside it, several
    /// to a block, one after the other. On a CPU: as `Parallel`.
    Persistent(u16),
    /// As [`Persistent`](LoopKind::Persistent), with the last tiles split between blocks along their
    /// reduction, so that all blocks have the same work: stream-K. A second kernel, the fix-up, adds
    /// the partial sums of a tile. On a CPU: as `Parallel`.
    StreamK(u16),
    /// As [`Parallel`](LoopKind::Parallel), with all iterations resident at the same time as a thread
    /// block cluster, so that shared operands are multicast. Constant extent, at most 8.
    Cluster,
    /// As the threads of a block, in no order, with barriers where one reads values that another
    /// wrote. Threads of a reduce axis combine their values by an all-reduce. On a CPU:
    /// sequentially.
    Thread,
}

impl LoopKind {
    /// Returns whether iterations are tasks that any thread may take.
    pub fn is_parallel(self) -> bool {
        matches!(self, LoopKind::Parallel | LoopKind::Cluster) || self.max_blocks().is_some()
    }

    /// The most thread blocks of a persistent tile loop.
    pub fn max_blocks(self) -> Option<u16> {
        match self {
            LoopKind::Persistent(blocks) | LoopKind::StreamK(blocks) => Some(blocks),
            _ => None,
        }
    }

    /// Returns whether one thread runs all iterations sequentially.
    pub fn is_in_order(self) -> bool {
        matches!(
            self,
            LoopKind::Serial
                | LoopKind::Pipelined(_)
                | LoopKind::WarpSpecialized(_)
                | LoopKind::Unrolled
        )
    }
}

/// One loop of a stage, declared by the compute or made by a primitive.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Unique in the stage: `i`, then `i_0` and `i_1` once split, `i_j` once fused.
    pub name: String,
    /// Number of iterations when the whole tensor is computed. A stage computed at another one
    /// runs fewer: lowering derives its extents from the region that is read.
    pub extent: Poly,
    /// True if iterations write different elements or reduce.
    pub role: AxisRole,
    /// The execution of the iterations.
    pub kind: LoopKind,
    /// True if iterations that are masked as a whole are skipped: see
    /// [`Schedule::tighten_bounds`](super::Schedule::tighten_bounds).
    pub tightened: bool,
}

/// The replacement of axes by others; the index of the old one follows from the new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `parent = sum over n of parts[n] * (product of factors[n..])`: `factors` are the extents of
    /// all parts but the outermost, which comes first and whose extent is the rounded-up rest.
    /// Guarded by `parent < extent` where that can fail.
    Split { parent: AxisId, parts: Vec<AxisId>, factors: Vec<u64> },
    /// `outer = fused / extent(inner)`, `inner = fused % extent(inner)`.
    Fuse { outer: AxisId, inner: AxisId, fused: AxisId },
}

/// The compute location of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// On its own, before its consumers: a phase of the kernel, with a barrier after it.
    Root,
    /// Nowhere: its body was put into its consumers.
    Inline,
    /// In each iteration of an axis of a consumer, for the region which that iteration reads.
    At(StageId, AxisId),
}

/// The order in which a stage combines the terms of its reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReductionOrder {
    /// Any: numerics are free, rounding does not depend on it, or there is no reduction.
    #[default]
    Any,
    /// That of the compute's axes: reduce loops stay in their order, and run sequentially.
    Sequence,
    /// As [`Sequence`](ReductionOrder::Sequence), into partial results that the last spatial axis counts.
    Lanes {
        /// The conditions around the body that keep it from terms behind the end, as the last ones of some
        /// partial results are.
        n_tails: usize,
    },
    /// As [`Lanes`](ReductionOrder::Lanes), into the results of blocks.
    Blocks {
        /// As in [`Lanes`](ReductionOrder::Lanes): the last block may be shorter.
        n_tails: usize,
    },
    /// By halves: each partial result of the first half with its partner in the second, until one is left.
    /// Lowering chooses the loops.
    Halves {
        /// True if the partial results are sums of products, which may underflow to -0.0: the result is added
        /// to 0.0, as that of an empty lane is.
        adds_zero: bool,
    },
}

/// A compute with its loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The definition of its tensor. Axis `n` of the compute is `AxisId(n)`.
    pub compute: Compute,
    /// Every axis there ever was; only those in `order` are loops.
    pub axes: Vec<Axis>,
    /// The loops, outermost first.
    pub order: Vec<AxisId>,
    /// The splits and fusions of axes that are no longer loops, in order.
    pub relations: Vec<Relation>,
    /// Its compute location.
    pub attach: Attach,
    /// True if it is an online reduction: each iteration of the loop at which it runs reduces one
    /// block into the partial result of those before; see
    /// [`Schedule::online_reduction`](super::Schedule::online_reduction).
    pub online: bool,
    /// The order of its reduction, which no primitive changes.
    pub reduction: ReductionOrder,
}

/// A tensor as a schedule sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledTensor {
    /// The stage that defines it; `None` for a parameter.
    pub stage: Option<StageId>,
    /// Its layout in memory; `None` is row-major. Only weights, and computed tensors that the program
    /// does not return, have one.
    pub layout: Option<Layout>,
    /// The tensor: that of the dag, or one that a primitive added.
    pub tensor: tvmtune_ir::dag::Tensor,
}

impl ReductionOrder {
    /// Returns whether reduce loops may run like that.
    pub fn allows(self, kind: LoopKind) -> bool {
        self == ReductionOrder::Any || kind.is_in_order()
    }

    /// The conditions around the body that keep it from terms behind the end.
    pub fn n_tails(self) -> usize {
        match self {
            ReductionOrder::Lanes { n_tails } | ReductionOrder::Blocks { n_tails } => n_tails,
            ReductionOrder::Any | ReductionOrder::Sequence | ReductionOrder::Halves { .. } => 0,
        }
    }

    /// Returns whether partial results are combined by halves.
    pub fn is_by_halves(self) -> bool {
        matches!(self, ReductionOrder::Halves { .. })
    }
}

impl Stage {
    /// The axis of that id.
    pub fn axis(&self, axis: AxisId) -> &Axis {
        &self.axes[axis.0 as usize]
    }

    /// Returns whether the axis is a loop: declared or made, and not since split or fused away.
    pub fn is_live(&self, axis: AxisId) -> bool {
        self.order.contains(&axis)
    }

    /// The tensor this stage defines.
    pub fn tensor(&self) -> TensorId {
        self.compute.tensor
    }
}
