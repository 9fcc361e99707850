//! Random search: the baseline for all others.

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::strategy::{Proposal, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::random;
use crate::space::Point;

/// Proposes the default point of each sketch, then random points.
#[derive(Debug)]
pub struct Random {
    random: random::Random,
    seen: Seen,
}

impl Random {
    /// Creates the strategy.
    pub fn new(seed: u64) -> Self {
        Self { random: random::Random::new(seed), seen: Seen::default() }
    }
}

impl Strategy for Random {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        let mut defaults = context.space.defaults().into_iter();
        let random = &mut self.random;
        let draw = || defaults.next().unwrap_or_else(|| context.space.random(random));
        let fresh = self.seen.draw(n, draw);
        self.seen.extend(&fresh);
        fresh.into_iter().map(|it| Proposal::new(Source::Random, it)).collect()
    }

    fn observe(&mut self, point: &Point, _outcome: &Outcome) {
        self.seen.insert(point);
    }
}
