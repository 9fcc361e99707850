//! Which candidates to measure: strategies that are asked and told.
//!
//! In: a [`Space`](crate::space::Space), guesses how its points rank, and what became of earlier
//! proposals. Out: points worth measuring. Next: the tuning loop generates and measures them.
//!
//! Evolution explores, droplet refines what it found, transfer brings what others found;
//! [`Combined`] shares the trials out among them. The rest are yardsticks.
//!
//! # Invariants
//!
//! - No strategy proposes a point twice, nor one that it was told of.
//! - Proposals follow from the seed, the guesses and what was told so far, and from nothing else: no
//!   clock, no threads, no hardware. A test can play the hardware.
//! - A space may grow between two proposals; the points it had stay what they were.
//!
//! # Source
//!
//! Ask and tell: TVM's `MetaSchedule` (`GenerateMeasureCandidates`, `NotifyRunnerResults`).

mod annealing;
mod chain;
mod combined;
mod droplet;
mod evolutionary;
mod genetic;
mod grid;
mod hill_climbing;
mod random;
mod ranking;
mod seen;
mod transferred;

use tvmtune_plan::record::Source;

use crate::outcome::{Outcome, Timing};
use crate::space::{Point, Space};

pub use annealing::Annealing;
pub use chain::Chain;
pub use combined::{Allocation, Combined};
pub use droplet::Droplet;
pub use evolutionary::{Effort, Evolutionary};
pub use genetic::Genetic;
pub use grid::Grid;
pub use hill_climbing::HillClimbing;
pub use random::Random;
pub use transferred::Transferred;

/// A way to spend measurements. Told nothing but what was measured.
pub trait Strategy {
    /// Up to `n` points worth measuring, none proposed before. Empty means: nothing left to try.
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal>;

    /// Learns what became of a point, whoever proposed it.
    fn observe(&mut self, point: &Point, outcome: &Outcome);

    /// Points between which only a timing side by side decides, wanted before the next proposal.
    fn rivals(&mut self) -> Vec<Point> {
        Vec::new()
    }

    /// Learns how the rivals did; those that no longer ran are missing.
    fn compared(&mut self, _timings: &[(Point, Timing)]) {}

    /// Takes points from elsewhere that may be worth a trial.
    fn offer(&mut self, _points: &[Point]) {}

    /// Learns what its last proposal brought: the logarithm of the best latency before by that
    /// after, and the seconds it took.
    fn reward(&mut self, _gain: f64, _seconds: f64) {}
}

/// What strategies may look at.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// Where points are from.
    pub space: &'a Space,
    /// Guesses by analysis.
    pub draft: Option<&'a dyn Score>,
    /// Guesses by what was measured so far.
    pub model: Option<&'a dyn Score>,
}

impl<'a> Scene<'a> {
    /// A space of which nothing can be guessed.
    pub fn plain(space: &'a Space) -> Self {
        Self { space, draft: None, model: None }
    }

    /// The best guesses there are.
    pub fn score(&self) -> Option<&'a dyn Score> {
        self.model.or(self.draft)
    }

    /// The points, those first that are guessed to be fastest, equal ones in their order; those that
    /// cannot run left out. As they are if there is nothing to guess by.
    pub fn ranked(&self, points: Vec<Point>) -> Vec<Point> {
        let Some(score) = self.score() else { return points };
        let scores = score.score(self.space, &points);
        let mut ranked: Vec<_> = scores.into_iter().zip(points).collect();
        ranked.retain(|it| it.0.is_finite());
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.into_iter().map(|(_, point)| point).collect()
    }
}

/// A point worth measuring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The point.
    pub point: Point,
    /// Why it was proposed.
    pub source: Source,
    /// What it was made of by changing as little as possible.
    pub parent: Option<Point>,
}

impl Proposal {
    /// A point that stands on its own.
    pub fn new(source: Source, point: Point) -> Self {
        Self { point, source, parent: None }
    }
}

/// A guess how points rank without measuring them.
pub trait Score {
    /// A guess of each point's latency; no unit, lower is better, infinite for what cannot run.
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64>;
}
