//! What is known while sketches are derived: a sketch in the making, and what rules did to stages.

use std::collections::BTreeMap;

use super::predicates;
use crate::sketch::builder::Builder;
use crate::sketch::{DecisionId, Factor};
use tvmtune_ir::dag::{Dag, TensorId};
use tvmtune_ir::target::Target;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{Attach, AxisId, Schedule, StageId};

/// A partial sketch.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The sketch.
    pub(super) b: Builder,
    /// Stages whose loops a rule has laid out.
    pub(super) laid: Vec<Laid>,
    /// Accumulators that were split from what stores them.
    pub(super) written: Vec<StageId>,
    /// Extents of loops as decisions have them, where that is known.
    pub(super) lengths: BTreeMap<(StageId, AxisId), Factor>,
    /// Decisions on where stages run.
    pub(super) places: Vec<Place>,
    /// Tiles of blocks of threads.
    pub(super) blocks: Vec<Block>,
    /// Copies in shared memory.
    pub(super) shared: Vec<StageId>,
    /// Reductions that threads share, and how many.
    pub(super) crossed: Vec<(StageId, Factor)>,
}

/// A stage whose loops a rule has laid out.
#[derive(Clone, Debug)]
pub(super) struct Laid {
    pub(super) stage: StageId,
    /// Whether it is in tiles: where it runs is decided, and others may run inside its reduction.
    pub(super) is_tiled: bool,
    /// So many of its outermost loops may be tasks.
    pub(super) n_outer: usize,
    /// The innermost loop, which is vectorized.
    pub(super) lanes: Option<AxisId>,
}

/// A decision on where a stage runs.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) stage: StageId,
    pub(super) decision: DecisionId,
    /// For each option the loop at which it runs; `None` for a phase of its own.
    pub(super) at: Vec<Option<(StageId, AxisId)>>,
}

/// A reduction of which a block of threads computes tiles.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) stage: StageId,
    /// The loop in which what it reads is copied to shared memory.
    pub(super) step: AxisId,
    /// How many threads.
    pub(super) threads: Factor,
}

impl State {
    /// The program with every padding a stage of its own.
    pub(super) fn new(dag: &Dag, target: &Target) -> Self {
        let mut b = Builder::new(dag, target);
        b.name.push("ansor".into());
        let mut state = Self {
            b,
            laid: Vec::new(),
            written: Vec::new(),
            lengths: BTreeMap::new(),
            places: Vec::new(),
            blocks: Vec::new(),
            shared: Vec::new(),
            crossed: Vec::new(),
        };
        for stage in state.schedule().order.clone() {
            if predicates::needs_tiling(&state, stage) {
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
            // Where the condition is no padding, it stays.
            let _ = self.b.apply(|it| it.cache_padded(tensor, stage));
        }
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.b.schedule
    }

    /// What is visited first: the last stage's tensor.
    pub(super) fn last(&self) -> Option<TensorId> {
        self.visited().last()
    }

    /// What is visited after a tensor: the one before it.
    pub(super) fn before(&self, tensor: TensorId) -> Option<TensorId> {
        self.visited().take_while(|it| *it != tensor).last()
    }

    /// Parameters, then what stages define, in topological order.
    fn visited(&self) -> impl Iterator<Item = TensorId> {
        let stages = self.schedule().order.iter().map(|it| self.schedule().stage(*it).tensor());
        self.schedule().dag.params().chain(stages)
    }

    /// The stage that computes a tensor; `None` for a parameter, or if it was inlined.
    pub(super) fn stage_of(&self, tensor: TensorId) -> Option<StageId> {
        let stage = self.schedule().tensor(tensor).stage?;
        (self.schedule().stage(stage).attach != Attach::Inline).then_some(stage)
    }

    /// What a rule did to the loops of a stage.
    pub(super) fn laid(&self, stage: StageId) -> Option<&Laid> {
        self.laid.iter().find(|it| it.stage == stage)
    }

    /// Splits a loop, and notes how long its inner parts are.
    pub(super) fn split(
        &mut self,
        stage: StageId,
        axis: AxisId,
        factors: &[Factor],
    ) -> Result<Vec<AxisId>, ScheduleError> {
        let parts = self.b.split(stage, axis, factors)?;
        for (part, factor) in parts[1..].iter().zip(factors) {
            self.lengths.insert((stage, *part), factor.clone());
        }
        Ok(parts)
    }

    /// Makes one loop of several that follow one another.
    pub(super) fn fuse(
        &mut self,
        stage: StageId,
        axes: &[AxisId],
    ) -> Result<Option<AxisId>, ScheduleError> {
        let Some((last, outer)) = axes.split_last() else { return Ok(None) };
        let mut fused = *last;
        for axis in outer.iter().rev() {
            fused = self.b.apply(|it| it.fuse(stage, *axis, fused))?;
        }
        Ok(Some(fused))
    }

    /// Adds what a rule did to the name.
    pub(super) fn note(&mut self, stage: StageId, what: &str) {
        let text = format!("{}: {what}", self.b.stage_name(stage));
        self.b.name.push(text);
    }
}
