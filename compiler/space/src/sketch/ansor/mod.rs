//! Ansor's own sketches: its rules as published, for any program.
//!
//! In: a [`Dag`] and a [`Target`]. Out: [`Sketch`]es that depend on the number of threads of a machine
//! only: the baseline for those of [`super::sketches`] with their analytic choices, and an alternative
//! for programs that templates do not cover.
//!
//! Stages are visited from the results to the parameters. At each, rules are asked in order, and all
//! states that they derive are followed. Where Ansor draws random numbers at the end (tiles, compute
//! locations, annotations), decisions are opened ([`annotate`]).
//!
//! # What differs from the published rules
//!
//! - Loops that are fused to run in parallel are here that many parallel loops, and a tile need not
//!   divide its axis.
//! - A padded read becomes a stage of its own, as in the programs that Ansor is given.
//! - The last axis of a stage that no rule tiled is split into vectors, since no later compiler does.
//! - On GPUs, threads are loops of each stage of a block, and virtual ones are fully unrolled inside
//!   of them; a reduction adds up in registers also where nothing follows it.
//! - There is no rule for constant matrices that are multiplied with (Winograd): an attribute of the
//!   program asks for it, and our programs have none.
//! - The steps of a recurrence are the innermost loop but for vectors, as no loop along them may run in
//!   parallel; the published rules know none.
//! - A stage in a loop that runs once is not made parallel instead of it.
//!
//! # Source
//!
//! Zheng et al., "Ansor" (OSDI 2020); rules and their order as in TVM 0.16,
//! `src/auto_scheduler/search_policy/sketch_policy_rules.cc`.

mod annotate;
mod bind;
mod block;
mod compute_location;
mod cross_thread;
mod factors;
mod predicates;
mod rfactor;
mod rules;
mod state;
#[cfg(test)]
#[cfg(feature = "cuda")]
mod tests;
mod tile;

use std::collections::VecDeque;

use self::state::State;
use super::{Sketch, hand_written};
use tvmtune_ir::dag::{Dag, TensorId};
use tvmtune_ir::target::Target;

/// Derivations that are followed: the number grows exponentially with stages, and beyond this a single
/// one is followed at each stage.
const MAX_DERIVATIONS: usize = 32;

/// The states derived at a stage, each with the tensor to visit next.
type Derived = Vec<(State, Option<TensorId>)>;

/// The verdict of a rule that applies to a stage.
enum Verdict {
    /// These states, and those of later rules.
    Apply(Derived),
    /// These states only.
    ApplyAndSkipRest(Derived),
}

/// A rule, applied to the stage that defines a tensor, or to a parameter.
type Rule = fn(&State, TensorId) -> Option<Verdict>;

/// The rules for CPUs, in order. After the last one the stage is skipped.
const CPU_RULES: [Rule; 5] = [
    rules::always_inline,
    rfactor::add_rfactor,
    rules::add_cache_write,
    tile::multi_level_tiling_with_fusion,
    tile::multi_level_tiling,
];

/// The rules for GPUs, in order.
const GPU_RULES: [Rule; 6] = [
    rules::add_cache_read,
    rules::always_inline,
    cross_thread::cross_thread_reduction,
    rules::add_cache_write,
    tile::multi_level_tiling_with_fusion,
    tile::multi_level_tiling,
];

/// Ansor's sketches of a dag on a target.
pub fn ansor(dag: &Dag, target: &Target) -> Vec<Sketch> {
    if let Some(written) = hand_written::sketch(dag, target) {
        return vec![written];
    }
    let mut sketches: Vec<Sketch> = Vec::new();
    for state in derivations(dag, target) {
        // A derivation that cannot be annotated cannot run.
        let annotated =
            if state.b.is_gpu() { bind::bind(state) } else { annotate::annotate(state) };
        let Ok(sketch) = annotated else { continue };
        let is_same = |it: &Sketch| it.steps == sketch.steps && it.decisions == sketch.decisions;
        if !sketches.iter().any(is_same) {
            sketches.push(sketch);
        }
    }
    sketches
}

/// Returns the final states that the rules derive.
fn derivations(dag: &Dag, target: &Target) -> Vec<State> {
    let start = State::new(dag, target);
    let last = start.last();
    let mut work = VecDeque::from([(start, last)]);
    let mut derived = Vec::new();
    while let Some((state, at)) = work.pop_front() {
        let Some(at) = at else {
            derived.push(state);
            continue;
        };
        let mut next = derive_at(&state, at);
        let n_others = derived.len() + work.len();
        if n_others + next.len() > MAX_DERIVATIONS {
            // A different one each time.
            next = vec![next.swap_remove(n_others % next.len())];
        }
        work.extend(next);
    }
    derived
}

/// Returns the states derived at a stage; at least one.
fn derive_at(state: &State, at: TensorId) -> Derived {
    let mut derived = Vec::new();
    let rules: &[Rule] = if state.b.is_gpu() { &GPU_RULES } else { &CPU_RULES };
    for rule in rules {
        match rule(state, at) {
            None => {}
            Some(Verdict::Apply(more)) => derived.extend(more),
            // If a primitive refuses all of them, the rule does not apply.
            Some(Verdict::ApplyAndSkipRest(more)) if more.is_empty() => {}
            Some(Verdict::ApplyAndSkipRest(more)) => {
                derived.extend(more);
                return derived;
            }
        }
    }
    derived.push((state.clone(), state.before(at)));
    derived
}
