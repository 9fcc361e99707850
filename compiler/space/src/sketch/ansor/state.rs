//! The state of a derivation: a partial sketch, and the loop nests that rules made.

use std::collections::BTreeMap;

use super::Derived;
use crate::sketch::{Builder, DecisionId, Factor, Result};
use tvmtune_ir::dag::{Dag, TensorId};
use tvmtune_ir::target::Target;
use tvmtune_schedule::{Attach, AxisId, Schedule, StageId};

/// A partial sketch.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The sketch.
    pub(super) b: Builder,
    /// The loop nests that rules made.
    pub(super) loop_nests: Vec<LoopNest>,
    /// Accumulators of stages made by the rule "add cache write".
    pub(super) written: Vec<StageId>,
    /// Extents of loops as decisions have them, where that is known.
    pub(super) lengths: BTreeMap<(StageId, AxisId), Factor>,
    /// Decisions on compute locations.
    pub(super) locations: Vec<ComputeLocation>,
    /// Tiles of blocks of threads.
    pub(super) blocks: Vec<Block>,
    /// Copies in shared memory.
    pub(super) shared: Vec<StageId>,
    /// Cross-thread reductions, and their numbers of threads.
    pub(super) crossed: Vec<(StageId, Factor)>,
}

/// The loops that a rule gave a stage.
#[derive(Clone, Debug)]
pub(super) struct LoopNest {
    pub(super) stage: StageId,
    /// Tiled: its location is fixed, and others may run inside its reduction.
    pub(super) is_tiled: bool,
    /// The number of outermost loops that may be tasks.
    pub(super) n_outer: usize,
    /// The innermost loop, which is vectorized.
    pub(super) lanes: Option<AxisId>,
}

/// A decision on the location of a stage.
#[derive(Clone, Debug)]
pub(super) struct ComputeLocation {
    pub(super) stage: StageId,
    pub(super) decision: DecisionId,
    /// For each option the loop at which it runs; `None` for a phase of its own.
    pub(super) at: Vec<Option<(StageId, AxisId)>>,
}

/// A reduction of which a block of threads computes tiles.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) stage: StageId,
    /// The loop in which its operands are copied to shared memory.
    pub(super) step: AxisId,
    /// The number of threads.
    pub(super) threads: Factor,
}

impl State {
    /// The program with every padding a stage of its own.
    pub(super) fn new(dag: &Dag, target: &Target) -> Self {
        let mut b = Builder::new(dag, target);
        b.name.push("ansor".into());
        let mut state = Self {
            b,
            loop_nests: Vec::new(),
            written: Vec::new(),
            lengths: BTreeMap::new(),
            locations: Vec::new(),
            blocks: Vec::new(),
            shared: Vec::new(),
            crossed: Vec::new(),
        };
        for stage in state.schedule().order.clone() {
            if needs_tiling(&state, stage) {
                state.pad(stage);
            }
        }
        state
    }

    fn pad(&mut self, stage: StageId) {
        let mut padded: Vec<TensorId> =
            self.b.accesses(stage).iter().filter(|it| it.conditional).map(|it| it.tensor).collect();
        padded.sort_unstable();
        padded.dedup();
        for tensor in padded {
            // A condition that is no padding stays.
            let _ = self.b.apply(|it| it.cache_padded(tensor, stage));
        }
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.b.schedule
    }

    /// Returns the tensor that is visited first: that of the last stage.
    pub(super) fn last(&self) -> Option<TensorId> {
        self.visited().last()
    }

    /// Returns the tensor that is visited after another: the one before it.
    pub(super) fn before(&self, tensor: TensorId) -> Option<TensorId> {
        self.visited().take_while(|it| *it != tensor).last()
    }

    /// Returns parameters, then the results of stages, in topological order.
    fn visited(&self) -> impl Iterator<Item = TensorId> {
        let stages = self.schedule().order.iter().map(|it| self.schedule().stage(*it).tensor());
        self.schedule().dag.params().chain(stages)
    }

    /// The stage that computes a tensor; `None` for a parameter, or if it was inlined.
    pub(super) fn stage_of(&self, tensor: TensorId) -> Option<StageId> {
        let stage = self.schedule().tensor(tensor).stage?;
        (self.schedule().stage(stage).attach != Attach::Inline).then_some(stage)
    }

    /// Returns the loops that a rule gave a stage.
    pub(super) fn loop_nest(&self, stage: StageId) -> Option<&LoopNest> {
        self.loop_nests.iter().find(|it| it.stage == stage)
    }

    /// Splits a loop, and notes the lengths of its inner parts.
    pub(super) fn split(
        &mut self,
        stage: StageId,
        axis: AxisId,
        factors: &[Factor],
    ) -> Result<Vec<AxisId>> {
        let parts = self.b.split(stage, axis, factors)?;
        for (part, factor) in parts[1..].iter().zip(factors) {
            self.lengths.insert((stage, *part), factor.clone());
        }
        Ok(parts)
    }

    /// Fuses consecutive loops.
    pub(super) fn fuse(&mut self, stage: StageId, axes: &[AxisId]) -> Result<Option<AxisId>> {
        let Some((last, outer)) = axes.split_last() else { return Ok(None) };
        self.b.fuse(stage, outer, *last).map(Some)
    }

    /// Adds a rule to the name.
    pub(super) fn note(&mut self, stage: StageId, rule: &str) {
        let text = format!("{}: {rule}", self.b.stage_name(stage));
        self.b.name.push(text);
    }
}

/// Returns the state that a change leads to, unless a primitive refuses it.
pub(super) fn derive(
    state: &State,
    change: impl FnOnce(&mut State) -> Result<Option<TensorId>>,
) -> Derived {
    let mut next = state.clone();
    let at = change(&mut next);
    at.map(|at| (next, at)).into_iter().collect()
}

/// Returns whether elements are read by several iterations of an axis: of one tensor while something is
/// reduced, or of two.
pub(super) fn needs_tiling(state: &State, stage: StageId) -> bool {
    let compute = state.b.compute(stage);
    let extents = state.b.extents(stage);
    tvmtune_ir::dag::access::needs_tiling(compute, &state.b.accesses(stage), &|axis| extents[axis])
}
