//! Building a sketch: primitives are applied to a schedule while they are recorded, at the default
//! options, so that a template sees real ids and every sketch has one point that is legal.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::types::{
    Decision, DecisionId, DecisionKind, Factor, Result, Sketch, Step, TemplateKind,
};
use tvmtune_cpu::vector::{MAX_PHASES, Simd, Width, width};
use tvmtune_ir::dag::access::{Access, accesses, needs_tiling, period, work};
use tvmtune_ir::dag::{Compute, Dag, TensorId, TensorKind};
use tvmtune_ir::poly::{Facts, Poly};
use tvmtune_ir::size::Size;
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, Schedule, StageId, Threads};

/// Cycles of a vectorized operation, two of which a core issues at once; estimated.
const CYCLES_PER_OP: f64 = 0.5;
/// Cycles of the loads and stores of an iteration in vectors; chosen by measurement.
const CYCLES_PER_ITERATION: f64 = 2.0;
/// Cycles up to which one thread works alone: below some 8 us on one core, others that wait for work save little;
/// chosen by judgement.
const MAX_SERIAL_CYCLES: f64 = 30_000.0;
/// Cycles beyond which one thread is no option; chosen by judgement.
const MAX_OPEN_CYCLES: f64 = 32.0 * MAX_SERIAL_CYCLES;

/// Bytes that one core gets from memory in a cycle; an estimate for recent server cores.
const MEMORY_BYTES_PER_CYCLE: f64 = 7.0;
/// Bytes that one core moves between its second-level cache and its registers in a cycle; chosen by measurement
/// of a copy.
const L2_BYTES_PER_CYCLE: f64 = 24.0;

/// A sketch in the making.
#[derive(Clone, Debug)]
pub(super) struct Builder {
    pub(super) target: Target,
    /// The width of lanes in vectors of CPUs.
    width: Width,
    pub(super) facts: Facts,
    /// The schedule of the default point so far.
    pub(super) schedule: Schedule,
    pub(super) name: Vec<String>,
    decisions: Vec<Decision>,
    default: Vec<u16>,
    steps: Vec<Step>,
    n_groups: u32,
    templates: Vec<TemplateKind>,
    /// Stages that are never fused into those that read them.
    unfused: Vec<StageId>,
    /// The stages of scans by blocks whose lanes are the elements of blocks.
    scan_stages: Vec<ScanStage>,
}

/// The role of a stage in a scan by blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanRole {
    /// Prefixes within blocks.
    Within,
    /// The exclusive prefix over the totals of blocks.
    Carry,
    /// The sum of both.
    Combine,
}

/// A stage of a scan by blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanStage {
    pub(super) stage: StageId,
    pub(super) role: ScanRole,
    /// The axis of the blocks, or of all elements.
    pub(super) axis: usize,
    pub(super) block_length: DecisionId,
}

impl Builder {
    pub(super) fn new(dag: &Dag, target: &Target) -> Self {
        Self {
            target: *target,
            width: width::of_dag(dag),
            facts: dag.facts(),
            schedule: Schedule::new(dag),
            name: Vec::new(),
            decisions: Vec::new(),
            default: Vec::new(),
            steps: Vec::new(),
            n_groups: 0,
            templates: Vec::new(),
            unfused: Vec::new(),
            scan_stages: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Sketch {
        let name = if self.name.is_empty() { "plain".into() } else { self.name.join(" ") };
        let sketch = Sketch::new(name, self.decisions, self.default, self.steps);
        Sketch { templates: self.templates, ..sketch }
    }

    /// Notes that a template scheduled a stage that runs on its own.
    pub(super) fn note_template(&mut self, template: TemplateKind, root: StageId) {
        self.note_template_as(template, root, template.label());
    }

    /// Notes a template under a label that says more than its kind.
    pub(super) fn note_template_as(&mut self, template: TemplateKind, root: StageId, label: &str) {
        self.name.push(format!("{}: {label}", self.stage_name(root)));
        self.templates.push(template);
    }

    /// Keeps a stage from being fused into those that read it.
    pub(super) fn forbid_fusion(&mut self, stage: StageId) {
        self.unfused.push(stage);
    }

    /// Returns whether a stage must run on its own.
    pub(super) fn is_fusion_forbidden(&self, stage: StageId) -> bool {
        self.unfused.contains(&stage)
    }

    /// Notes a stage of a scan by blocks.
    pub(super) fn note_scan_stage(&mut self, stage: ScanStage) {
        self.scan_stages.push(stage);
    }

    /// Returns the role of a stage in a scan by blocks whose elements are lanes.
    pub(super) fn scan_stage(&self, stage: StageId) -> Option<ScanStage> {
        // The last one: a carry may be the result of a scan of its own.
        self.scan_stages.iter().rev().find(|it| it.stage == stage).copied()
    }

    /// Returns the decision on the length of the blocks that a stage makes prefixes of.
    #[cfg(feature = "cuda")]
    pub(super) fn block_length(&self, stage: StageId) -> Option<DecisionId> {
        let scan = self.scan_stage(stage).filter(|it| it.role == ScanRole::Within);
        scan.map(|it| it.block_length)
    }

    /// Returns the group of a decision, for others that tile the same axis.
    pub(super) fn group_of(&self, decision: DecisionId) -> u32 {
        self.decisions[decision.0 as usize].group
    }

    /// Returns a new number for decisions that tile the same axis.
    pub(super) fn new_group(&mut self) -> u32 {
        self.n_groups += 1;
        self.n_groups - 1
    }

    /// Opens a decision in a group of its own; its default is the option nearest to `best`, which need
    /// not be one.
    pub(super) fn decide(
        &mut self,
        name: String,
        kind: DecisionKind,
        options: &[u64],
        best: u64,
    ) -> DecisionId {
        let group = self.new_group();
        self.decide_in(group, name, kind, options, best)
    }

    /// Opens a decision in a group.
    pub(super) fn decide_in(
        &mut self,
        group: u32,
        name: String,
        kind: DecisionKind,
        options: &[u64],
        best: u64,
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

    /// Opens a decision among powers of two from 1 to `max`; the default need not be one.
    #[cfg(feature = "cuda")]
    pub(super) fn decide_power(&mut self, name: String, max: u64, best: u64) -> DecisionId {
        let group = self.new_group();
        self.decide_power_in(group, name, max, best)
    }

    /// Opens a decision among powers of two in a group.
    #[cfg(feature = "cuda")]
    pub(super) fn decide_power_in(
        &mut self,
        group: u32,
        name: String,
        max: u64,
        best: u64,
    ) -> DecisionId {
        let options: Vec<u64> = (0..11).map(|it| 1 << it).filter(|it| *it <= max.max(1)).collect();
        self.decide_in(group, name, DecisionKind::Inner, &options, best)
    }

    /// Opens a decision on the length of a vectorized loop; `best` in vectors.
    pub(super) fn decide_lanes(&mut self, name: String, n_vectors: u64, best: u64) -> DecisionId {
        self.decide_units(name, 1, n_vectors, best)
    }

    /// Opens a decision on the length of a vectorized loop, in units of several vectors.
    fn decide_units(&mut self, name: String, vectors: u64, n_units: u64, best: u64) -> DecisionId {
        let unit = vectors * self.lanes();
        let mut options: Vec<u64> = [1, 2, 3, 4, 6, 8].iter().map(|it| it * unit).collect();
        options.retain(|it| *it <= n_units.max(1) * unit);
        self.decide(name, DecisionKind::Inner, &options, best.max(1) * unit)
    }

    /// Opens a decision on the length of a vectorized loop over an axis, `best` in vectors: whole periods of
    /// its quotients and remainders, so that each phase has whole vectors.
    pub(super) fn decide_lanes_of(
        &mut self,
        name: String,
        (stage, axis): (StageId, AxisId),
        best: u64,
    ) -> DecisionId {
        let period = period(self.compute(stage), axis.0 as usize, MAX_PHASES as u64);
        self.decide_lanes_in_periods(name, (stage, axis), best, period)
    }

    /// Opens a decision on the length of a vectorized loop over an axis, `best` in vectors: whole periods of so
    /// many phases.
    pub(super) fn decide_lanes_in_periods(
        &mut self,
        name: String,
        (stage, axis): (StageId, AxisId),
        best: u64,
        period: u64,
    ) -> DecisionId {
        let n_units = self.extent(stage, axis).div_ceil(period * self.lanes());
        self.decide_units(name, period, n_units, best.div_ceil(period).min(n_units))
    }

    /// Opens how a loop runs: as `kind` says for an option, or serially.
    pub(super) fn decide_loop_kind(
        &mut self,
        name: String,
        options: (DecisionKind, &[u64]),
        best: u64,
        (stage, axis): (StageId, AxisId),
        kind: impl Fn(u64) -> Option<LoopKind>,
    ) -> Result<()> {
        let decision = self.decide(name, options.0, options.1, best);
        let list = |option: &u64| {
            let kind = kind(*option);
            kind.map(|kind| Instruction::Annotate { stage, axis, kind }).into_iter().collect()
        };
        let lists = self.options(decision).iter().map(list).collect();
        self.one_of(decision, lists)
    }

    /// Returns the options of a decision.
    pub(super) fn options(&self, decision: DecisionId) -> Vec<u64> {
        self.decisions[decision.0 as usize].options.clone()
    }

    /// Returns the value of a decision at the default point.
    pub(super) fn value(&self, decision: DecisionId) -> u64 {
        let n = decision.0 as usize;
        self.decisions[n].options[self.default[n] as usize]
    }

    /// Applies a primitive that has nothing open.
    pub(super) fn apply<T>(
        &mut self,
        primitive: impl FnOnce(&mut Schedule) -> Result<T>,
    ) -> Result<T> {
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
    ) -> Result<Vec<AxisId>> {
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
    ) -> Result<()> {
        self.step(Step::OneOf { decision, lists })
    }

    /// Applies a step of which other steps have opened the decisions.
    pub(super) fn step(&mut self, step: Step) -> Result<()> {
        let mut instructions = Vec::new();
        step.write(&self.decisions, &self.default, &mut instructions);
        for instruction in &instructions {
            self.schedule.apply(instruction)?;
        }
        self.steps.push(step);
        Ok(())
    }

    /// Annotates a loop with how it runs.
    pub(super) fn annotate(&mut self, stage: StageId, axis: AxisId, kind: LoopKind) -> Result<()> {
        self.apply(|it| it.annotate(stage, axis, kind))
    }

    /// Annotates loops with how they run.
    pub(super) fn annotate_all(
        &mut self,
        stage: StageId,
        axes: impl IntoIterator<Item: Borrow<AxisId>>,
        kind: LoopKind,
    ) -> Result<()> {
        axes.into_iter().try_for_each(|it| self.annotate(stage, *it.borrow(), kind))
    }

    /// Orders loops of a stage.
    pub(super) fn reorder(
        &mut self,
        stage: StageId,
        axes: impl IntoIterator<Item: Borrow<AxisId>>,
    ) -> Result<()> {
        let order: Vec<AxisId> = axes.into_iter().map(|it| *it.borrow()).collect();
        self.apply(|it| it.reorder(stage, &order))
    }

    /// Fuses a loop with those around it, outermost first.
    pub(super) fn fuse(
        &mut self,
        stage: StageId,
        outer: impl IntoIterator<Item: Borrow<AxisId>, IntoIter: DoubleEndedIterator>,
        inner: AxisId,
    ) -> Result<AxisId> {
        let mut outer = outer.into_iter().rev();
        outer.try_fold(inner, |fused, it| self.apply(|b| b.fuse(stage, *it.borrow(), fused)))
    }

    /// Stores a tensor with its dimensions in another order.
    pub(super) fn permute(&mut self, tensor: TensorId, order: Vec<usize>) -> Result<()> {
        self.apply(|it| it.pack(tensor, Layout { splits: Vec::new(), order }))
    }

    /// Estimates the cycles that stages take on one CPU thread.
    pub(super) fn cycles<'a>(&self, stages: impl IntoIterator<Item = &'a StageId>) -> f64 {
        let cycles_of = |stage: &StageId| {
            if let Some(scatter) = self.scatter(*stage) {
                return scatter.cycles(self, *stage);
            }
            let n_ops = work(&self.compute(*stage).body) as f64;
            let each = n_ops * CYCLES_PER_OP + CYCLES_PER_ITERATION;
            self.n_vectors(*stage) * each
        };
        stages.into_iter().map(cycles_of).sum()
    }

    /// Estimates the vectors that a stage computes on a CPU: one for each row that is shorter than a vector.
    fn n_vectors(&self, stage: StageId) -> f64 {
        let (extents, n_spatial, accesses) =
            (self.extents(stage), self.n_spatial(stage), self.accesses(stage));
        let n_elements = extents.iter().size() as f64;
        let last = extents.len().saturating_sub(1);
        let along = |axis: usize| accesses.iter().any(|it| it.is_contiguous(axis));
        let is_in_rows = self.reduces(stage) && along(last) && !(0..n_spatial).any(along);
        match extents.last() {
            Some(length) if is_in_rows && *length < self.lanes() => n_elements / *length as f64,
            _ => n_elements / self.lanes() as f64,
        }
    }

    /// Estimates the cycles in which one CPU thread moves parameters and results that its first-level cache
    /// has no room for. Weights are read once a launch, and come from memory.
    pub(super) fn memory_cycles(&self) -> f64 {
        let mut elements: BTreeMap<TensorId, u64> = BTreeMap::new();
        for stage in &self.schedule.order {
            let extents = self.extents(*stage);
            for access in self.accesses(*stage) {
                let most = elements.entry(access.tensor).or_default();
                *most = access.footprint(&extents).max(*most);
            }
            let written = extents[..self.n_spatial(*stage)].iter().size();
            elements.entry(self.tensor_of(*stage)).or_insert(written);
        }
        let moved = |(id, elements): (TensorId, u64)| {
            let tensor = &self.schedule.tensor(id).tensor;
            let bytes = elements * tensor.dtype.bytes();
            let is_stored = self.schedule.dag.outputs.contains(&id);
            let nearest = match tensor.kind {
                TensorKind::Computed(_) if !is_stored => return 0.0,
                TensorKind::Weight => 0,
                _ => self.cpu().l2_bytes,
            };
            match bytes {
                it if it <= self.cpu().l1_bytes => 0.0,
                it if it <= nearest => it as f64 / L2_BYTES_PER_CYCLE,
                it => it as f64 / MEMORY_BYTES_PER_CYCLE,
            }
        };
        elements.into_iter().map(moved).sum()
    }

    /// Returns the number of threads that work gets which takes one of them so many cycles.
    pub(super) fn threads_for(&self, cycles: f64) -> u64 {
        if cycles > MAX_SERIAL_CYCLES { self.cpu().threads.into() } else { 1 }
    }

    /// Opens the number of threads; the default follows from the cycles that one would take. Long work
    /// takes all of them: one thread would win there only while others are busy.
    pub(super) fn decide_threads(&mut self, cycles: f64) -> Result<()> {
        if cycles > MAX_OPEN_CYCLES && self.cpu().threads > 1 {
            return self.apply(|it| {
                it.set_threads(Threads::All);
                Ok(())
            });
        }
        let best = u64::from(cycles > MAX_SERIAL_CYCLES && self.cpu().threads > 1);
        let decision = self.decide("threads".into(), DecisionKind::Choice, &[0, 1], best);
        let list = |threads| vec![Instruction::Threads { threads }];
        self.one_of(decision, vec![list(Threads::One), list(Threads::All)])
    }

    /// Returns the reads of a stage, of tensors as they are stored.
    pub(super) fn accesses(&self, stage: StageId) -> Vec<Access> {
        let shape = |it: TensorId| self.schedule.tensor(it).tensor.shape.clone();
        let mut found = accesses(self.compute(stage), &shape, &self.facts);
        for access in &mut found {
            let order = match &self.schedule.tensor(access.tensor).layout {
                Some(layout) if self.is_gpu() && layout.splits.is_empty() => &layout.order,
                _ => continue,
            };
            access.permute(order, &shape(access.tensor));
        }
        found
    }

    /// Returns whether a stage is a reduction whose operands are used more than once.
    pub(super) fn has_reuse(&self, stage: StageId) -> bool {
        let compute = self.compute(stage);
        let extent = |axis: usize| self.max_extent(&compute.axes[axis].extent);
        compute.reducer.is_some() && needs_tiling(compute, &self.accesses(stage), &extent)
    }

    /// Returns the largest value of an extent.
    pub(super) fn max_extent(&self, extent: &Poly) -> u64 {
        extent.interval(&self.facts).hi.max(1) as u64
    }

    /// Returns the compute of a stage.
    pub(super) fn compute(&self, stage: StageId) -> &Compute {
        &self.schedule.stage(stage).compute
    }

    /// Returns the tensor that a stage computes.
    pub(super) fn tensor_of(&self, stage: StageId) -> TensorId {
        self.schedule.stage(stage).tensor()
    }

    /// Counts the dimensions of a tensor.
    pub(super) fn n_dims(&self, tensor: TensorId) -> usize {
        self.schedule.tensor(tensor).tensor.shape.len()
    }

    /// Counts the spatial axes of a stage.
    pub(super) fn n_spatial(&self, stage: StageId) -> usize {
        self.compute(stage).n_spatial
    }

    /// Returns whether a stage reduces.
    pub(super) fn reduces(&self, stage: StageId) -> bool {
        self.compute(stage).reducer.is_some()
    }

    /// Counts the elements that a stage computes, at the largest extents.
    #[cfg(feature = "cuda")]
    pub(super) fn n_elements(&self, stage: StageId) -> u64 {
        self.extents(stage)[..self.n_spatial(stage)].iter().size()
    }

    /// Returns the largest extents of the axes that a stage's compute declares.
    pub(super) fn extents(&self, stage: StageId) -> Vec<u64> {
        let axes = &self.compute(stage).axes;
        axes.iter().map(|it| self.max_extent(&it.extent)).collect()
    }

    /// Returns the least extent that a launch may give an axis of a stage, 1 at least.
    pub(super) fn least_extent(&self, stage: StageId, axis: usize) -> u64 {
        let least = self.compute(stage).axes[axis].extent.interval(&self.facts).lo;
        u64::try_from(least).unwrap_or(1).max(1)
    }

    /// Returns the extent of a loop of a stage.
    pub(super) fn extent(&self, stage: StageId, axis: AxisId) -> u64 {
        self.max_extent(&self.schedule.stage(stage).axis(axis).extent)
    }

    /// Returns whether a tensor's layout may be chosen without a copy: a weight that one stage reads.
    pub(super) fn is_packable(&self, tensor: TensorId) -> bool {
        let found = self.schedule.tensor(tensor);
        found.tensor.kind == TensorKind::Weight
            && found.layout.is_none()
            && self.schedule.readers(tensor).count() == 1
    }

    /// Returns the name of the tensor that a stage computes.
    pub(super) fn stage_name(&self, stage: StageId) -> &str {
        let tensor = self.tensor_of(stage);
        &self.schedule.tensor(tensor).tensor.name
    }

    /// Returns the CPU that templates for CPUs are applied for.
    pub(super) fn cpu(&self) -> CpuTarget {
        match self.target {
            Target::Cpu(cpu) => cpu,
            Target::Gpu(_) => unreachable!("templates for CPUs are applied for CPUs"),
        }
    }

    /// Returns whether the target is a GPU.
    pub(super) fn is_gpu(&self) -> bool {
        matches!(self.target, Target::Gpu(_))
    }

    /// Returns the GPU that templates for GPUs are applied for.
    #[cfg(feature = "cuda")]
    pub(super) fn gpu(&self) -> tvmtune_ir::target::GpuTarget {
        match self.target {
            Target::Gpu(gpu) => gpu,
            Target::Cpu(_) => unreachable!("templates for GPUs are applied for GPUs"),
        }
    }

    /// Returns the vectors of the program.
    pub(super) fn simd(&self) -> Simd {
        Simd { isa: self.cpu().isa, width: self.width }
    }

    /// Returns the number of lanes of a vector.
    pub(super) fn lanes(&self) -> u64 {
        self.simd().lanes().unsigned_abs()
    }
}
