//! One strategy after another, sharing what was seen.

use super::{Proposal, Scene, Strategy};
use crate::outcome::{Outcome, Timing};
use crate::space::Point;

/// Asks each strategy in turn until it has nothing left or has used up its share of proposals, and
/// then all again without regard to shares; all of them are told everything.
pub struct Chain {
    links: Vec<Link>,
}

struct Link {
    strategy: Box<dyn Strategy>,
    /// Proposals it may still make.
    left: usize,
}

impl Chain {
    /// A chain of strategies, each with the number of proposals it may make.
    pub fn new(links: Vec<(Box<dyn Strategy>, usize)>) -> Self {
        Self { links: links.into_iter().map(|(strategy, left)| Link { strategy, left }).collect() }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Box<dyn Strategy>> {
        self.links.iter_mut().map(|it| &mut it.strategy)
    }
}

impl Strategy for Chain {
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal> {
        // One strategy at a time: the next one learns first what became of this one's proposals.
        for link in &mut self.links {
            if link.left == 0 {
                continue;
            }
            let proposals = link.strategy.propose(scene, n.min(link.left));
            link.left -= proposals.len();
            if !proposals.is_empty() {
                return proposals;
            }
        }
        // All shares are used up: who still has something goes on.
        let mut rest = self.links.iter_mut().map(|it| it.strategy.propose(scene, n));
        rest.find(|it| !it.is_empty()).unwrap_or_default()
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.each().for_each(|it| it.observe(point, outcome));
    }

    fn rivals(&mut self) -> Vec<Point> {
        self.each().flat_map(|it| it.rivals()).collect()
    }

    fn compared(&mut self, timings: &[(Point, Timing)]) {
        self.each().for_each(|it| it.compared(timings));
    }

    fn offer(&mut self, points: &[Point]) {
        self.each().for_each(|it| it.offer(points));
    }

    fn reward(&mut self, gain: f64, seconds: f64) {
        self.each().for_each(|it| it.reward(gain, seconds));
    }
}
