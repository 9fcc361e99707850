//! Droplet search: coordinate descent from the best point known, by measurements side by side.
//!
//! A batch of neighbors is screened. Those that may be faster are timed together with the incumbent,
//! and one takes its place only if it is faster for certain. When no neighbor is, the descent looks
//! two and four options away, and then ends, until somebody else finds something better.
//!
//! # Source
//!
//! Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling" (TACO 2024), and "Explore as
//! a Storm, Exploit as a Raindrop" (2024). Differs in that values are sorted, factors move from one
//! level of an axis to another, candidates come in the order of a guess, the incumbent is timed
//! again beside its rivals, and the significance accounts for how many of them there are.

use std::collections::{BTreeMap, VecDeque};

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::{Proposal, Scene, Strategy};
use crate::outcome::{Outcome, Timing};
use crate::space::{Neighbor, Point};

/// Screened neighbors that are timed side by side with the incumbent, at most.
const RIVALS: usize = 3;
/// How much slower than the incumbent a neighbor may look on first sight and still be a rival.
const MAYBE: f64 = 1.02;
/// How unlikely a difference must be to be believed, all rivals together.
const P: f64 = 0.05;
/// A gain below this is not worth a step.
const WORTH: f64 = 0.005;
/// How many options away neighbors are, one distance after the other.
const DISTANCES: [u16; 3] = [1, 2, 4];

/// Coordinate descent.
#[derive(Debug, Default)]
pub struct Droplet {
    /// Where it stands, and the latency there as far as it is known.
    here: Option<(f64, Point)>,
    /// The neighbors that are still to be screened; `None` if they are not known yet.
    queue: Option<VecDeque<Neighbor>>,
    /// Which of `DISTANCES`.
    distance: usize,
    /// What was proposed and not yet judged, and what came of it.
    screening: BTreeMap<Point, Option<f64>>,
    /// The moves that lead to what is being screened.
    moves: BTreeMap<Point, (u16, bool)>,
    /// The move that led here: the next one in that direction goes first.
    momentum: Option<(u16, bool)>,
    seen: Seen,
    /// Steps taken.
    n_steps: usize,
}

impl Droplet {
    /// A descent that starts at the best point it is told of.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many times it found something better.
    pub fn n_steps(&self) -> usize {
        self.n_steps
    }

    fn go_to(&mut self, ns: f64, point: Point) {
        self.momentum = self.moves.get(&point).copied();
        self.here = Some((ns, point));
        (self.queue, self.distance) = (None, 0);
        self.screening.clear();
        self.moves.clear();
    }

    /// The unseen neighbors at the present distance, those that a guess likes first.
    fn neighbors(&self, scene: &Scene<'_>, here: &Point) -> VecDeque<Neighbor> {
        let mut near = scene.space.neighbors(here, DISTANCES[self.distance]);
        near.retain(|it| !self.seen.contains(&it.point));
        if let Some(score) = scene.score() {
            let points: Vec<Point> = near.iter().map(|it| it.point.clone()).collect();
            let mut scored: Vec<_> =
                score.score(scene.space, &points).into_iter().zip(near).collect();
            scored.retain(|it| it.0.is_finite());
            scored.sort_by(|a, b| a.0.total_cmp(&b.0));
            near = scored.into_iter().map(|it| it.1).collect();
        }
        let is_next = |it: &Neighbor| self.momentum == Some((it.decision, it.up));
        near.sort_by_key(|it| !is_next(it));
        near.into()
    }
}

impl Strategy for Droplet {
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        while proposals.len() < n
            && let Some((_, here)) = self.here.clone()
            && self.distance < DISTANCES.len()
        {
            let mut queue = self.queue.take().unwrap_or_else(|| self.neighbors(scene, &here));
            let Some(next) = queue.pop_front() else {
                // What was proposed of this round must be judged before it looks further away.
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
                self.moves.insert(next.point.clone(), (next.decision, next.up));
                let source = Source::Droplet;
                proposals.push(Proposal { point: next.point, source, parent: Some(here.clone()) });
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
            && self.here.as_ref().is_none_or(|it| ns < it.0)
        {
            self.go_to(ns, point.clone());
        }
    }

    fn rivals(&mut self) -> Vec<Point> {
        let screened = std::mem::take(&mut self.screening);
        let Some((ns, here)) = &self.here else { return Vec::new() };
        let mut rivals: Vec<(f64, Point)> =
            screened.into_iter().filter_map(|(point, ns)| Some((ns?, point))).collect();
        rivals.retain(|it| it.0 < ns * MAYBE);
        if rivals.is_empty() {
            return Vec::new();
        }
        rivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        rivals.truncate(RIVALS);
        std::iter::once(here.clone()).chain(rivals.into_iter().map(|it| it.1)).collect()
    }

    fn compared(&mut self, timings: &[(Point, Timing)]) {
        let Some((_, here)) = self.here.clone() else { return };
        let Some((_, now)) = timings.iter().find(|it| it.0 == here) else { return };
        let rivals = timings.iter().filter(|it| it.0 != here);
        let p = P / rivals.clone().count().max(1) as f64;
        let best = rivals.min_by(|a, b| a.1.typical_ns().total_cmp(&b.1.typical_ns()));
        match best {
            Some((point, timing)) if timing.beats(now, p, WORTH) => {
                self.n_steps += 1;
                self.go_to(timing.min_ns(), point.clone());
            }
            _ => self.here = Some((now.min_ns(), here)),
        }
    }
}
