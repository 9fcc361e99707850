//! Where a trace stands in a sketch: [`Sketch::instructions`] backwards.
//!
//! A trace has the structure of a sketch if it differs from one of its points in factors only.
//! What each factor wants is added up for every option of the decision that sets it, and each
//! decision takes the option that is wanted most. Lists of several lengths for one decision are
//! tried one after the other.

use super::{DecisionId, Factor, Sketch, Step};
use tvmtune_schedule::repair::octaves;
use tvmtune_schedule::{AxisId, Instruction, LoopKind};

/// A point of a sketch, and whether it is the trace that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// An option number for each decision.
    pub choices: Vec<u16>,
    /// Whether the point makes that very trace; else it is the nearest one.
    pub is_exact: bool,
}

impl Sketch {
    /// The point whose factors come nearest to those of a trace, as the sum of their log distances;
    /// `None` if the trace differs from every point in more than factors.
    pub fn locate(&self, trace: &[Instruction]) -> Option<Located> {
        let none = self.decisions.iter().map(|it| vec![0.0; it.options.len()]).collect();
        let mut best = None;
        self.follow(0, trace, Distances(none), &mut best);
        let (_, mut choices) = best?;
        self.settle_unrolling(&mut choices, trace);
        let is_exact = self.instructions(&choices) == trace;
        Some(Located { choices, is_exact })
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
                    distances.add(*decision, |option| apart_in_all(&lists[option], list));
                    self.follow(n + 1, rest, distances, best);
                }
                return;
            }
            if let Some((loops, kind)) = step.annotated() {
                let is_next = |(it, axis): &(&Instruction, AxisId)| matches!(it, Instruction::Annotate { axis: a, kind: k, .. } if a == axis && *k == kind);
                let most = rest.iter().zip(loops).take_while(is_next).count();
                for n_loops in (0..=most).rev() {
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
            if self.wish(step, instruction, &mut distances).is_none() {
                return;
            }
        }
        if rest.is_empty()
            && let Some((distance, choices)) = distances.nearest(&self.default)
            && best.as_ref().is_none_or(|(it, _)| distance < *it)
        {
            *best = Some((distance, choices));
        }
    }

    /// How much is written out follows from how large the loops are, so it is decided last: by how
    /// much of the trace comes out.
    fn settle_unrolling(&self, choices: &mut [u16], trace: &[Instruction]) {
        let in_common = |choices: &[u16]| {
            let made = self.instructions(choices);
            made.iter().zip(trace).take_while(|(a, b)| a == b).count()
        };
        for step in &self.steps {
            let Step::Unroll { most, .. } = step else { continue };
            let decision = most.0 as usize;
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

    /// Adds what an instruction wants of the decisions of a step; `None` if it differs in more than
    /// factors.
    fn wish(&self, step: &Step, it: &Instruction, distances: &mut Distances) -> Option<()> {
        match (step, it) {
            (Step::Fixed(fixed), it) => apart(fixed, it).map(drop),
            (
                Step::Split { stage, axis, factors },
                Instruction::Split { stage: s, axis: a, factors: values },
            ) => {
                let same = stage == s && axis == a && factors.len() == values.len();
                same.then(|| self.wish_factors(factors, values, distances))
            }
            (Step::Pack { tensor, splits, order }, Instruction::Pack { tensor: t, layout }) => {
                let dims = splits.iter().map(|it| it.0).eq(layout.splits.iter().map(|it| it.0));
                let same = tensor == t && dims && *order == layout.order;
                same.then(|| {
                    for ((_, factor), (_, value)) in splits.iter().zip(&layout.splits) {
                        self.wish_factors(std::slice::from_ref(factor), &[*value], distances);
                    }
                })
            }
            _ => None,
        }
    }

    /// Adds what factors want. A product wants nothing: its decisions set factors of their own.
    fn wish_factors(&self, factors: &[Factor], values: &[u64], distances: &mut Distances) {
        for (factor, value) in factors.iter().zip(values) {
            let (times, decision) = match factor {
                Factor::Open(decision) => (1, *decision),
                Factor::Times(times, decision) => (*times, *decision),
                Factor::Fixed(_) | Factor::Product(..) => continue,
            };
            let options = &self.decisions[decision.0 as usize].options;
            distances.add(decision, |it| Some(octaves(times * options[it], *value)));
        }
    }
}

impl Step {
    /// The loops that a step annotates as many of as decisions say, and how.
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

/// For each decision, how far each option is from what was wanted of it so far.
#[derive(Clone)]
struct Distances(Vec<Vec<f64>>);

impl Distances {
    /// Adds what `of` says of each option of a decision; `None` rules it out.
    fn add(&mut self, decision: DecisionId, of: impl Fn(usize) -> Option<f64>) {
        for (option, it) in self.0[decision.0 as usize].iter_mut().enumerate() {
            *it += of(option).unwrap_or(f64::INFINITY);
        }
    }

    /// The nearest option of each decision, the default where others are no nearer, and how far
    /// all of them are; `None` if a decision has no option left.
    fn nearest(&self, default: &[u16]) -> Option<(f64, Vec<u16>)> {
        let (mut total, mut choices) = (0.0, Vec::with_capacity(default.len()));
        for (distances, default) in self.0.iter().zip(default) {
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

/// How far apart lists of instructions are; `None` if they differ in more than factors.
fn apart_in_all(one: &[Instruction], other: &[Instruction]) -> Option<f64> {
    if one.len() != other.len() {
        return None;
    }
    one.iter().zip(other).map(|(one, other)| apart(one, other)).sum()
}

/// How far apart two instructions are; `None` if they differ in more than factors.
fn apart(one: &Instruction, other: &Instruction) -> Option<f64> {
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
