//! Which schedules exist: traces with open arguments.
//!
//! In: a [`Dag`](tvmtune_ir::dag::Dag) and a [`Target`](tvmtune_ir::target::Target). Out: [`Sketch`]es. A
//! sketch fixes which primitives are applied, in which order; the numbers in them (factors, layouts,
//! orders of loops, how many threads) are [`Decision`]s. An option for each decision gives a trace.
//! Next: search picks options; [`super::default`] takes the ones computed here with no measurement.
//!
//! # Invariants
//!
//! - Every instruction list of a sketch hands out the same ids, whatever the options.
//! - Options are sorted where neighbors resemble each other ([`DecisionKind::is_ordered`]).
//! - `default` holds one option for each decision.
//!
//! # Source
//!
//! Sketches: Ansor (Zheng et al., OSDI 2020). Decisions as data: TVM's `MetaSchedule`. Instead of
//! one tiling structure for all of a machine's programs, each rule here comes with the analytic
//! choice that makes its sketch a good default.

mod adopt;
mod ansor;
mod blocks;
mod builder;
mod copies;
mod elementwise;
mod group;
mod gpu;
mod lift;
mod locate;
mod register_tile;
mod rows;
mod scan;
mod tile;
mod variant;

pub use self::ansor::ansor;

use self::builder::Builder;
use self::group::Group;
use self::variant::TileVariant;
use tvmtune_ir::dag::{Dag, TensorId};
use tvmtune_ir::target::Target;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

pub use self::locate::Located;

/// A trace whose open arguments are decisions. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// The rules that made it, for people; unique among the sketches of a dag.
    pub name: String,
    /// What is open.
    pub decisions: Vec<Decision>,
    /// The option of each decision that is best as far as analysis can tell.
    pub default: Vec<u16>,
    /// The trace.
    steps: Vec<Step>,
}

/// One open argument of a sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What it sets, for people: `mm.i tile`.
    pub name: String,
    /// What kind of argument it is.
    pub kind: DecisionKind,
    /// The values to choose from, at least one: factors, or numbers of alternatives.
    pub options: Vec<u64>,
    /// Decisions of one group tile one axis: what one factor loses another may gain.
    pub group: u32,
}

/// What a decision sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionKind {
    /// The extent of a tile whose elements live in registers, or of a loop that is unrolled.
    Inner,
    /// The extent of a tile that groups smaller ones: for a cache, or a task.
    Outer,
    /// Which loop is inside which.
    Order,
    /// How loops run, where something is computed, how many threads there are.
    Choice,
}

impl DecisionKind {
    /// Whether neighboring options are alike.
    pub fn is_ordered(self) -> bool {
        matches!(self, DecisionKind::Inner | DecisionKind::Outer)
    }
}

/// A decision, by position in [`Sketch::decisions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(pub u16);

/// A factor of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Factor {
    /// The same at every point.
    Fixed(u64),
    /// The value of a decision.
    Open(DecisionId),
    /// That many times the value of a decision.
    Times(u64, DecisionId),
    /// That many times the values of all these decisions.
    Product(u64, Vec<DecisionId>),
}

impl Factor {
    /// The factor, where decisions have these values.
    fn value(&self, of: &dyn Fn(DecisionId) -> u64) -> u64 {
        match self {
            Factor::Fixed(factor) => *factor,
            Factor::Open(decision) => of(*decision),
            Factor::Times(times, decision) => times * of(*decision),
            Factor::Product(times, decisions) => {
                decisions.iter().map(|it| of(*it)).product::<u64>() * times
            }
        }
    }
}

/// One or more instructions with open arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing open.
    Fixed(Instruction),
    /// A split whose factors may be open.
    Split {
        /// The stage.
        stage: StageId,
        /// The axis that is split.
        axis: AxisId,
        /// Outermost first.
        factors: Vec<Factor>,
    },
    /// A layout whose factors may be open.
    Pack {
        /// The tensor.
        tensor: TensorId,
        /// Which dimension is split, by what: see [`Layout::splits`].
        splits: Vec<(usize, Factor)>,
        /// See [`Layout::order`].
        order: Vec<usize>,
    },
    /// One of several lists of instructions that hand out no ids: a list for each option.
    OneOf {
        /// Which decision says which.
        decision: DecisionId,
        /// The lists, in order of the options.
        lists: Vec<Vec<Instruction>>,
    },
    /// Loops are written out, from the innermost outwards, as long as those written out have no
    /// more iterations together than a decision says.
    Unroll {
        /// The stage.
        stage: StageId,
        /// The loops with their extents, innermost first.
        loops: Vec<(AxisId, Factor)>,
        /// Which decision says how many iterations.
        most: DecisionId,
    },
    /// Loops become tasks, from the outermost inwards, as many of them as a decision says, and no
    /// more than where other stages run allows.
    Parallel {
        /// The stage.
        stage: StageId,
        /// The loops, outermost first.
        loops: Vec<AxisId>,
        /// Which decision says how many loops.
        count: DecisionId,
        /// The most loops for each option of decisions about places.
        stops: Vec<(DecisionId, Vec<u64>)>,
    },
}

/// No dag has more sketches than this: what each group may choose is combined up to here, after
/// that one group at a time leaves its best way.
const MOST_SKETCHES: usize = 24;

/// The sketches of a dag on a target, at least one; the first holds the default schedule.
pub fn sketches(dag: &Dag, target: &Target) -> Vec<Sketch> {
    let mut start = Builder::new(dag, target);
    start.inline_stages();
    let mut sketches = Vec::new();
    if start.is_gpu() {
        if let Some((chained, groups)) = gpu::chain::chained(&start) {
            sketches.extend(chained.sketches_of(&groups));
        }
        if let Some(cut) = gpu::cut_reductions(&start) {
            sketches.extend(cut.sketches_of(&cut.groups()));
        }
    }
    for in_rows in [true, false] {
        if let Some(blocks) = scan::by_blocks(&start, in_rows) {
            sketches.extend(blocks.sketches_of(&blocks.groups()));
        }
    }
    sketches.extend(start.sketches_of(&start.groups()));
    if sketches.is_empty() {
        // Every rule was refused: run the loops as the program wrote them.
        sketches.push(start.finish());
    }
    sketches
}

impl Builder {
    /// The sketches in which these groups run, each on its own.
    fn sketches_of(&self, groups: &[Group]) -> Vec<Sketch> {
        let cycles = if self.is_gpu() { 0.0 } else { self.cycles(&self.schedule.order) };
        let ways: Vec<Vec<Way>> = groups.iter().map(|it| self.ways(it)).collect();
        let mut sketches: Vec<Sketch> = Vec::new();
        for choice in combinations(&ways.iter().map(Vec::len).collect::<Vec<_>>()) {
            let mut b = self.clone();
            let chosen = groups.iter().zip(choice.iter().zip(&ways).map(|(n, it)| &it[*n]));
            let applied = chosen.map(|(group, way)| b.apply_way(group, way)).all(|it| it.is_ok());
            if applied && (b.is_gpu() || b.decide_threads(cycles).is_ok()) {
                sketches.push(b.finish());
            }
        }
        sketches
    }
}

/// Which way each group goes: all combinations if they are few, else one group at a time leaves
/// way 0.
fn combinations(n_ways: &[usize]) -> Vec<Vec<usize>> {
    let start = vec![0; n_ways.len()];
    let n_all = n_ways.iter().try_fold(1_usize, |n, it| n.checked_mul(*it));
    if n_all.is_none_or(|it| it > MOST_SKETCHES) {
        let mut some = vec![start.clone()];
        for (group, n) in n_ways.iter().enumerate() {
            some.extend((1..*n).map(|way| {
                let mut choice = start.clone();
                choice[group] = way;
                choice
            }));
        }
        some.truncate(MOST_SKETCHES);
        return some;
    }
    let mut all = vec![start];
    for (group, n) in n_ways.iter().enumerate() {
        let with = |way: usize| {
            all.iter().map(move |it: &Vec<usize>| {
                let mut choice = it.clone();
                choice[group] = way;
                choice
            })
        };
        all = (0..*n).flat_map(with).collect();
    }
    all
}

/// One way to schedule a group.
enum Way {
    Tile(TileVariant),
    Rows,
    Elementwise,
    Blocks(scan::Part),
    Gpu(gpu::Way),
}

impl Builder {
    /// The ways to schedule a group, the most promising first.
    fn ways(&self, group: &Group) -> Vec<Way> {
        if self.is_gpu() {
            return gpu::ways(self, group).into_iter().map(Way::Gpu).collect();
        }
        match group {
            Group::Chain(_) => Vec::new(),
            Group::Tiled { anchor, .. } => {
                variant::variants(self, *anchor).into_iter().map(Way::Tile).collect()
            }
            Group::Rows { root, inside, .. } => {
                let reduces = self.schedule.stage(*root).compute.reducer.is_some();
                let alone = inside.is_empty() && !reduces;
                let part = self.part(*root).filter(|_| inside.is_empty());
                vec![match part {
                    Some(part) => Way::Blocks(part),
                    None if alone => Way::Elementwise,
                    None => Way::Rows,
                }]
            }
        }
    }

    fn apply_way(&mut self, group: &Group, way: &Way) -> Result<(), ScheduleError> {
        match (group, way) {
            (Group::Tiled { root, anchor }, Way::Tile(variant)) => {
                tile::tile(self, *root, *anchor, variant)
            }
            (Group::Rows { root, .. }, Way::Elementwise) => elementwise::elementwise(self, *root),
            (_, Way::Blocks(part)) => scan::alone(self, *part),
            (group, Way::Gpu(way)) => gpu::apply(self, group, way),
            (Group::Chain(_), _) => Ok(()),
            (Group::Rows { root, inside, depth }, _) => rows::rows(self, *root, inside, *depth),
            (Group::Tiled { root, .. }, _) => rows::rows(self, *root, &[], 0),
        }
    }
}

impl Step {
    /// Adds the instructions that this is where decisions take the options of those numbers.
    fn write(&self, decisions: &[Decision], choices: &[u16], trace: &mut Vec<Instruction>) {
        let chosen = |id: DecisionId| choices[id.0 as usize] as usize;
        let value = |id: DecisionId| decisions[id.0 as usize].options[chosen(id)];
        let annotated = |stage: &StageId, axis: &AxisId, kind: LoopKind| Instruction::Annotate {
            stage: *stage,
            axis: *axis,
            kind,
        };
        match self {
            Step::Fixed(instruction) => trace.push(instruction.clone()),
            Step::Split { stage, axis, factors } => {
                let factors = factors.iter().map(|it| it.value(&value)).collect();
                trace.push(Instruction::Split { stage: *stage, axis: *axis, factors });
            }
            Step::Pack { tensor, splits, order } => {
                let split = |(dim, it): &(usize, Factor)| (*dim, it.value(&value));
                let splits = splits.iter().map(split).collect();
                let layout = Layout { splits, order: order.clone() };
                trace.push(Instruction::Pack { tensor: *tensor, layout });
            }
            Step::OneOf { decision, lists } => {
                trace.extend(lists[chosen(*decision)].iter().cloned());
            }
            Step::Unroll { stage, loops, most } => {
                let mut written_out = 1_u64;
                for (axis, extent) in loops {
                    written_out = written_out.saturating_mul(extent.value(&value));
                    if written_out > value(*most) {
                        break;
                    }
                    trace.push(annotated(stage, axis, LoopKind::Unrolled));
                }
            }
            Step::Parallel { stage, loops, count, stops } => {
                let limits = stops.iter().map(|(it, most)| most[chosen(*it)]);
                let n_loops = limits.fold(value(*count), u64::min) as usize;
                let tasks = loops.iter().take(n_loops);
                trace.extend(tasks.map(|it| annotated(stage, it, LoopKind::Parallel)));
            }
        }
    }
}

impl Sketch {
    /// A sketch of those parts.
    pub fn new(
        name: impl Into<String>,
        decisions: Vec<Decision>,
        default: Vec<u16>,
        steps: Vec<Step>,
    ) -> Self {
        Self { name: name.into(), decisions, default, steps }
    }

    /// The trace in which each decision takes the option of that number.
    ///
    /// # Panics
    ///
    /// If `choices` has not one valid option number for each decision.
    pub fn instructions(&self, choices: &[u16]) -> Vec<Instruction> {
        assert_eq!(choices.len(), self.decisions.len(), "one option for each decision");
        let mut trace = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            step.write(&self.decisions, choices, &mut trace);
        }
        trace
    }

    /// How many points there are; saturates.
    pub fn n_points(&self) -> u64 {
        self.decisions.iter().fold(1, |n, it| n.saturating_mul(it.options.len() as u64))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_trace;
