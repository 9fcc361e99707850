//! The primitives, a file each: legal edits of a schedule.
//!
//! Each checks its preconditions, then edits, then appends itself to the trace. Read `split.rs` first:
//! the others have its shape.
//!
//! The table gives the pass that each primitive is, and its name elsewhere.
//!
//! | primitive | pass | elsewhere |
//! |---|---|---|
//! | `split`, `fuse`, `reorder` | tiling, loop fusion, interchange | Halide, TVM, Exo |
//! | `annotate` | parallelization, vectorization, unrolling, binding to threads | Halide, TVM |
//! | `compute_at`, `inline` | producer-consumer fusion | Halide, TVM |
//! | `cache_read`, `cache_write`, `cache_operand`, `cache_padded` | staging through a copy | TVM |
//! | `rfactor` | factored reduction | TVM |
//! | `scan`, `scan_in_order` | blocked prefix scan, sequential prefix scan | Blelloch |
//! | `online_reduction` | online softmax | FlashAttention |
//! | `polyphase` | polyphase decomposition | oneDNN, cuDNN |
//! | `factor_out` | factoring by distributivity | LLVM `Reassociate` |
//! | `hoist_invariant` | loop-invariant code motion | LLVM LICM |
//! | `reciprocal` | strength reduction of divisions | LLVM `arcp` |
//! | `downcast` | precision downcast | FlashAttention |
//! | `tighten_bounds` | loop-bound tightening | Halide |
//! | `pack` | layout transformation | TVM |
//! | `set_knobs` | choice of an external implementation, with its tunable parameters | TVM `call_extern`, Kernel Tuner |

mod annotate;
mod cache;
mod cache_operand;
mod cache_padded;
mod compute_at;
mod downcast;
mod factor_out;
mod fuse;
mod hoist_invariant;
mod hoist_operand;
mod fixed_order;
mod inline;
mod online_reduction;
mod pack;
mod polyphase;
mod prefix_terms;
mod reciprocal;
mod reorder;
mod rfactor;
mod scan;
mod scan_in_order;
mod set_knobs;
mod split;
mod tighten_bounds;

pub use hoist_invariant::InvariantPart;
pub use scan::ScanStages;

use super::{
    Attach, Axis, AxisId, AxisRole, LoopKind, ReductionOrder, Schedule, ScheduledTensor, Stage,
    StageId,
};
use tvmtune_ir::dag::{Compute, ComputeId, Tensor, TensorId, TensorKind};

impl Stage {
    /// Makes a stage with one serial loop for each axis of the compute.
    pub(super) fn new(compute: Compute) -> Self {
        let axis = |(n, it): (usize, &tvmtune_ir::dag::ComputeAxis)| Axis {
            name: it.name.clone(),
            extent: it.extent.clone(),
            role: if n < compute.n_spatial { AxisRole::Spatial } else { AxisRole::Reduce },
            kind: LoopKind::Serial,
            tightened: false,
        };
        let axes: Vec<Axis> = compute.axes.iter().enumerate().map(axis).collect();
        let order = (0..axes.len() as u32).map(AxisId).collect();
        Self {
            compute,
            axes,
            order,
            relations: Vec::new(),
            attach: Attach::Root,
            online: false,
            reduction: ReductionOrder::Any,
        }
    }

    /// Hands out the next id for an axis; the caller puts it into the order.
    fn add_axis(&mut self, axis: Axis) -> AxisId {
        self.axes.push(axis);
        AxisId(self.axes.len() as u32 - 1)
    }
}

impl Schedule {
    fn stage_mut(&mut self, stage: StageId) -> &mut Stage {
        &mut self.stages[stage.0 as usize]
    }

    /// The ids that the next stage and its tensor get.
    fn next_ids(&self) -> (StageId, TensorId) {
        (StageId(self.stages.len() as u32), TensorId(self.tensors.len() as u32))
    }

    /// Adds a stage and the tensor it defines, to run right before `reader`.
    ///
    /// The compute defines the next free tensor, which is named after `origin`.
    fn add_stage_before(&mut self, reader: StageId, compute: Compute, origin: &Tensor, role: &str) {
        let (stage, _) = self.next_ids();
        let taken = |name: &String| self.tensors.iter().any(|it| it.tensor.name == *name);
        let mut name = format!("{}_{role}", origin.name);
        let mut n = 1;
        while taken(&name) {
            n += 1;
            name = format!("{}_{role}{n}", origin.name);
        }
        let shape = compute.axes[..compute.n_spatial].iter().map(|it| it.extent.clone()).collect();
        let kind = TensorKind::Computed(ComputeId(stage.0));
        let tensor = Tensor { name, dtype: origin.dtype, shape, kind };
        self.tensors.push(ScheduledTensor { stage: Some(stage), layout: None, tensor });
        self.stages.push(Stage::new(compute));
        let position = self.order.iter().position(|it| *it == reader);
        self.order.insert(position.unwrap_or(self.order.len()), stage);
    }
}
