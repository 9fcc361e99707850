//! The data of a schedule: stages, their axes, and where they run.

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

/// Whether iterations of an axis write different elements or add into the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisRole {
    /// Indexes the output.
    Spatial,
    /// Reduced away.
    Reduce,
}

/// How the iterations of one loop run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopKind {
    /// One after the other.
    Serial,
    /// One after the other, with what is copied at the head of an iteration on its way while so
    /// many iterations before it run. 2 to 8, this one counted. On a CPU, what reads it asks memory
    /// ahead.
    Pipelined(u8),
    /// The same, with copies made by a thread that does nothing else, box by box: each copy is of
    /// whole boxes of a tensor in memory.
    WarpSpecialized(u8),
    /// One after the other, with the body repeated in the code: what is indexed by such loops
    /// only may live in registers. Constant extent, at most 512.
    Unrolled,
    /// As the lanes of vector instructions: several where the extent is longer than a vector, the
    /// last one masked where it does not divide. Innermost.
    Vectorized,
    /// As part of a matrix instruction, where the loops around and the types are those of one. Else
    /// as [`Unrolled`](LoopKind::Unrolled).
    Tensorized,
    /// As tasks that any thread may take, in no order. Outermost, of a spatial axis of a root
    /// stage; several in a row make one grid of tasks.
    Parallel,
    /// As [`Parallel`](LoopKind::Parallel), where tasks are blocks of threads with no more than so
    /// many blocks for the iterations of this loop and of the parallel ones inside it: each takes
    /// several, one after the other. On a CPU: as `Parallel`.
    Persistent(u16),
    /// As [`Persistent`](LoopKind::Persistent), where the last tiles are divided between blocks along
    /// their reduction, so that all blocks have the same work: stream-K. What they add up of a tile
    /// is added by a second kernel. On a CPU: as `Parallel`.
    StreamK(u16),
    /// As [`Parallel`](LoopKind::Parallel), with all iterations at the same time, so that what they
    /// all need is copied once for all of them. Constant extent, at most 8.
    Cluster,
    /// As the threads of a block (of a task, where tasks are blocks of threads), in no order; they
    /// wait for one another where one needs what another wrote. Threads of a reduce axis combine
    /// what they have, and all of them get the result. On a CPU: one after the other.
    Thread,
}

impl LoopKind {
    /// Whether iterations are tasks that any thread may take.
    pub fn is_parallel(self) -> bool {
        matches!(self, LoopKind::Parallel | LoopKind::Cluster) || self.most_blocks().is_some()
    }

    /// How many blocks take turns, if blocks take several of the iterations.
    pub fn most_blocks(self) -> Option<u16> {
        match self {
            LoopKind::Persistent(most) | LoopKind::StreamK(most) => Some(most),
            _ => None,
        }
    }

    /// Whether one thread runs the iterations one after the other, however many there are.
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
    /// What iterations do to the output.
    pub role: AxisRole,
    /// How the iterations run.
    pub kind: LoopKind,
    /// Whether iterations that a mask leaves nothing of are not run: see
    /// [`Schedule::tighten_bounds`](super::Schedule::tighten_bounds).
    pub trimmed: bool,
}

/// How axes were replaced by others; the index of the old one follows from the new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `parent = sum over n of parts[n] * (product of factors[n..])`: `parts` has one more entry
    /// than `factors`, outermost first, and the outermost extent is the rounded-up rest. Guarded
    /// by `parent < extent` where that can fail.
    Split {
        /// The axis that was split.
        parent: AxisId,
        /// The axes that replaced it, outermost first.
        parts: Vec<AxisId>,
        /// The extents of all parts but the outermost.
        factors: Vec<u64>,
    },
    /// `outer = fused / extent(inner)`, `inner = fused % extent(inner)`.
    Fuse {
        /// The outer of the two that were fused.
        outer: AxisId,
        /// The inner of the two.
        inner: AxisId,
        /// What replaced them.
        fused: AxisId,
    },
}

/// Where a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// On its own, before its consumers: a phase of the kernel, with a barrier after it.
    Root,
    /// Nowhere: its body was put into its consumers.
    Inline,
    /// In each iteration of an axis of a consumer, for the region which that iteration reads.
    At(StageId, AxisId),
}

/// A compute with its loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What is computed. Axis `n` of the compute is `AxisId(n)`.
    pub compute: Compute,
    /// Every axis there ever was; only those in `order` are loops.
    pub axes: Vec<Axis>,
    /// The loops, outermost first.
    pub order: Vec<AxisId>,
    /// What became of the axes that are no longer loops, in the order it happened.
    pub relations: Vec<Relation>,
    /// Where it runs.
    pub attach: Attach,
    /// Whether it reduces, in each iteration of the loop at which it runs, only the block of that
    /// iteration, into what it has from those before: see
    /// [`Schedule::online_reduction`](super::Schedule::online_reduction).
    pub rolling: bool,
}

/// How a tensor lies in memory, when not row-major.
///
/// Each entry of `splits`, in order, replaces dimension `dim` of the shape so far by two:
/// `ceil(extent / factor)` and `factor`. Then `order[n]` says which of the dimensions so far is
/// the `n`-th stored one, outermost first. Elements that padding adds are 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    /// `(dim, factor)`; `dim` counts in the shape as earlier splits left it.
    pub splits: Vec<(usize, u64)>,
    /// A permutation of the dimensions after all splits.
    pub order: Vec<usize>,
}

/// A tensor as a schedule sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledTensor {
    /// The stage that defines it; `None` for a parameter.
    pub stage: Option<StageId>,
    /// How it lies in memory; `None` is row-major. Only for weights, and for what a stage defines
    /// that is no output.
    pub layout: Option<Layout>,
    /// The tensor: that of the dag, or one that a primitive added.
    pub tensor: tvmtune_ir::dag::Tensor,
}

impl Stage {
    /// The axis of that id.
    pub fn axis(&self, axis: AxisId) -> &Axis {
        &self.axes[axis.0 as usize]
    }

    /// Whether the axis is a loop: declared or made, and not since split or fused away.
    pub fn is_live(&self, axis: AxisId) -> bool {
        self.order.contains(&axis)
    }

    /// The tensor this stage defines.
    pub fn tensor(&self) -> TensorId {
        self.compute.tensor
    }
}
