//! Schedules of tensor programs, and the loop nests that they lower to.
//!
//! ```text
//! dsl -> dag -> [schedule -> nest] -> cpu or cuda -> compile -> measure -> ...
//! ```
//!
//! In: a [`Dag`], the definition of each tensor. A [`Schedule`] holds a [`Stage`] with an ordered list
//! of loops for each of them, and the trace of [primitives](primitive) that made it so. Out: a
//! [`nest::Nest`] of explicit loops, guards and indices ([`nest::lower`]).
//!
//! - [`pack`] rearranges weights into the layouts that a schedule chose.
//! - [`interp`] runs a nest, and reports races and accesses out of bounds.
//! - [`repair`] replays a trace on a dag with other extents, or with the same anchor.
//! - `arbitrary` (a feature) makes random programs and random schedules for property tests.
//!
//! Read `axis.rs` for the data, `primitive/split.rs` for the shape of every primitive, and `trace.rs`
//! for replay.
//!
//! # Invariants
//!
//! - **Same meaning.** No primitive changes the results, or makes iterations race. Three of them round
//!   differently, within a unit in the last place of their type: `downcast`, `hoist_invariant` and
//!   `reciprocal`; those that reorder a sum round in another order. `tighten_bounds` alone evaluates 0
//!   times a masked infinity to 0, not NaN.
//!   `set_knobs` replaces the program by kernels that somebody wrote: that these compute it is for whoever
//!   accepts results to check.
//! - **Exact replay.** Ids are handed out in order, and their number does not depend on factors,
//!   so a trace replayed on a fresh schedule gives the same ids, hence the same nest and text; and
//!   a trace with other factors is another point of the same sketch.
//! - **All or nothing.** A primitive that returns an error has changed nothing.
//! - **Device independence.** No primitive knows a device. Whether a legal schedule fits one is decided
//!   where it is placed.
//!
//! # Source
//!
//! Stages with an ordered list of axes: Ansor's `State` (Zheng et al., OSDI 2020). Traces: TVM's
//! `MetaSchedule`. Guarded tails: Halide's `TailStrategy`.

#![forbid(unsafe_code)]

pub mod axis; // stages, axes, loop kinds
pub mod layout; // layouts of tensors
pub mod relation; // index arithmetic of splits and fusions
pub mod error; // refusals of primitives
mod query; // questions about a schedule
pub mod mask; // iterations that masks make contribute nothing
pub mod online; // corrections of online reductions
pub mod normal; // one form of programs written in several
mod in_place; // reads of what a result replaces
mod recurrence; // steps that need the one before
mod value_range; // ranges of expressions
mod legal; // legality checks
pub mod primitive; // edits of a schedule
pub mod trace; // primitives as data
pub mod text; // primitives as text
pub mod repair; // traces on other dags

pub mod nest; // lowering to loop nests
pub mod print; // printing, in any language
pub mod pack; // weights in the layouts that schedules choose
pub mod interp; // the interpreter of nests

#[cfg(feature = "arbitrary")]
pub mod arbitrary; // random programs and schedules

use tvmtune_ir::dag::{DType, Dag, ScalarId, Tensor, TensorId, TensorKind, Types};

pub use axis::{
    Attach, Axis, AxisId, AxisRole, LoopKind, ReductionOrder, Relation, ScheduledTensor, Stage,
    StageId,
};
pub use error::{ErrorKind, ScheduleError, Subject};
pub use layout::Layout;
pub use repair::{FactorPolicy, Repaired, repair, repair_by};
pub use text::ParseInstructionError;
pub use trace::{Instruction, Threads};

/// A schedule of a [`Dag`]. See the [crate documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The program, in [normal form](normal).
    pub dag: Dag,
    /// The tensors of the dag, by the same ids, then those that primitives added.
    pub tensors: Vec<ScheduledTensor>,
    /// Every stage, also inlined ones.
    pub stages: Vec<Stage>,
    /// The stages in topological order: each before those that read it.
    pub order: Vec<StageId>,
    /// The threads that run it.
    pub threads: Threads,
    /// The values of the knobs of its hand-written kernels, if it runs by those and not by its loops.
    pub knobs: Option<Vec<u64>>,
    /// The primitives that made it, in order.
    pub trace: Vec<Instruction>,
}

impl Schedule {
    /// Makes the initial schedule: every stage at the root, every loop serial. Of a program with fixed
    /// numerics, reductions by lanes are two stages.
    pub fn new(dag: &Dag) -> Self {
        Self::of_normal_form(normal::normalized(dag))
    }

    /// Makes the initial schedule of a program that counts as normalized.
    fn of_normal_form(dag: Dag) -> Self {
        let tensor = |it: &Tensor| ScheduledTensor {
            stage: match it.kind {
                TensorKind::Computed(compute) => Some(StageId(compute.0)),
                TensorKind::Input | TensorKind::Weight | TensorKind::InOut => None,
            },
            layout: None,
            tensor: it.clone(),
        };
        let mut schedule = Self {
            tensors: dag.tensors.iter().map(tensor).collect(),
            stages: dag.computes.iter().cloned().map(Stage::new).collect(),
            order: (0..dag.computes.len() as u32).map(StageId).collect(),
            dag,
            threads: Threads::default(),
            knobs: None,
            trace: Vec::new(),
        };
        schedule.fix_orders();
        schedule
    }

    /// Replays a trace on a dag.
    ///
    /// # Errors
    ///
    /// The error of the first primitive that refuses.
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
