//! Encodes a trace as a point of a sketch: the inverse of [`Sketch::instructions`].
//!
//! A trace has the structure of a sketch if it differs from one of its points in factors only. Each
//! factor adds its log distance to every option of the decision that sets it, and each decision takes
//! the nearest option. Lists of several lengths for one decision are tried one after the other.

use super::{DecisionId, Factor, Sketch, Step};
use tvmtune_ir::size::Size;
use tvmtune_schedule::repair::octaves;
use tvmtune_schedule::{AxisId, Instruction, LoopKind};

/// The point of a sketch nearest to a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// An option number for each decision.
    pub choices: Vec<u16>,
    /// The point makes that very trace; else it is the nearest one.
    pub is_exact: bool,
}

impl Sketch {
    /// Returns the point whose factors are nearest to those of a trace, by the sum of log distances;
    /// `None` if the trace differs from every point in more than factors.
    pub fn encode(&self, trace: &[Instruction]) -> Option<Encoded> {
        let none = self.decisions.iter().map(|it| vec![0.0; it.options.len()]).collect();
        let mut best = None;
        self.follow(0, trace, Distances { of: none, products: Vec::new() }, &mut best);
        let (_, mut choices) = best?;
        self.settle_unrolling(&mut choices, trace);
        let is_exact = self.instructions(&choices) == trace;
        Some(Encoded { choices, is_exact })
    }

    /// Follows the steps from number `first` on along the rest of a trace.
    fn follow(
        &self,
        first: usize,
        trace: &[Instruction],
        mut distances: Distances,
        best: &mut Option<(f64, Vec<u16>)>,
    ) {
        let mut rest = trace;
        for (n, step) in self.steps.iter().enumerate().skip(first) {
            if let Step::OneOf { decision, lists } = step {
                let mut lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
                lengths.sort_unstable();
                lengths.dedup();
                for length in lengths.into_iter().rev().filter(|it| *it <= rest.len()) {
                    let mut distances = distances.clone();
                    let (list, rest) = rest.split_at(length);
                    distances.add(*decision, |option| list_distance(&lists[option], list));
                    self.follow(n + 1, rest, distances, best);
                }
                return;
            }
            if let Some((loops, kind)) = step.annotated() {
                let is_next = |(it, axis): &(&Instruction, AxisId)| matches!(it, Instruction::Annotate { axis: a, kind: k, .. } if a == axis && *k == kind);
                let max_loops = rest.iter().zip(loops).take_while(is_next).count();
                for n_loops in (0..=max_loops).rev() {
                    let mut distances = distances.clone();
                    if let Step::Parallel { count, .. } = step {
                        let options = &self.decisions[count.0 as usize].options;
                        distances.add(*count, |it| Some(octaves(options[it], n_loops as u64)));
                    }
                    self.follow(n + 1, &rest[n_loops..], distances, best);
                }
                return;
            }
            let Some((instruction, after)) = rest.split_first() else { return };
            rest = after;
            if self.add_distances(step, instruction, &mut distances).is_none() {
                return;
            }
        }
        if rest.is_empty()
            && let Some((distance, mut choices)) = distances.nearest(&self.default)
            && best.as_ref().is_none_or(|(it, _)| distance < *it)
        {
            self.settle_products(&mut choices, &distances);
            *best = Some((distance, choices));
        }
    }

    /// Decides what only products of several decisions show, given the others: the option that brings the
    /// product nearest.
    fn settle_products(&self, choices: &mut [u16], distances: &Distances) {
        for (times, decisions, value) in &distances.products {
            for decision in decisions.iter().filter(|it| distances.is_undecided(**it)) {
                let product = |option: u16| {
                    let chosen = |it: &DecisionId| match it == decision {
                        true => option,
                        false => choices[it.0 as usize],
                    };
                    let value_of = |it: &DecisionId| {
                        let options = &self.decisions[it.0 as usize].options;
                        options[usize::from(chosen(it))]
                    };
                    times * decisions.iter().map(value_of).size()
                };
                let options = 0..self.decisions[decision.0 as usize].options.len() as u16;
                let distance = |it: &u16| octaves(product(*it), *value);
                let nearest = options.min_by(|a, b| distance(a).total_cmp(&distance(b)));
                choices[decision.0 as usize] = nearest.unwrap_or_default();
            }
        }
    }

    /// Decides unrolling last, since it follows from the lengths of loops: by the longest common prefix
    /// with the trace.
    fn settle_unrolling(&self, choices: &mut [u16], trace: &[Instruction]) {
        let in_common = |choices: &[u16]| {
            let made = self.instructions(choices);
            made.iter().zip(trace).take_while(|(a, b)| a == b).count()
        };
        for step in &self.steps {
            let Step::Unroll { max_iterations, .. } = step else { continue };
            let decision = max_iterations.0 as usize;
            let mut best = (in_common(choices), choices[decision]);
            for option in 0..self.decisions[decision].options.len() as u16 {
                choices[decision] = option;
                let common = in_common(choices);
                if common > best.0 {
                    best = (common, option);
                }
            }
            choices[decision] = best.1;
        }
    }

    /// Adds the distances of an instruction to the decisions of a step; `None` if it differs in more
    /// than factors.
    fn add_distances(
        &self,
        step: &Step,
        it: &Instruction,
        distances: &mut Distances,
    ) -> Option<()> {
        match (step, it) {
            (Step::Fixed(fixed), it) => distance(fixed, it).map(drop),
            (
                Step::Split { stage, axis, factors },
                Instruction::Split { stage: s, axis: a, factors: values },
            ) => {
                let same = stage == s && axis == a && factors.len() == values.len();
                same.then(|| self.add_factors(factors, values, distances))
            }
            (Step::Pack { tensor, splits, order }, Instruction::Pack { tensor: t, layout }) => {
                let dims = splits.iter().map(|it| it.0).eq(layout.splits.iter().map(|it| it.0));
                let same = tensor == t && dims && *order == layout.order;
                same.then(|| {
                    for ((_, factor), (_, value)) in splits.iter().zip(&layout.splits) {
                        self.add_factors(std::slice::from_ref(factor), &[*value], distances);
                    }
                })
            }
            (Step::SetKnobs(knobs), Instruction::SetKnobs { values }) => {
                let knobs = &knobs.decisions;
                (knobs.len() == values.len()).then(|| {
                    for (knob, value) in knobs.iter().zip(values) {
                        let options = &self.decisions[knob.0 as usize].options;
                        let ratio = |it: usize| octaves(options[it] + 1, value.saturating_add(1));
                        distances.add(*knob, |it| Some(ratio(it)));
                    }
                })
            }
            _ => None,
        }
    }

    /// Adds the distances of factors. Those of products follow from decisions that set factors of their
    /// own, as far as they do.
    fn add_factors(&self, factors: &[Factor], values: &[u64], distances: &mut Distances) {
        for (factor, value) in factors.iter().zip(values) {
            let (times, decision) = match factor {
                Factor::Open(decision) => (1, *decision),
                Factor::Times(times, decision) => (*times, *decision),
                Factor::Fixed(_) => continue,
                Factor::Product(times, decisions) => {
                    distances.products.push((*times, decisions.clone(), *value));
                    continue;
                }
            };
            let options = &self.decisions[decision.0 as usize].options;
            distances.add(decision, |it| Some(octaves(times * options[it], *value)));
        }
    }
}

impl Step {
    /// Returns the loops of which a step annotates as many as decisions say, and their kind.
    fn annotated(&self) -> Option<(Vec<AxisId>, LoopKind)> {
        match self {
            Step::Unroll { loops, .. } => {
                Some((loops.iter().map(|it| it.0).collect(), LoopKind::Unrolled))
            }
            Step::Parallel { loops, .. } => Some((loops.clone(), LoopKind::Parallel)),
            _ => None,
        }
    }
}

/// The distances of decisions from the factors of the trace so far.
#[derive(Clone)]
struct Distances {
    /// For each decision, the distance of each option.
    of: Vec<Vec<f64>>,
    /// The factors that are a multiple of a product of decisions, with the multiplier and the value.
    products: Vec<(u64, Vec<DecisionId>, u64)>,
}

impl Distances {
    /// Adds a distance to each option of a decision; `None` rules the option out.
    fn add(&mut self, decision: DecisionId, distance: impl Fn(usize) -> Option<f64>) {
        for (option, it) in self.of[decision.0 as usize].iter_mut().enumerate() {
            *it += distance(option).unwrap_or(f64::INFINITY);
        }
    }

    /// Returns whether all options of a decision are as near.
    fn is_undecided(&self, decision: DecisionId) -> bool {
        let distances = &self.of[decision.0 as usize];
        distances.iter().all(|it| *it == distances[0])
    }

    /// Returns the sum of the distances, and the nearest option of each decision, the default among
    /// equals; `None` if a decision has no option left.
    fn nearest(&self, default: &[u16]) -> Option<(f64, Vec<u16>)> {
        let (mut total, mut choices) = (0.0, Vec::with_capacity(default.len()));
        for (distances, default) in self.of.iter().zip(default) {
            let mut best = *default;
            for (option, it) in distances.iter().enumerate() {
                if *it < distances[best as usize] {
                    best = option as u16;
                }
            }
            let distance = distances[best as usize];
            if distance.is_infinite() {
                return None;
            }
            total += distance;
            choices.push(best);
        }
        Some((total, choices))
    }
}

/// Returns the distance of two lists; `None` if they differ in more than factors.
fn list_distance(one: &[Instruction], other: &[Instruction]) -> Option<f64> {
    if one.len() != other.len() {
        return None;
    }
    one.iter().zip(other).map(|(one, other)| distance(one, other)).sum()
}

/// Returns the distance of two instructions; `None` if they differ in more than factors.
fn distance(one: &Instruction, other: &Instruction) -> Option<f64> {
    match (one, other) {
        (
            Instruction::Split { stage, axis, factors },
            Instruction::Split { stage: s, axis: a, factors: values },
        ) => {
            let same = stage == s && axis == a && factors.len() == values.len();
            same.then(|| factors.iter().zip(values).map(|(it, value)| octaves(*it, *value)).sum())
        }
        (Instruction::Pack { tensor, layout }, Instruction::Pack { tensor: t, layout: other }) => {
            let pairs = || layout.splits.iter().zip(&other.splits);
            let same = tensor == t
                && layout.order == other.order
                && layout.splits.len() == other.splits.len()
                && pairs().all(|(one, other)| one.0 == other.0);
            same.then(|| pairs().map(|(one, other)| octaves(one.1, other.1)).sum())
        }
        _ => (one == other).then_some(0.0),
    }
}
