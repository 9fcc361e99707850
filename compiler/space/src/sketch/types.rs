//! The data of a sketch: a trace with open arguments, its decisions, and the trace of a point.

use std::sync::Arc;

use super::hand_written::Knobs;
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::size::Size;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// The result of a primitive, or of several.
pub(super) type Result<T> = std::result::Result<T, ScheduleError>;

/// A trace whose open arguments are decisions. See the [module documentation](super).
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// The templates that made it, for people and for logs of trials; unique among the sketches of
    /// a dag.
    pub name: String,
    /// The templates that made it, in order of application; none of Ansor's sketches and of imported
    /// traces.
    pub templates: Vec<TemplateKind>,
    /// The open arguments.
    pub decisions: Vec<Decision>,
    /// The option of each decision that the analytic cost model prefers.
    pub default: Vec<u16>,
    /// The trace.
    pub(super) steps: Vec<Step>,
}

/// The template by which a group of stages is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TemplateKind {
    /// A reduction in tiles: of registers on CPUs, of threads on GPUs.
    Tile,
    /// A reduction by MMA instructions, each of a warp.
    Mma,
    /// A reduction by WGMMA instructions, operands copied by all threads.
    Wgmma,
    /// A reduction by WGMMA instructions, operands copied by a producer warp.
    WgmmaWarpSpecialized,
    /// Attention as one kernel.
    Attention,
    /// Attention by WGMMA instructions, keys and values copied by a producer warp.
    WgmmaAttention,
    /// Reductions along memory, and the stages that need them, row by row.
    Rows,
    /// Reductions across memory.
    Columns,
    /// Short reductions over overlapping windows.
    Window,
    /// Prefixes of blocks of elements, a block for each thread.
    BlockPrefix,
    /// Prefix sums of rows, a row for each thread block.
    RowScan,
    /// Prefix sums by blocks of lanes.
    BlockScan,
    /// Reductions of which data choose the elements that a term is added to.
    Scatter,
    /// Recurrences: steps in order, of independent elements.
    Recurrence,
    /// An elementwise stage that reads along another axis than it writes.
    Transpose,
    /// Elementwise stages and short reductions, each element by one thread.
    Flat,
    /// The kernels of the program's own template.
    HandWritten,
}

impl TemplateKind {
    /// The spelling in names of sketches. Logs of trials store them: it stays as it is.
    pub(super) fn label(self) -> &'static str {
        match self {
            TemplateKind::Tile => "tile",
            TemplateKind::Mma => "tensor",
            TemplateKind::Wgmma => "group",
            TemplateKind::WgmmaWarpSpecialized => "fed group",
            TemplateKind::Attention => "attention",
            TemplateKind::WgmmaAttention => "group attention",
            TemplateKind::Rows => "rows",
            TemplateKind::Columns => "columns",
            TemplateKind::Window => "window",
            TemplateKind::BlockPrefix => "prefix",
            TemplateKind::RowScan => "running",
            TemplateKind::BlockScan => "blocks",
            TemplateKind::Scatter => "scatter",
            TemplateKind::Recurrence => "recurrence",
            TemplateKind::Transpose => "across",
            TemplateKind::Flat => "flat",
            TemplateKind::HandWritten => "hand-written",
        }
    }
}

/// One open argument of a sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The argument it sets, for people: `mm.i tile`.
    pub name: String,
    /// The kind of argument.
    pub kind: DecisionKind,
    /// The values to choose from, at least one: factors, or numbers of alternatives.
    pub options: Vec<u64>,
    /// Decisions of one group tile one axis: search moves a factor from one to another.
    pub group: u32,
}

/// The kind of argument that a decision sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionKind {
    /// The extent of a tile whose elements live in registers, or of a loop that is unrolled.
    Inner,
    /// The extent of a tile that groups smaller ones: for a cache, or a task.
    Outer,
    /// The order of loops.
    Order,
    /// The kind of loops, the location of a stage, the number of threads.
    Choice,
}

impl DecisionKind {
    /// Returns whether neighboring options are alike.
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
    /// A multiple of the value of a decision.
    Times(u64, DecisionId),
    /// A multiple of the product of the values of some decisions.
    Product(u64, Vec<DecisionId>),
}

impl Factor {
    /// Returns the factor at given values of the decisions.
    pub(super) fn value(&self, value_of: &dyn Fn(DecisionId) -> u64) -> u64 {
        match self {
            Factor::Fixed(factor) => *factor,
            Factor::Open(decision) => value_of(*decision),
            Factor::Times(times, decision) => times * value_of(*decision),
            Factor::Product(times, decisions) => {
                decisions.iter().map(|it| value_of(*it)).size() * times
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
        /// The dimensions that are split, and their factors: see [`Layout::splits`].
        splits: Vec<(usize, Factor)>,
        /// See [`Layout::order`].
        order: Vec<usize>,
    },
    /// One of several lists of instructions that hand out no ids: a list for each option.
    OneOf {
        /// The decision that selects the list.
        decision: DecisionId,
        /// The lists, in order of the options.
        lists: Vec<Vec<Instruction>>,
    },
    /// Loops are fully unrolled, from the innermost outwards, as long as they have no more iterations
    /// together than a decision says.
    Unroll {
        /// The stage.
        stage: StageId,
        /// The loops with their extents, innermost first.
        loops: Vec<(AxisId, Factor)>,
        /// The decision that sets the largest number of iterations.
        max_iterations: DecisionId,
    },
    /// Loops become tasks, from the outermost inwards, as many of them as a decision says, and no
    /// more than where other stages run allows.
    Parallel {
        /// The stage.
        stage: StageId,
        /// The loops, outermost first.
        loops: Vec<AxisId>,
        /// The decision that sets how many loops.
        count: DecisionId,
        /// The largest number of loops for each option of decisions on compute locations.
        limits: Vec<(DecisionId, Vec<u64>)>,
    },
    /// The values of the knobs of hand-written kernels, each a decision.
    SetKnobs(Arc<Knobs>),
}

impl Step {
    /// Appends the instructions of the step at the point of those option numbers.
    pub(super) fn write(
        &self,
        decisions: &[Decision],
        choices: &[u16],
        trace: &mut Vec<Instruction>,
    ) {
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
            Step::Unroll { stage, loops, max_iterations } => {
                let mut n_iterations = 1_u64;
                for (axis, extent) in loops {
                    n_iterations = n_iterations.saturating_mul(extent.value(&value));
                    if n_iterations > value(*max_iterations) {
                        break;
                    }
                    trace.push(annotated(stage, axis, LoopKind::Unrolled));
                }
            }
            Step::Parallel { stage, loops, count, limits } => {
                let limits = limits.iter().map(|(it, max)| max[chosen(*it)]);
                let n_loops = limits.fold(value(*count), u64::min) as usize;
                let tasks = loops.iter().take(n_loops);
                trace.extend(tasks.map(|it| annotated(stage, it, LoopKind::Parallel)));
            }
            Step::SetKnobs(knobs) => {
                let values = knobs.decisions.iter().map(|it| value(*it)).collect();
                trace.push(Instruction::SetKnobs { values });
            }
        }
    }
}

impl Sketch {
    /// Returns a sketch of those parts, made by no template.
    pub fn new(
        name: impl Into<String>,
        decisions: Vec<Decision>,
        default: Vec<u16>,
        steps: Vec<Step>,
    ) -> Self {
        Self { name: name.into(), templates: Vec::new(), decisions, default, steps }
    }

    /// Returns whether a template made part of the sketch.
    pub fn uses(&self, template: TemplateKind) -> bool {
        self.templates.contains(&template)
    }

    /// Returns the trace in which each decision takes the option of that number.
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

    /// Counts the points; saturates.
    pub fn n_points(&self) -> u64 {
        self.decisions.iter().fold(1, |n, it| n.saturating_mul(it.options.len() as u64))
    }
}
