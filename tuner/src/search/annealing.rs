//! Simulated annealing on a cost model: many walkers look for points with low scores, and the best of
//! those are measured. A baseline.
//!
//! # Source
//!
//! `AutoTVM` (Chen et al., "Learning to optimize tensor programs", 2018), `SimulatedAnnealingOptimizer`:
//! 128 walkers, temperature falling from 1 to 0 in units of the score's spread, 5 % of each batch
//! random.

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::strategy::{Proposal, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::Point;

/// Walkers, and the steps of each for one proposal.
const WALKERS: usize = 128;
const STEPS: usize = 24;
/// The probability that a proposal is a random point (`AutoTVM`: epsilon-greedy).
const EPSILON: f64 = 0.05;

/// Annealing walkers; they keep their positions between proposals.
#[derive(Debug)]
pub struct Annealing {
    random: Random,
    seen: Seen,
    walkers: Vec<Point>,
}

impl Annealing {
    /// Creates the strategy.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), seen: Seen::default(), walkers: Vec::new() }
    }

    /// Returns the `n` best unseen points by score among all that the walkers visit.
    fn walk(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Point> {
        let Some(score) = context.score() else { return Vec::new() };
        while self.walkers.len() < WALKERS {
            self.walkers.push(context.space.random(&mut self.random));
        }
        let log = |points: &[Point]| -> Vec<f64> {
            score.score(context.space, points).into_iter().map(f64::ln).collect()
        };
        let mut energies = log(&self.walkers);
        let mut visited: Vec<(f64, Point)> =
            energies.iter().copied().zip(self.walkers.iter().cloned()).collect();
        for step in 0..STEPS {
            let temperature = 1.0 - step as f64 / STEPS as f64;
            let moved: Vec<Point> =
                self.walkers.iter().map(|it| context.space.mutate(it, &mut self.random)).collect();
            for (walker, (energy, point)) in log(&moved).into_iter().zip(moved).enumerate() {
                let uphill = (energies[walker] - energy) / temperature;
                if energy.is_finite() && (uphill > 0.0 || self.random.chance(uphill.exp())) {
                    (energies[walker], self.walkers[walker]) = (energy, point.clone());
                }
                visited.push((energy, point));
            }
        }
        visited.retain(|it| it.0.is_finite() && !self.seen.contains(&it.1));
        visited.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        visited.dedup_by(|a, b| a.1 == b.1);
        visited.truncate(n);
        visited.into_iter().map(|(_, point)| point).collect()
    }
}

impl Strategy for Annealing {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        let n_random = (0..n).filter(|_| self.random.chance(EPSILON)).count();
        let mut points = self.walk(context, n - n_random);
        self.seen.extend(&points);
        let random = &mut self.random;
        let rest = self.seen.draw(n - points.len(), || context.space.random(random));
        self.seen.extend(&rest);
        let n_walked = points.len();
        points.extend(rest);
        let source = |n| if n < n_walked { Source::Evolved } else { Source::Random };
        points.into_iter().enumerate().map(|(n, it)| Proposal::new(source(n), it)).collect()
    }

    fn observe(&mut self, point: &Point, _outcome: &Outcome) {
        self.seen.insert(point);
    }
}
