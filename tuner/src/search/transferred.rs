//! What was found for other programs, tried on this one.

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::{Proposal, Scene, Strategy};
use crate::outcome::Outcome;
use crate::space::Point;

/// Points of one proposal, at most: what these teach decides which others are worth a trial.
const MOST: usize = 8;

/// Proposes what it was offered, the most promising first.
#[derive(Debug, Default)]
pub struct Transferred {
    waiting: Vec<Point>,
    seen: Seen,
}

impl Transferred {
    /// Nothing was offered yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Strategy for Transferred {
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|it| !self.seen.contains(it));
        // Where nothing can be guessed they are as they were offered: nearest donors first.
        let mut ranked = scene.ranked(waiting);
        self.waiting = ranked.split_off(n.min(MOST).min(ranked.len()));
        ranked.iter().for_each(|it| {
            self.seen.insert(it);
        });
        ranked.into_iter().map(|it| Proposal::new(Source::Transfer, it)).collect()
    }

    fn observe(&mut self, point: &Point, _outcome: &Outcome) {
        self.seen.insert(point);
    }

    fn offer(&mut self, points: &[Point]) {
        for it in points {
            if !self.seen.contains(it) && !self.waiting.contains(it) {
                self.waiting.push(it.clone());
            }
        }
    }
}
