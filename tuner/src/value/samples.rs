//! Training samples: the prefixes of measured trials, each with what was seen under it.

use std::collections::BTreeMap;

use super::function::Features;
use super::prefix::Prefix;
use crate::cost::gbdt::Program;
use crate::random::Random;
use crate::space::Point;

/// A point with its latency in ns; `None` if it failed.
pub type Measured = (Point, Option<f64>);

/// The label of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The best speed that was seen under it. The minimum of few latencies is above the true one, and more
    /// so where few were tried: samples with more trials weigh more.
    Best,
    /// The speed of one trial under it, for a function that learns a quantile of all.
    Each,
}

/// A prefix to train on.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The prefix.
    pub prefix: Prefix,
    /// Its numbers.
    pub rows: Vec<f32>,
    /// True if none of its decisions is open.
    is_complete: bool,
    /// Its label: a speed relative to the best of the program; 0 for failures.
    pub share: f64,
    /// The number of trials that the label stands for.
    pub n_trials: usize,
}

impl Sample {
    /// Tells if no decision of its sketch is open.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn program(&self) -> Program<'_> {
        let weight = (1.0 + self.n_trials as f64).ln();
        Program { rows: &self.rows, label: self.share, weight }
    }
}

/// Returns `n` random samples of the trials of one program, at most, of which each number of decisions has an
/// equal part as far as there are prefixes. None if no trial worked. Prefixes whose completion by analysis
/// does not run are left out.
pub fn samples(
    features: &Features<'_>,
    trials: &[Measured],
    label: Label,
    n: usize,
    seed: u64,
) -> Vec<Sample> {
    let best = trials.iter().map(|it| speed(it.1)).fold(0.0, f64::max);
    if best == 0.0 {
        return Vec::new();
    }
    let sample = |it: Labelled| {
        let rows = features.of(&it.prefix)?;
        let is_complete = it.prefix.is_complete(features.space);
        let Labelled { prefix, speed, n_trials } = it;
        Some(Sample { prefix, rows, is_complete, share: speed / best, n_trials })
    };
    in_turn(labelled(trials, label), seed).into_iter().filter_map(sample).take(n).collect()
}

/// A prefix with its label.
struct Labelled {
    prefix: Prefix,
    /// Runs per ns; 0 for failures.
    speed: f64,
    n_trials: usize,
}

/// Returns a speed in runs per ns; 0 for a failure.
fn speed(ns: Option<f64>) -> f64 {
    ns.map_or(0.0, f64::recip)
}

/// Returns the prefixes of trials with their labels.
fn labelled(trials: &[Measured], label: Label) -> Vec<Labelled> {
    let each = trials.iter().flat_map(|(point, ns)| {
        Prefix::of(point).map(|prefix| Labelled { prefix, speed: speed(*ns), n_trials: 1 })
    });
    if label == Label::Each {
        return each.collect();
    }
    let mut seen: BTreeMap<Prefix, (f64, usize)> = BTreeMap::new();
    for Labelled { prefix, speed, .. } in each {
        let (best, n_trials) = seen.entry(prefix).or_insert((0.0, 0));
        (*best, *n_trials) = (best.max(speed), *n_trials + 1);
    }
    let of = |(prefix, (speed, n_trials))| Labelled { prefix, speed, n_trials };
    seen.into_iter().map(of).collect()
}

/// Returns prefixes in random order, one of each number of decisions in turn.
fn in_turn(all: Vec<Labelled>, seed: u64) -> Vec<Labelled> {
    let mut random = Random::new(seed);
    let mut drawn: Vec<(u64, Labelled)> = all.into_iter().map(|it| (random.bits(), it)).collect();
    drawn.sort_by_key(|it| it.0);
    let mut n_before: BTreeMap<usize, usize> = BTreeMap::new();
    let ranked = drawn.into_iter().map(|(_, it)| {
        let rank = n_before.entry(it.prefix.choices.len()).or_insert(0);
        *rank += 1;
        ((*rank, it.prefix.choices.len()), it)
    });
    let mut ranked: Vec<((usize, usize), Labelled)> = ranked.collect();
    ranked.sort_by_key(|it| it.0);
    ranked.into_iter().map(|it| it.1).collect()
}
