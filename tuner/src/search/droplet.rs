//! Droplet search: coordinate descent from the best observed point, by timings side by side.
//!
//! A batch of neighbors is screened. The finalists among them are timed side by side with the
//! incumbent, and one replaces it only if it is significantly faster. When no neighbor is, the descent
//! tries neighbors two and four options away, and then ends, until another strategy observes a better
//! point.
//!
//! # Source
//!
//! Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling" (TACO 2024), and "Explore as
//! a Storm, Exploit as a Raindrop" (2024). Differs in that values are sorted, factors move from one
//! level of an axis to another, neighbors are ordered by score, the incumbent is timed again beside
//! the finalists, and the significance level is corrected for their number (Bonferroni).

use std::collections::{BTreeMap, VecDeque};

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::strategy::{Proposal, SearchContext, Strategy};
use crate::outcome::{Outcome, Timing};
use crate::space::{Neighbor, Point};

/// Screened neighbors that are timed side by side with the incumbent, at most.
const MAX_FINALISTS: usize = 3;
/// The latency of a finalist when screened, relative to the incumbent, at most.
const MAX_SLOWDOWN: f64 = 1.02;
/// The significance level of a step, for all finalists together.
const P: f64 = 0.05;
/// The relative gain that a step needs.
const MIN_GAIN: f64 = 0.005;
/// The distances of neighbors in options, in the order in which they are tried.
const DISTANCES: [u16; 3] = [1, 2, 4];

/// Coordinate descent, which starts at the best observed point.
#[derive(Debug, Default)]
pub struct Droplet {
    /// The incumbent, and its latency in ns.
    incumbent: Option<(f64, Point)>,
    /// The neighbors that are still to be screened; `None` before they are enumerated.
    queue: Option<VecDeque<Neighbor>>,
    /// The index of the present distance in `DISTANCES`.
    distance: usize,
    /// The neighbors that were proposed and not yet compared, with their latencies in ns.
    screening: BTreeMap<Point, Option<f64>>,
    /// The moves that lead to the neighbors that are being screened.
    moves: BTreeMap<Point, (u16, bool)>,
    /// The move that led to the incumbent: its repetition is tried first.
    momentum: Option<(u16, bool)>,
    seen: Seen,
    /// Steps taken so far.
    n_steps: usize,
}

impl Droplet {
    /// Returns how many times the incumbent was replaced after a comparison.
    pub fn n_steps(&self) -> usize {
        self.n_steps
    }

    /// Makes a point the incumbent.
    fn go_to(&mut self, ns: f64, point: Point) {
        self.momentum = self.moves.get(&point).copied();
        self.incumbent = Some((ns, point));
        (self.queue, self.distance) = (None, 0);
        self.screening.clear();
        self.moves.clear();
    }

    /// Returns the unseen neighbors at the present distance, in order of score.
    fn neighbors(&self, context: &SearchContext<'_>, incumbent: &Point) -> VecDeque<Neighbor> {
        let mut near = context.space.neighbors(incumbent, DISTANCES[self.distance]);
        near.retain(|it| !self.seen.contains(&it.point));
        let mut near = context.ranked(near, |it| &it.point);
        let is_next = |it: &Neighbor| self.momentum == Some((it.decision, it.is_later));
        near.sort_by_key(|it| !is_next(it));
        near.into()
    }
}

impl Strategy for Droplet {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        while proposals.len() < n
            && let Some((_, incumbent)) = self.incumbent.clone()
            && self.distance < DISTANCES.len()
        {
            let mut queue =
                self.queue.take().unwrap_or_else(|| self.neighbors(context, &incumbent));
            let Some(next) = queue.pop_front() else {
                // All neighbors at this distance are compared before the distance grows.
                if !proposals.is_empty() {
                    self.queue = Some(queue);
                    break;
                }
                self.distance += 1;
                continue;
            };
            self.queue = Some(queue);
            if self.seen.insert(&next.point) {
                self.screening.insert(next.point.clone(), None);
                self.moves.insert(next.point.clone(), (next.decision, next.is_later));
                let parent = Some(incumbent.clone());
                proposals.push(Proposal { point: next.point, source: Source::Droplet, parent });
            }
        }
        proposals
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point);
        let ns = outcome.timing().map(Timing::min_ns);
        if let Some(screened) = self.screening.get_mut(point) {
            *screened = ns;
        } else if let Some(ns) = ns
            && self.incumbent.as_ref().is_none_or(|it| ns < it.0)
        {
            self.go_to(ns, point.clone());
        }
    }

    fn finalists(&mut self) -> Vec<Point> {
        let screened = std::mem::take(&mut self.screening);
        let Some((ns, incumbent)) = &self.incumbent else { return Vec::new() };
        let mut finalists: Vec<(f64, Point)> =
            screened.into_iter().filter_map(|(point, ns)| Some((ns?, point))).collect();
        finalists.retain(|it| it.0 < ns * MAX_SLOWDOWN);
        if finalists.is_empty() {
            return Vec::new();
        }
        finalists.sort_by(|a, b| a.0.total_cmp(&b.0));
        finalists.truncate(MAX_FINALISTS);
        std::iter::once(incumbent.clone()).chain(finalists.into_iter().map(|it| it.1)).collect()
    }

    fn compared(&mut self, timings: &[(Point, Timing)]) {
        let Some((_, incumbent)) = self.incumbent.clone() else { return };
        let Some((_, now)) = timings.iter().find(|it| it.0 == incumbent) else { return };
        let finalists = timings.iter().filter(|it| it.0 != incumbent);
        let p = P / finalists.clone().count().max(1) as f64;
        let best = finalists.min_by(|a, b| a.1.typical_ns().total_cmp(&b.1.typical_ns()));
        match best {
            Some((point, timing)) if timing.beats(now, p, MIN_GAIN) => {
                self.n_steps += 1;
                self.go_to(timing.min_ns(), point.clone());
            }
            _ => self.incumbent = Some((now.min_ns(), incumbent)),
        }
    }
}
