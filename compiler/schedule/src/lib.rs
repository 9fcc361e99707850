//! Steps 3 and 4 of 12: *how* computes run, the record of how it got there, and the loops it makes.
//!
//! ```text
//! dsl -> dag -> [schedule] -> nest -> kernel -> codegen -> compile -> measure -> ...
//! ```
//!
//! In: a [`Dag`], what to compute. Out: a [`Schedule`], a [`Stage`] with loops in order for each
//! compute, plus the trace of primitives that made it. Next: [`crate::nest::lower`].
//!
//! Read `axis.rs` for the data, `primitive/split.rs` for the shape of every primitive, and
//! `trace.rs` for replay.
//!
//! # Invariants
//!
//! - **Same meaning.** No primitive changes what is computed, or makes iterations race; `narrow` alone
//!   rounds what other primitives keep, and `lift` and `invert` once more. `trim` alone takes nothing
//!   times infinity for nothing.
//! - **Exact replay.** Ids are handed out in order, and their number does not depend on factors,
//!   so a trace replayed on a fresh schedule gives the same ids, hence the same nest and text; and
//!   a trace with other factors is another point of the same sketch.
//! - **All or nothing.** A primitive that returns an error has changed nothing.
//! - **No device in here.** Whether a legal schedule fits a device is for
//!   [`tvmtune_ir::target`] to say, never for a primitive.
//!
//! # Source
//!
//! Stages with an ordered list of axes: Ansor's `State` (Zheng et al., OSDI 2020). Traces: TVM's
//! `MetaSchedule`. Guarded tails: Halide's `TailStrategy`.

#![forbid(unsafe_code)]

pub mod axis;
pub mod error;
mod legal;
pub mod masked;
pub mod primitive;
mod range;
pub mod relation;
pub mod repair;
pub mod online;
pub mod text;
pub mod trace;

pub mod nest; // 4 its loops and indices, written out
pub mod pack; // tensors in the layouts that schedules choose
pub mod interp; // runs nests, and watches for races

// Random programs and schedules, for property tests.
#[cfg(feature = "arbitrary")]
pub mod arbitrary;

use tvmtune_ir::dag::{DType, Dag, ScalarId, Tensor, TensorId, TensorKind, Types};

pub use axis::{
    Attach, Axis, AxisId, AxisRole, Layout, LoopKind, Relation, ScheduledTensor, Stage, StageId,
};
pub use error::{ErrorKind, ScheduleError, Subject};
pub use repair::{Policy, Repaired, repair, repair_by};
pub use text::ParseInstructionError;
pub use trace::{Instruction, Threads};

/// How a [`Dag`] runs. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// What is computed, as the program says it.
    pub dag: Dag,
    /// The tensors of the dag, by the same ids, then those that primitives added.
    pub tensors: Vec<ScheduledTensor>,
    /// Every stage, also inlined ones.
    pub stages: Vec<Stage>,
    /// The stages in topological order: each before those that read it.
    pub order: Vec<StageId>,
    /// How many threads run it.
    pub threads: Threads,
    /// The primitives that made it, in order.
    pub trace: Vec<Instruction>,
}

impl Schedule {
    /// The schedule nobody has touched: every stage on its own, every loop serial.
    pub fn new(dag: &Dag) -> Self {
        let tensor = |it: &Tensor| ScheduledTensor {
            stage: match it.kind {
                TensorKind::Computed(compute) => Some(StageId(compute.0)),
                TensorKind::Input | TensorKind::Weight => None,
            },
            layout: None,
            tensor: it.clone(),
        };
        Self {
            dag: dag.clone(),
            tensors: dag.tensors.iter().map(tensor).collect(),
            stages: dag.computes.iter().cloned().map(Stage::new).collect(),
            order: (0..dag.computes.len() as u32).map(StageId).collect(),
            threads: Threads::default(),
            trace: Vec::new(),
        }
    }

    /// The schedule that a trace makes of a dag.
    ///
    /// # Errors
    ///
    /// That of the first primitive which refuses.
    pub fn replay(dag: &Dag, trace: &[Instruction]) -> Result<Self, ScheduleError> {
        let mut schedule = Self::new(dag);
        for instruction in trace {
            schedule.apply(instruction)?;
        }
        Ok(schedule)
    }

    /// The stage of that id.
    pub fn stage(&self, stage: StageId) -> &Stage {
        &self.stages[stage.0 as usize]
    }

    /// The tensor of that id.
    pub fn tensor(&self, tensor: TensorId) -> &ScheduledTensor {
        &self.tensors[tensor.0 as usize]
    }
}

impl Types for Schedule {
    fn tensor(&self, tensor: TensorId) -> DType {
        self.tensors[tensor.0 as usize].tensor.dtype
    }

    fn scalar(&self, scalar: ScalarId) -> DType {
        self.dag.scalars[scalar.0 as usize].dtype
    }
}
