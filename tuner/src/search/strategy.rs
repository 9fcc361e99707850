//! The interface of search strategies: what they see, propose and observe.

use tvmtune_plan::record::Source;

use crate::outcome::{Outcome, Timing};
use crate::space::{Point, Space};

/// A search strategy. It learns from measured outcomes only: points that it is offered are candidates.
pub trait Strategy {
    /// Proposes up to `n` points, none of which was proposed before; none at all when the strategy is
    /// exhausted.
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal>;

    /// Returns the strategies that this one consists of: all of them observe what it observes.
    fn parts(&mut self) -> Vec<&mut Box<dyn Strategy>> {
        Vec::new()
    }

    /// Observes the outcome of a point that this or another strategy proposed.
    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.parts().into_iter().for_each(|it| it.observe(point, outcome));
    }

    /// Returns points that screening cannot tell apart, to be timed side by side before the next
    /// proposal.
    fn finalists(&mut self) -> Vec<Point> {
        self.parts().into_iter().flat_map(|it| it.finalists()).collect()
    }

    /// Observes the timings of the finalists; those that failed are missing.
    fn compared(&mut self, timings: &[(Point, Timing)]) {
        self.parts().into_iter().for_each(|it| it.compared(timings));
    }

    /// Receives points of other workloads that may be worth a trial.
    fn offer(&mut self, points: &[Point]) {
        self.parts().into_iter().for_each(|it| it.offer(points));
    }

    /// Receives the reward of the last proposal: `ln(best latency before / after)`, and the seconds
    /// that measuring it took.
    fn reward(&mut self, gain: f64, seconds: f64) {
        self.parts().into_iter().for_each(|it| it.reward(gain, seconds));
    }
}

/// The inputs of a proposal: the space and the cost models.
#[derive(Clone, Copy)]
pub struct SearchContext<'a> {
    /// The space that points are drawn from.
    pub space: &'a Space,
    /// Scores by the analytic cost model.
    pub analytic: Option<&'a dyn Score>,
    /// Scores by the cost model that is trained on measurements.
    pub model: Option<&'a dyn Score>,
}

impl<'a> SearchContext<'a> {
    /// Returns a context without cost models.
    pub fn without_models(space: &'a Space) -> Self {
        Self { space, analytic: None, model: None }
    }

    /// Returns the learned cost model, or else the analytic one.
    pub fn score(&self) -> Option<&'a dyn Score> {
        self.model.or(self.analytic)
    }

    /// Sorts items by the score of their points, stably, without those that cannot run; returns them
    /// unchanged where there is no cost model.
    pub fn ranked<T>(&self, items: Vec<T>, point: impl Fn(&T) -> &Point) -> Vec<T> {
        let Some(score) = self.score() else { return items };
        let points: Vec<Point> = items.iter().map(|it| point(it).clone()).collect();
        let mut ranked: Vec<_> = score.score(self.space, &points).into_iter().zip(items).collect();
        ranked.retain(|it| it.0.is_finite());
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.into_iter().map(|it| it.1).collect()
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
