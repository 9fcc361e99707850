//! One strategy after another, sharing what was seen.

use std::collections::BTreeSet;

use super::{Proposal, Strategy};
use crate::outcome::Outcome;
use crate::space::Point;

/// Asks each strategy in turn until it has nothing left or has used up its share of proposals;
/// all of them are told everything.
pub struct Chain {
    links: Vec<Link>,
    seen: BTreeSet<Point>,
}

struct Link {
    strategy: Box<dyn Strategy>,
    /// Proposals it may still make.
    left: usize,
}

impl Chain {
    /// A chain of strategies, each with the number of proposals it may make.
    pub fn new(links: Vec<(Box<dyn Strategy>, usize)>) -> Self {
        let links = links.into_iter().map(|(strategy, left)| Link { strategy, left }).collect();
        Self { links, seen: BTreeSet::new() }
    }
}

impl Strategy for Chain {
    fn propose(&mut self, n: usize) -> Vec<Proposal> {
        let mut fresh = Vec::new();
        for link in &mut self.links {
            while fresh.len() < n && link.left > 0 {
                let proposals = link.strategy.propose((n - fresh.len()).min(link.left));
                if proposals.is_empty() {
                    link.left = 0;
                }
                for it in proposals {
                    // What an earlier link proposed costs this one nothing.
                    if self.seen.insert(it.point.clone()) {
                        link.left -= 1;
                        fresh.push(it);
                    }
                }
            }
        }
        fresh
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point.clone());
        for link in &mut self.links {
            link.strategy.observe(point, outcome);
        }
    }
}
