//! The mapping of ids from one schedule to another, while a trace is replayed on both.

use std::collections::BTreeMap;

use crate::{AxisId, Instruction, Schedule, Stage, StageId};
use tvmtune_ir::dag::TensorId;

/// The ids of the new schedule, by those of the original: its counterparts.
#[derive(Default)]
pub(super) struct Ids {
    pub(super) stages: BTreeMap<StageId, StageId>,
    pub(super) tensors: BTreeMap<TensorId, TensorId>,
    pub(super) axes: BTreeMap<(StageId, AxisId), AxisId>,
    /// The number of the original's stages, tensors, and axes of each stage, that were mapped.
    n_stages: usize,
    n_tensors: usize,
    n_axes: BTreeMap<StageId, usize>,
}

/// The outcome of an instruction on the new schedule.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    Applied,
    Dropped,
}

impl Ids {
    /// Maps the ids that an instruction handed out on both schedules.
    pub(super) fn note(&mut self, from: &Schedule, to: &Schedule) {
        // New ids are the last ones on both sides.
        let counterpart = |n: usize, of: usize, others: usize| (n + others).checked_sub(of);
        for n in self.n_stages..from.stages.len() {
            if let Some(counterpart) = counterpart(n, from.stages.len(), to.stages.len()) {
                self.stages.insert(StageId(n as u32), StageId(counterpart as u32));
            }
        }
        for n in self.n_tensors..from.tensors.len() {
            if let Some(counterpart) = counterpart(n, from.tensors.len(), to.tensors.len()) {
                self.tensors.insert(TensorId(n as u32), TensorId(counterpart as u32));
            }
        }
        for (stage, other) in &self.stages {
            let (mine, theirs) = (&from.stage(*stage).axes, &to.stage(*other).axes);
            let seen = self.n_axes.get(stage).copied().unwrap_or(0);
            for n in seen..mine.len() {
                if let Some(counterpart) = counterpart(n, mine.len(), theirs.len()) {
                    self.axes.insert((*stage, AxisId(n as u32)), AxisId(counterpart as u32));
                }
            }
        }
        self.skip(from);
    }

    /// Leaves the ids that an instruction handed out on the original unmapped.
    pub(super) fn skip(&mut self, from: &Schedule) {
        self.n_stages = from.stages.len();
        self.n_tensors = from.tensors.len();
        let count = |(n, it): (usize, &Stage)| (StageId(n as u32), it.axes.len());
        self.n_axes = from.stages.iter().enumerate().map(count).collect();
    }

    /// Unmaps the axes of a stage whose loops the instruction replaced; where it was dropped, the
    /// spatial axes keep their counterparts.
    pub(super) fn reset(&mut self, instruction: &Instruction, from: &Schedule, outcome: Outcome) {
        let (Instruction::CacheWrite { stage }
        | Instruction::FactorOut { stage }
        | Instruction::Rfactor { stage, .. }
        | Instruction::Scan { stage, .. }) = instruction
        else {
            return;
        };
        self.axes.retain(|(it, _), _| it != stage);
        self.n_axes.insert(*stage, 0);
        if outcome == Outcome::Dropped {
            let n_spatial = from.stage(*stage).compute.n_spatial as u32;
            for axis in (0..n_spatial).map(AxisId) {
                self.axes.insert((*stage, axis), axis);
            }
        }
    }

    /// Translates an instruction to the new schedule's ids; `None` if one is unmapped.
    pub(super) fn translated(&self, instruction: &Instruction) -> Option<Instruction> {
        let stage = |it: &StageId| self.stages.get(it).copied();
        let tensor = |it: &TensorId| self.tensors.get(it).copied();
        let axis = |of: &StageId, it: &AxisId| self.axes.get(&(*of, *it)).copied();
        Some(match instruction {
            Instruction::Split { stage: s, axis: a, factors } => {
                Instruction::Split { stage: stage(s)?, axis: axis(s, a)?, factors: factors.clone() }
            }
            Instruction::Fuse { stage: s, outer, inner } => Instruction::Fuse {
                stage: stage(s)?,
                outer: axis(s, outer)?,
                inner: axis(s, inner)?,
            },
            Instruction::Reorder { stage: s, order } => Instruction::Reorder {
                stage: stage(s)?,
                order: order.iter().map(|it| axis(s, it)).collect::<Option<_>>()?,
            },
            Instruction::Annotate { stage: s, axis: a, kind } => {
                Instruction::Annotate { stage: stage(s)?, axis: axis(s, a)?, kind: *kind }
            }
            Instruction::ComputeAt { stage: s, consumer, axis: a } => Instruction::ComputeAt {
                stage: stage(s)?,
                consumer: stage(consumer)?,
                axis: axis(consumer, a)?,
            },
            Instruction::OnlineReduction { stage: s, host, axis: a } => {
                Instruction::OnlineReduction {
                    stage: stage(s)?,
                    host: stage(host)?,
                    axis: axis(host, a)?,
                }
            }
            Instruction::FactorOut { stage: s } => Instruction::FactorOut { stage: stage(s)? },
            Instruction::HoistInvariant { stage: s } => {
                Instruction::HoistInvariant { stage: stage(s)? }
            }
            Instruction::Downcast { stage: s, dtype } => {
                Instruction::Downcast { stage: stage(s)?, dtype: *dtype }
            }
            Instruction::Reciprocal { stage: s } => Instruction::Reciprocal { stage: stage(s)? },
            Instruction::Inline { stage: s } => Instruction::Inline { stage: stage(s)? },
            Instruction::CacheRead { tensor: t, reader } => {
                Instruction::CacheRead { tensor: tensor(t)?, reader: stage(reader)? }
            }
            Instruction::CacheOperand { reader, read } => {
                Instruction::CacheOperand { reader: stage(reader)?, read: *read }
            }
            Instruction::CachePadded { tensor: t, reader } => {
                Instruction::CachePadded { tensor: tensor(t)?, reader: stage(reader)? }
            }
            Instruction::CacheWrite { stage: s } => Instruction::CacheWrite { stage: stage(s)? },
            Instruction::Rfactor { stage: s, axis: a } => {
                Instruction::Rfactor { stage: stage(s)?, axis: axis(s, a)? }
            }
            Instruction::Scan { stage: s, axis: a } => {
                Instruction::Scan { stage: stage(s)?, axis: axis(s, a)? }
            }
            Instruction::TightenBounds { stage: s, axis: a } => {
                Instruction::TightenBounds { stage: stage(s)?, axis: axis(s, a)? }
            }
            Instruction::Pack { tensor: t, layout } => {
                Instruction::Pack { tensor: tensor(t)?, layout: layout.clone() }
            }
            Instruction::Threads { threads } => Instruction::Threads { threads: *threads },
        })
    }
}
