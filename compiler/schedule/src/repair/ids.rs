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
        | Instruction::Polyphase { stage }
        | Instruction::Scan { stage, .. }
        | Instruction::ScanInOrder { stage }) = instruction
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
        let stage_of = |it: &StageId| self.stages.get(it).copied();
        let tensor_of = |it: &TensorId| self.tensors.get(it).copied();
        let axis_of = |of: &StageId, it: &AxisId| self.axes.get(&(*of, *it)).copied();
        let mut translated = instruction.clone();
        match &mut translated {
            Instruction::Split { stage, axis, .. }
            | Instruction::Annotate { stage, axis, .. }
            | Instruction::Rfactor { stage, axis }
            | Instruction::Scan { stage, axis }
            | Instruction::TightenBounds { stage, axis } => {
                (*stage, *axis) = (stage_of(stage)?, axis_of(stage, axis)?);
            }
            Instruction::Fuse { stage, outer, inner } => {
                (*outer, *inner) = (axis_of(stage, outer)?, axis_of(stage, inner)?);
                *stage = stage_of(stage)?;
            }
            Instruction::Reorder { stage, order } => {
                *order = order.iter().map(|it| axis_of(stage, it)).collect::<Option<_>>()?;
                *stage = stage_of(stage)?;
            }
            Instruction::ComputeAt { stage, consumer: host, axis }
            | Instruction::OnlineReduction { stage, host, axis } => {
                *axis = axis_of(host, axis)?;
                (*stage, *host) = (stage_of(stage)?, stage_of(host)?);
            }
            Instruction::FactorOut { stage }
            | Instruction::HoistInvariant { stage }
            | Instruction::Downcast { stage, .. }
            | Instruction::Reciprocal { stage }
            | Instruction::Inline { stage }
            | Instruction::Polyphase { stage }
            | Instruction::ScanInOrder { stage }
            | Instruction::CacheOperand { reader: stage, .. }
            | Instruction::CacheWrite { stage } => *stage = stage_of(stage)?,
            Instruction::CacheRead { tensor, reader }
            | Instruction::CachePadded { tensor, reader } => {
                (*tensor, *reader) = (tensor_of(tensor)?, stage_of(reader)?);
            }
            Instruction::Pack { tensor, .. } => *tensor = tensor_of(tensor)?,
            Instruction::Threads { .. } | Instruction::SetKnobs { .. } => {}
        }
        Some(translated)
    }
}
