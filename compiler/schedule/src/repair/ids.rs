//! Which id of a schedule stands for which one of another, while a trace is replayed on both.

use std::collections::BTreeMap;

use crate::{AxisId, Instruction, Schedule, Stage, StageId};
use tvmtune_ir::dag::TensorId;

/// Which id of the new schedule stands for which of the original's.
#[derive(Default)]
pub(super) struct Ids {
    pub(super) stages: BTreeMap<StageId, StageId>,
    pub(super) tensors: BTreeMap<TensorId, TensorId>,
    pub(super) axes: BTreeMap<(StageId, AxisId), AxisId>,
    /// How many of the original's stages, tensors, and axes of each stage, were looked at.
    n_stages: usize,
    n_tensors: usize,
    n_axes: BTreeMap<StageId, usize>,
}

impl Ids {
    /// Pairs up the ids that an instruction which applied to both handed out.
    pub(super) fn note(&mut self, from: &Schedule, to: &Schedule) {
        // New ids are the last ones on both sides.
        let twin = |n: usize, of: usize, others: usize| (n + others).checked_sub(of);
        for n in self.n_stages..from.stages.len() {
            if let Some(twin) = twin(n, from.stages.len(), to.stages.len()) {
                self.stages.insert(StageId(n as u32), StageId(twin as u32));
            }
        }
        for n in self.n_tensors..from.tensors.len() {
            if let Some(twin) = twin(n, from.tensors.len(), to.tensors.len()) {
                self.tensors.insert(TensorId(n as u32), TensorId(twin as u32));
            }
        }
        for (stage, counterpart) in &self.stages {
            let (mine, theirs) = (&from.stage(*stage).axes, &to.stage(*counterpart).axes);
            let seen = self.n_axes.get(stage).copied().unwrap_or(0);
            for n in seen..mine.len() {
                if let Some(twin) = twin(n, mine.len(), theirs.len()) {
                    self.axes.insert((*stage, AxisId(n as u32)), AxisId(twin as u32));
                }
            }
        }
        self.skip(from);
    }

    /// Leaves the ids that an instruction handed out on the original without a twin.
    pub(super) fn skip(&mut self, from: &Schedule) {
        self.n_stages = from.stages.len();
        self.n_tensors = from.tensors.len();
        let count = |(n, it): (usize, &Stage)| (StageId(n as u32), it.axes.len());
        self.n_axes = from.stages.iter().enumerate().map(count).collect();
    }

    /// Forgets the axes of a stage whose loops the instruction made anew; where it was left out,
    /// the spatial axes are still the same ones.
    pub(super) fn reset(&mut self, instruction: &Instruction, from: &Schedule, applied: bool) {
        let (Instruction::CacheWrite { stage }
        | Instruction::FactorOut { stage }
        | Instruction::Rfactor { stage, .. }
        | Instruction::Scan { stage, .. }) = instruction
        else {
            return;
        };
        self.axes.retain(|(it, _), _| it != stage);
        self.n_axes.insert(*stage, 0);
        if !applied {
            let n_spatial = from.stage(*stage).compute.n_spatial as u32;
            for axis in (0..n_spatial).map(AxisId) {
                self.axes.insert((*stage, axis), axis);
            }
        }
    }

    /// The instruction about the new schedule's ids; `None` if one of them has no twin there.
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
