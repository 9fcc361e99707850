//! Which candidates to measure: strategies that are asked and told.
//!
//! In: a [`Space`](crate::space::Space), and what became of earlier proposals. Out: points worth
//! measuring. Next: the tuning loop generates and measures them.
//!
//! # Invariants
//!
//! - No strategy proposes a point twice.
//! - Proposals follow from the seed and the outcomes told so far, and from nothing else: no clock,
//!   no threads, no hardware. A test can play the hardware.
//!
//! # Source
//!
//! Ask and tell: TVM's `MetaSchedule` (`GenerateMeasureCandidates`, `NotifyRunnerResults`).

mod chain;
mod evolutionary;
mod random;

use tvmtune_core::record::Source;

use crate::outcome::Outcome;
use crate::space::Point;

pub use chain::Chain;
pub use evolutionary::Evolutionary;
pub use random::Random;

/// A way to spend measurements. Told nothing but outcomes.
pub trait Strategy {
    /// Up to `n` points worth measuring, none proposed before. Empty means: nothing left to try.
    fn propose(&mut self, n: usize) -> Vec<Proposal>;

    /// Learns what became of a point, whoever proposed it.
    fn observe(&mut self, point: &Point, outcome: &Outcome);
}

/// A point worth measuring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The point.
    pub point: Point,
    /// Why it was proposed.
    pub source: Source,
}

/// A guess how points rank without measuring them.
pub trait Score {
    /// A guess of each point's latency; no unit, lower is better.
    fn score(&self, points: &[Point]) -> Vec<f64>;
}
