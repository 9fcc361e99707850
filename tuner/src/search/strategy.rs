//! The interface of search strategies: what they see, propose and observe.

use tvmtune_plan::record::Source;

use crate::outcome::{Outcome, Timing};
use crate::space::{Point, Space};

/// A search strategy. It learns from measured outcomes only.
pub trait Strategy {
    /// Proposes up to `n` points, none of them before; none at all when the strategy is exhausted.
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal>;

    /// Observes the outcome of a point that this or another strategy proposed.
    fn observe(&mut self, point: &Point, outcome: &Outcome);

    /// Returns points that screening cannot tell apart, to be timed side by side before the next
    /// proposal.
    fn finalists(&mut self) -> Vec<Point> {
        Vec::new()
    }

    /// Observes the timings of the finalists; those that failed are missing.
    fn compared(&mut self, _timings: &[(Point, Timing)]) {}

    /// Receives points of other workloads that may be worth a trial.
    fn offer(&mut self, _points: &[Point]) {}

    /// Receives the reward of the last proposal: `ln(best latency before / after)`, and the seconds
    /// that measuring it took.
    fn reward(&mut self, _gain: f64, _seconds: f64) {}
}

/// The inputs of a proposal: the space and the cost models.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The space that points are drawn from.
    pub space: &'a Space,
    /// Scores by the analytic cost model.
    pub analytic: Option<&'a dyn Score>,
    /// Scores by the cost model that is trained on measurements.
    pub model: Option<&'a dyn Score>,
}

impl<'a> Scene<'a> {
    /// Returns a scene without cost models.
    pub fn plain(space: &'a Space) -> Self {
        Self { space, analytic: None, model: None }
    }

    /// Returns the learned cost model, or else the analytic one.
    pub fn score(&self) -> Option<&'a dyn Score> {
        self.model.or(self.analytic)
    }

    /// Sorts points by score, stably, without those that cannot run; returns them unchanged where
    /// there is no cost model.
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
    /// The kind of strategy that proposed it.
    pub source: Source,
    /// The point that it is a neighbor of, if it was made by one move.
    pub parent: Option<Point>,
}

impl Proposal {
    /// Returns a proposal without a parent.
    pub fn new(source: Source, point: Point) -> Self {
        Self { point, source, parent: None }
    }
}

/// A cost model that ranks points without measuring them.
pub trait Score {
    /// Returns the score of each point: no unit, lower is better, infinite for points that cannot run.
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64>;
}
