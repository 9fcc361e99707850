//! Schedules of other workloads, as points of this one's space.

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::strategy::{Proposal, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::space::Point;

/// Points of one proposal at most: their outcomes decide which others are worth a trial.
const MAX_BATCH: usize = 8;

/// Proposes the points it was offered, in order of score.
#[derive(Debug, Default)]
pub struct Transferred {
    waiting: Vec<Point>,
    seen: Seen,
}

impl Strategy for Transferred {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|it| !self.seen.contains(it));
        // Without a cost model they stay in the order of the offer: nearest sources first.
        let mut ranked = context.ranked(waiting, |it| it);
        self.waiting = ranked.split_off(n.min(MAX_BATCH).min(ranked.len()));
        self.seen.extend(&ranked);
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
