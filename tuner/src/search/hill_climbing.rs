//! Stochastic hill climbing with restarts: a yardstick for droplet, which knows where to look and
//! when to believe a measurement.

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::{Proposal, Scene, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Neighbors in a row that are no better, after which it starts elsewhere.
const PATIENCE: usize = 64;

/// Goes to any neighbor that is faster; starts at another random point where there is none.
#[derive(Debug)]
pub struct HillClimbing {
    random: Random,
    seen: Seen,
    /// Where it stands, and the latency there.
    here: Option<(f64, Point)>,
    in_vain: usize,
}

impl HillClimbing {
    /// Hill climbing.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), seen: Seen::default(), here: None, in_vain: 0 }
    }

    /// Neighbors of where it stands in random order, unseen ones only.
    fn around(&mut self, space: &Space, here: &Point) -> Vec<Point> {
        let mut near: Vec<Point> =
            space.neighbors(here, 1).into_iter().map(|it| it.point).collect();
        near.retain(|it| !self.seen.contains(it));
        for n in (1..near.len()).rev() {
            near.swap(n, self.random.below(n + 1));
        }
        near
    }
}

impl Strategy for HillClimbing {
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal> {
        if self.in_vain >= PATIENCE {
            (self.here, self.in_vain) = (None, 0);
        }
        let mut next = match self.here.clone() {
            Some((_, here)) => self.around(scene.space, &here),
            None => Vec::new(),
        };
        next.truncate(n);
        if next.is_empty() {
            (self.here, self.in_vain) = (None, 0);
            let random = &mut self.random;
            next = self.seen.draw(n.min(8), || scene.space.random(random));
        }
        let mut fresh = Vec::new();
        for point in next {
            if self.seen.insert(&point) {
                let parent = self.here.as_ref().map(|it| it.1.clone());
                let source = if parent.is_some() { Source::Evolved } else { Source::Random };
                fresh.push(Proposal { point, source, parent });
            }
        }
        fresh
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point);
        let ns = outcome.timing().map_or(f64::INFINITY, crate::outcome::Timing::min_ns);
        if ns < self.here.as_ref().map_or(f64::INFINITY, |it| it.0) {
            (self.here, self.in_vain) = (Some((ns, point.clone())), 0);
        } else {
            self.in_vain += 1;
        }
    }
}
