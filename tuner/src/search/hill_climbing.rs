//! Stochastic hill climbing with restarts: a baseline for droplet search, which orders neighbors by
//! score and tests significance.

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::strategy::{Proposal, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Neighbors in a row that are no better, after which it restarts.
const PATIENCE: usize = 64;

/// Goes to any neighbor that is faster; starts at another random point where there is none.
#[derive(Debug)]
pub struct HillClimbing {
    random: Random,
    seen: Seen,
    /// The incumbent, and its latency in ns.
    incumbent: Option<(f64, Point)>,
    /// Neighbors in a row that were no better.
    n_failed: usize,
}

impl HillClimbing {
    /// Creates the strategy.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), seen: Seen::default(), incumbent: None, n_failed: 0 }
    }

    /// Returns the unseen neighbors of the incumbent in random order.
    fn around(&mut self, space: &Space, incumbent: &Point) -> Vec<Point> {
        let mut near: Vec<Point> =
            space.neighbors(incumbent, 1).into_iter().map(|it| it.point).collect();
        near.retain(|it| !self.seen.contains(it));
        for n in (1..near.len()).rev() {
            near.swap(n, self.random.below(n + 1));
        }
        near
    }
}

impl Strategy for HillClimbing {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        if self.n_failed >= PATIENCE {
            (self.incumbent, self.n_failed) = (None, 0);
        }
        let mut next = match self.incumbent.clone() {
            Some((_, incumbent)) => self.around(context.space, &incumbent),
            None => Vec::new(),
        };
        next.truncate(n);
        if next.is_empty() {
            (self.incumbent, self.n_failed) = (None, 0);
            let random = &mut self.random;
            next = self.seen.draw(n.min(8), || context.space.random(random));
        }
        let mut fresh = Vec::new();
        for point in next {
            if self.seen.insert(&point) {
                let parent = self.incumbent.as_ref().map(|it| it.1.clone());
                let source = if parent.is_some() { Source::Evolved } else { Source::Random };
                fresh.push(Proposal { point, source, parent });
            }
        }
        fresh
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point);
        let ns = outcome.timing().map_or(f64::INFINITY, crate::outcome::Timing::min_ns);
        if ns < self.incumbent.as_ref().map_or(f64::INFINITY, |it| it.0) {
            (self.incumbent, self.n_failed) = (Some((ns, point.clone())), 0);
        } else {
            self.n_failed += 1;
        }
    }
}
