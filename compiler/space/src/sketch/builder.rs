//! Building a sketch: primitives are applied to a schedule as they are noted, with the options
//! that analysis chose, so that a rule sees real ids and every sketch has one point that is legal.

use super::scan::Part;
use super::{Decision, DecisionId, DecisionKind, Factor, Sketch, Step};
use tvmtune_ir::dag::access::{Access, accesses, needs_tiling, work};
use tvmtune_ir::dag::{Dag, TensorId, TensorKind};
use tvmtune_ir::poly::{Facts, Poly};
use tvmtune_ir::target::{CpuTarget, GpuTarget, Target};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, Instruction, LoopKind, Schedule, StageId, Threads};

/// A sketch in the making.
#[derive(Clone, Debug)]
pub(super) struct Builder {
    target: Target,
    pub(super) facts: Facts,
    /// The schedule of the default point so far.
    pub(super) schedule: Schedule,
    pub(super) name: Vec<String>,
    decisions: Vec<Decision>,
    default: Vec<u16>,
    steps: Vec<Step>,
    n_groups: u32,
    /// Stages that run on their own, whatever reads them.
    apart: Vec<StageId>,
    /// What stages do in reductions by blocks.
    pub(super) parts: Vec<Part>,
}

impl Builder {
    pub(super) fn new(dag: &Dag, target: &Target) -> Self {
        Self {
            target: *target,
            facts: dag.facts(),
            schedule: Schedule::new(dag),
            name: Vec::new(),
            decisions: Vec::new(),
            default: Vec::new(),
            steps: Vec::new(),
            n_groups: 0,
            apart: Vec::new(),
            parts: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Sketch {
        let name = if self.name.is_empty() { "plain".into() } else { self.name.join(" ") };
        Sketch::new(name, self.decisions, self.default, self.steps)
    }

    /// Lets a stage run on its own, whatever reads it.
    pub(super) fn keep_apart(&mut self, stage: StageId) {
        self.apart.push(stage);
    }

    /// Whether a stage must run on its own.
    pub(super) fn is_apart(&self, stage: StageId) -> bool {
        self.apart.contains(&stage)
    }

    /// A number for decisions that tile the same axis.
    pub(super) fn new_group(&mut self) -> u32 {
        self.n_groups += 1;
        self.n_groups - 1
    }

    /// Opens a decision; its default is the option nearest to `best`, which need not be one.
    pub(super) fn decide(
        &mut self,
        name: String,
        kind: DecisionKind,
        options: &[u64],
        best: u64,
        group: u32,
    ) -> DecisionId {
        let mut options = options.to_vec();
        if kind.is_ordered() {
            options.push(best);
            options.sort_unstable();
        }
        options.dedup();
        let default = options.iter().position(|it| *it == best).unwrap_or(0);
        self.default.push(default as u16);
        self.decisions.push(Decision { name, kind, options, group });
        DecisionId(self.decisions.len() as u16 - 1)
    }

    /// The options of a decision.
    pub(super) fn options(&self, decision: DecisionId) -> Vec<u64> {
        self.decisions[decision.0 as usize].options.clone()
    }

    /// The value of a decision at the default point.
    pub(super) fn value(&self, decision: DecisionId) -> u64 {
        let n = decision.0 as usize;
        self.decisions[n].options[self.default[n] as usize]
    }

    /// Applies a primitive that has nothing open.
    pub(super) fn apply<T>(
        &mut self,
        primitive: impl FnOnce(&mut Schedule) -> Result<T, ScheduleError>,
    ) -> Result<T, ScheduleError> {
        let before = self.schedule.trace.len();
        let made = primitive(&mut self.schedule)?;
        self.steps.extend(self.schedule.trace[before..].iter().cloned().map(Step::Fixed));
        Ok(made)
    }

    /// Splits by factors that may be open.
    pub(super) fn split(
        &mut self,
        stage: StageId,
        axis: AxisId,
        factors: &[Factor],
    ) -> Result<Vec<AxisId>, ScheduleError> {
        let values: Vec<u64> =
            factors.iter().map(|it| it.value(&|decision| self.value(decision))).collect();
        let parts = self.schedule.split(stage, axis, &values)?;
        self.steps.push(Step::Split { stage, axis, factors: factors.to_vec() });
        Ok(parts)
    }

    /// Applies one of several lists of instructions, none of which hands out ids.
    pub(super) fn one_of(
        &mut self,
        decision: DecisionId,
        lists: Vec<Vec<Instruction>>,
    ) -> Result<(), ScheduleError> {
        self.step(Step::OneOf { decision, lists })
    }

    /// Applies a step of which other steps have opened the decisions.
    pub(super) fn step(&mut self, step: Step) -> Result<(), ScheduleError> {
        let mut instructions = Vec::new();
        step.write(&self.decisions, &self.default, &mut instructions);
        for instruction in &instructions {
            self.schedule.apply(instruction)?;
        }
        self.steps.push(step);
        Ok(())
    }

    /// Says how a loop runs.
    pub(super) fn annotate(
        &mut self,
        stage: StageId,
        axis: AxisId,
        kind: LoopKind,
    ) -> Result<(), ScheduleError> {
        self.apply(|it| it.annotate(stage, axis, kind))
    }

    /// Estimated cycles that stages take on one thread.
    pub(super) fn cycles<'a>(&self, stages: impl IntoIterator<Item = &'a StageId>) -> f64 {
        let of = |stage: &StageId| {
            let each = work(&self.schedule.stage(*stage).compute.body) as f64 * 0.5 + 2.0;
            self.extents(*stage).iter().product::<u64>() as f64 * each / self.lanes() as f64
        };
        stages.into_iter().map(of).sum()
    }

    /// Opens how many threads there are; the default from an estimate of what one has to do.
    pub(super) fn decide_threads(&mut self, cycles: f64) -> Result<(), ScheduleError> {
        // Below some 10 us on one core, waking others costs more than they do.
        const ALONE: f64 = 60_000.0;
        let best = u64::from(cycles > ALONE && self.cpu().threads > 1);
        let group = self.new_group();
        let decision = self.decide("threads".into(), DecisionKind::Choice, &[0, 1], best, group);
        let list = |threads| vec![Instruction::Threads { threads }];
        self.one_of(decision, vec![list(Threads::One), list(Threads::All)])
    }

    /// The reads of a stage, of tensors as they are stored.
    pub(super) fn accesses(&self, stage: StageId) -> Vec<Access> {
        let shape = |it: TensorId| self.schedule.tensor(it).tensor.shape.clone();
        let mut found = accesses(&self.schedule.stage(stage).compute, &shape, &self.facts);
        for access in &mut found {
            let order = match &self.schedule.tensor(access.tensor).layout {
                Some(layout) if self.is_gpu() && layout.splits.is_empty() => &layout.order,
                _ => continue,
            };
            access.permute(order, &shape(access.tensor));
        }
        found
    }

    /// Whether tiles of a stage pay, and it reduces.
    pub(super) fn is_anchor(&self, stage: StageId) -> bool {
        let compute = &self.schedule.stage(stage).compute;
        let extent = |axis: usize| self.most(&compute.axes[axis].extent);
        compute.reducer.is_some() && needs_tiling(compute, &self.accesses(stage), &extent)
    }

    /// The largest value of an extent.
    pub(super) fn most(&self, extent: &Poly) -> u64 {
        extent.interval(&self.facts).hi.max(1) as u64
    }

    /// The largest extents of the axes that a stage's compute declares.
    pub(super) fn extents(&self, stage: StageId) -> Vec<u64> {
        let axes = &self.schedule.stage(stage).compute.axes;
        axes.iter().map(|it| self.most(&it.extent)).collect()
    }

    /// The extent of a loop of a stage.
    pub(super) fn extent(&self, stage: StageId, axis: AxisId) -> u64 {
        self.most(&self.schedule.stage(stage).axis(axis).extent)
    }

    /// Whether a tensor's layout may be chosen with no copy: a weight that one stage reads.
    pub(super) fn is_packable(&self, tensor: TensorId) -> bool {
        let found = self.schedule.tensor(tensor);
        found.tensor.kind == TensorKind::Weight
            && found.layout.is_none()
            && self.schedule.readers(tensor).count() == 1
    }

    /// The name of what a stage computes.
    pub(super) fn stage_name(&self, stage: StageId) -> &str {
        let tensor = self.schedule.stage(stage).tensor();
        &self.schedule.tensor(tensor).tensor.name
    }

    /// The CPU that rules for CPUs are applied for.
    pub(super) fn cpu(&self) -> CpuTarget {
        match self.target {
            Target::Cpu(cpu) => cpu,
            Target::Gpu(_) => unreachable!("rules for CPUs are applied for CPUs"),
        }
    }

    /// Whether schedules are made for a GPU.
    pub(super) fn is_gpu(&self) -> bool {
        matches!(self.target, Target::Gpu(_))
    }

    /// The GPU that rules for GPUs are applied for.
    pub(super) fn gpu(&self) -> GpuTarget {
        match self.target {
            Target::Gpu(gpu) => gpu,
            Target::Cpu(_) => unreachable!("rules for GPUs are applied for GPUs"),
        }
    }

    /// 32-bit lanes of a vector.
    pub(super) fn lanes(&self) -> u64 {
        self.cpu().isa.lanes().into()
    }
}
