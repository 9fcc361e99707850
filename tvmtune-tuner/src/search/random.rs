//! Random search: the yardstick for all others.

use std::collections::BTreeSet;
use std::sync::Arc;

use tvmtune_core::record::Source;

use super::{Proposal, Strategy};
use crate::outcome::Outcome;
use crate::random;
use crate::space::{Point, Space};

/// Draws in vain after which a space counts as exhausted.
pub(super) const PATIENCE: usize = 200;

/// Proposes the analytic choice of each sketch, then random points.
#[derive(Debug)]
pub struct Random {
    space: Arc<Space>,
    random: random::Random,
    seen: BTreeSet<Point>,
}

impl Random {
    /// Random search in a space.
    pub fn new(space: Arc<Space>, seed: u64) -> Self {
        Self { space, random: random::Random::new(seed), seen: BTreeSet::new() }
    }
}

impl Strategy for Random {
    fn propose(&mut self, n: usize) -> Vec<Proposal> {
        let mut fresh = Vec::new();
        for point in self.space.defaults() {
            if fresh.len() < n && self.seen.insert(point.clone()) {
                fresh.push(point);
            }
        }
        let mut in_vain = 0;
        while fresh.len() < n && in_vain < PATIENCE {
            let point = self.space.random(&mut self.random);
            if self.seen.insert(point.clone()) {
                fresh.push(point);
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
        fresh.into_iter().map(|point| Proposal { point, source: Source::Random }).collect()
    }

    fn observe(&mut self, point: &Point, _outcome: &Outcome) {
        self.seen.insert(point.clone());
    }
}
