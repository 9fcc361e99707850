//! Imports a trace as a sketch, so that search can go on from a schedule that no template made.
//!
//! The trace is replayed for the lengths of its loops. Each factor of a split becomes a decision among
//! values near it: divisors of the loop, powers of two, whole vectors. A layout with the same factor
//! follows the decisions of that split. Everything else stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Decision, DecisionId, DecisionKind, Factor, Sketch, Step};
use tvmtune_cpu::vector::{Simd, width};
use tvmtune_ir::dag::{Dag, Expr, Subscript, TensorId};
use tvmtune_ir::poly::Facts;
use tvmtune_ir::size::Size;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, Schedule, StageId};

/// Times by which a factor may grow or shrink.
const MAX_RATIO: u64 = 8;
/// Divisors of a loop are tried up to here; larger ones are quotients by those.
const MAX_DIVISOR: u64 = 4096;
/// Vectors of the longest tile in whole vectors.
const MAX_VECTORS: u64 = 12;
/// The largest product of the factors of a split.
const MAX_PRODUCT: u64 = 1 << 31;

impl Sketch {
    /// Returns the sketch of a trace; its default is the trace itself. Where the trace does not apply to
    /// `dag`, nothing is open.
    pub fn import_trace(
        name: impl Into<String>,
        trace: &[Instruction],
        dag: &Dag,
        target: &Target,
    ) -> Self {
        let mut it = Importer {
            schedule: Schedule::new(dag),
            facts: dag.facts(),
            lanes: match target {
                Target::Cpu(cpu) => {
                    Simd { isa: cpu.isa, width: width::of_dag(dag) }.lanes().unsigned_abs()
                }
                Target::Gpu(_) => 1,
            },
            decisions: Vec::new(),
            default: Vec::new(),
            steps: Vec::new(),
            groups: BTreeMap::new(),
            n_groups: 0,
            tiles: BTreeMap::new(),
        };
        for (n, instruction) in trace.iter().enumerate() {
            if it.step(instruction, &trace[n + 1..]).is_none() {
                let fixed = trace.iter().cloned().map(Step::Fixed).collect();
                return Self::new(name, Vec::new(), Vec::new(), fixed);
            }
        }
        let mut sketch = Self::new(name, it.decisions, it.default, it.steps);
        sketch.drop_refused(dag);
        sketch
    }

    /// Removes the options whose trace does not apply, all other decisions at their defaults.
    fn drop_refused(&mut self, dag: &Dag) {
        for n in 0..self.decisions.len() {
            let mut choices = self.default.clone();
            let mut kept = Vec::new();
            for (option, value) in self.decisions[n].options.iter().enumerate() {
                choices[n] = option as u16;
                if choices == self.default
                    || Schedule::replay(dag, &self.instructions(&choices)).is_ok()
                {
                    kept.push(*value);
                }
            }
            let decision = &mut self.decisions[n];
            let value = decision.options[self.default[n] as usize];
            self.default[n] = kept.partition_point(|it| *it < value) as u16;
            decision.options = kept;
        }
    }
}

/// The inner parts of a split, by their length together.
type Tiles = Vec<(u64, Factor)>;

/// A sketch that is made while its trace is replayed.
struct Importer {
    schedule: Schedule,
    facts: Facts,
    /// Elements of a vector.
    lanes: u64,
    decisions: Vec<Decision>,
    default: Vec<u16>,
    steps: Vec<Step>,
    /// The group of the decisions that tile an axis.
    groups: BTreeMap<(StageId, AxisId), u32>,
    n_groups: u32,
    /// The splits of axes that a compute declares.
    tiles: BTreeMap<(StageId, AxisId), Tiles>,
}

impl Importer {
    /// Imports an instruction, which `next` follow; `None` if it does not apply.
    fn step(&mut self, instruction: &Instruction, next: &[Instruction]) -> Option<()> {
        let before = self.schedule.clone();
        self.schedule.apply(instruction).ok()?;
        let step = match instruction {
            Instruction::Split { stage, axis, factors } => {
                let kinds = kinds(&before, *stage, factors.len(), next);
                let factors = self.open(&before, *stage, *axis, factors, &kinds);
                Step::Split { stage: *stage, axis: *axis, factors }
            }
            Instruction::Pack { tensor, layout } if !layout.splits.is_empty() => {
                self.follow(*tensor, layout)
            }
            Instruction::CacheWrite { stage }
            | Instruction::FactorOut { stage }
            | Instruction::Rfactor { stage, .. }
            | Instruction::Polyphase { stage }
            | Instruction::Scan { stage, .. }
            | Instruction::ScanInOrder { stage } => {
                // Its loops are new ones.
                self.groups.retain(|(it, _), _| it != stage);
                self.tiles.retain(|(it, _), _| it != stage);
                Step::Fixed(instruction.clone())
            }
            _ => Step::Fixed(instruction.clone()),
        };
        self.steps.push(step);
        Some(())
    }

    /// Opens the factors of a split.
    fn open(
        &mut self,
        before: &Schedule,
        stage: StageId,
        axis: AxisId,
        values: &[u64],
        kinds: &[Option<LoopKind>],
    ) -> Vec<Factor> {
        let found = before.stage(stage);
        let extent = found.axis(axis).extent.interval(&self.facts).hi.max(1) as u64;
        let group = *self.groups.entry((stage, axis)).or_insert_with(|| {
            self.n_groups += 1;
            self.n_groups - 1
        });
        let first = found.axes.len() as u32;
        for part in first..=first + values.len() as u32 {
            self.groups.insert((stage, AxisId(part)), group);
        }
        // All of them may grow at once.
        let room = (MAX_PRODUCT / values.iter().size().max(1)) as f64;
        let room = room.powf(1.0 / values.len() as f64) as u64;
        let tensor = &before.tensor(found.tensor()).tensor.name;
        let name = format!("{tensor} {}", found.axis(axis).name);
        let mut factors = Vec::with_capacity(values.len());
        for (n, (value, kind)) in values.iter().zip(kinds).enumerate() {
            let lanes = if *kind == Some(LoopKind::Vectorized) { self.lanes } else { 1 };
            let options = match kind {
                // As long as the instruction is.
                Some(LoopKind::Tensorized) => vec![*value],
                _ => near(*value, extent, lanes, room),
            };
            if options.len() == 1 {
                factors.push(Factor::Fixed(*value));
                continue;
            }
            let kind = match kind {
                Some(LoopKind::Unrolled | LoopKind::Vectorized | LoopKind::Thread) => {
                    DecisionKind::Inner
                }
                _ => DecisionKind::Outer,
            };
            factors.push(Factor::Open(DecisionId(self.decisions.len() as u16)));
            self.default.push(options.partition_point(|it| it < value) as u16);
            self.decisions.push(Decision { name: format!("{name} {n}"), kind, options, group });
        }
        if (axis.0 as usize) < found.compute.axes.len() {
            self.tiles.insert((stage, axis), tiles(values, &factors));
        }
        factors
    }

    /// Returns a layout whose factors follow the tiles of the same length along their dimensions.
    fn follow(&self, tensor: TensorId, layout: &Layout) -> Step {
        let n_dims = self.schedule.tensor(tensor).tensor.shape.len();
        let mut dims: Vec<usize> = (0..n_dims).collect();
        let mut splits = Vec::with_capacity(layout.splits.len());
        for (dim, value) in &layout.splits {
            let tile = self.tile(tensor, dims[*dim], *value);
            splits.push((*dim, tile.unwrap_or(Factor::Fixed(*value))));
            dims.insert(*dim, dims[*dim]);
        }
        Step::Pack { tensor, splits, order: layout.order.clone() }
    }

    /// Returns the tile of a length along a dimension of a tensor: of the loops that write it, those that
    /// read it, and those that read the results of these.
    fn tile(&self, tensor: TensorId, dim: usize, length: u64) -> Option<Factor> {
        let writer = self.schedule.tensor(tensor).stage.map(|it| (it, AxisId(dim as u32)));
        let mut open: Vec<(StageId, AxisId)> = writer.into_iter().collect();
        open.extend(self.readers_along(tensor, dim));
        let mut seen = BTreeSet::new();
        while let Some((stage, axis)) = open.pop() {
            if !seen.insert((stage, axis)) {
                continue;
            }
            let tiles = self.tiles.get(&(stage, axis)).into_iter().flatten();
            if let Some((_, factor)) = tiles.clone().find(|it| it.0 == length) {
                return Some(factor.clone());
            }
            let found = self.schedule.stage(stage);
            if (axis.0 as usize) < found.compute.n_spatial {
                open.extend(self.readers_along(found.tensor(), axis.0 as usize));
            }
        }
        None
    }

    /// Returns the stages that read a tensor, each with the axis that indexes a dimension.
    fn readers_along(&self, tensor: TensorId, dim: usize) -> Vec<(StageId, AxisId)> {
        let mut found = Vec::new();
        for stage in self.schedule.readers(tensor) {
            self.schedule.stage(stage).compute.body.walk(&mut |it| {
                if let Expr::Read { tensor: read, index } = it
                    && *read == tensor
                    && let Some(Subscript::Affine(poly)) = index.get(dim)
                    && let Some(var) = poly.as_var()
                {
                    found.push((stage, AxisId(var.0)));
                }
            });
        }
        found
    }
}

/// Returns the kinds that `next` gives the inner parts of a split.
fn kinds(
    before: &Schedule,
    stage: StageId,
    n_factors: usize,
    next: &[Instruction],
) -> Vec<Option<LoopKind>> {
    let first = before.stage(stage).axes.len() as u32 + 1;
    let mut kinds = vec![None; n_factors];
    for it in next {
        match it {
            Instruction::Annotate { stage: s, axis, kind } if *s == stage => {
                let part = axis.0.checked_sub(first).map(|it| it as usize);
                if let Some(found) = part.and_then(|it| kinds.get_mut(it)) {
                    *found = Some(*kind);
                }
            }
            Instruction::CacheWrite { stage: s }
            | Instruction::FactorOut { stage: s }
            | Instruction::Rfactor { stage: s, .. }
            | Instruction::Polyphase { stage: s }
            | Instruction::Scan { stage: s, .. }
            | Instruction::ScanInOrder { stage: s }
                if *s == stage =>
            {
                break;
            }
            _ => {}
        }
    }
    kinds
}

/// Returns the inner parts of a split, the innermost alone first.
fn tiles(values: &[u64], factors: &[Factor]) -> Tiles {
    let (mut length, mut fixed, mut open) = (1, 1, Vec::new());
    let mut tiles = Vec::with_capacity(values.len());
    for (value, factor) in values.iter().zip(factors).rev() {
        length *= value;
        match factor {
            Factor::Open(decision) => open.push(*decision),
            _ => fixed *= value,
        }
        let tile = match open.as_slice() {
            [] => Factor::Fixed(fixed),
            [decision] if fixed == 1 => Factor::Open(*decision),
            _ => Factor::Product(fixed, open.clone()),
        };
        tiles.push((length, tile));
    }
    tiles
}

/// Returns the options of a factor, sorted, itself included.
fn near(value: u64, extent: u64, lanes: u64, room: u64) -> Vec<u64> {
    let max = value.saturating_mul(MAX_RATIO.min(room.max(1))).min(extent.next_multiple_of(lanes));
    let divisors = (1..=MAX_DIVISOR.min(extent)).filter(|it| extent.is_multiple_of(*it));
    let mut options: Vec<u64> = divisors.flat_map(|it| [it, extent / it]).collect();
    options.extend((0..31).map(|it| 1 << it));
    options.extend((1..=MAX_VECTORS).filter(|_| lanes > 1).map(|it| it * lanes));
    options.retain(|it| *it <= max && it.saturating_mul(MAX_RATIO) >= value);
    options.push(value);
    options.sort_unstable();
    options.dedup();
    options
}
