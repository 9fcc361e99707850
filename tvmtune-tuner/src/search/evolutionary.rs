//! Evolution: mutants and children of the best points so far.
//!
//! # Source
//!
//! Ansor (Zheng et al., OSDI 2020), with its defects mended: parents are drawn by rank among what
//! was *measured*, by tournament, so that one lucky score does not take over; there is a crossover;
//! each sketch keeps a share of the proposals. A cost model, where there is one, picks among many
//! more children than are measured.

use std::collections::BTreeSet;
use std::sync::Arc;

use tvmtune_core::record::Source;

use super::random::PATIENCE;
use super::{Proposal, Score, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Points that are measured before any evolve, in a space that is large enough.
const INITIAL: usize = 32;
/// Measured points that may become parents.
const POPULATION: usize = 32;
/// Parents are the best of so many drawn.
const TOURNAMENT: usize = 3;
/// How many children are made for each that is measured, if there is a score to pick by.
const CHILDREN: usize = 16;
/// One in so many is taken as it was drawn, if it can run at all: a score that is wrong about a kind
/// of points must not hide it.
const UNSCORED: usize = 4;
/// The share of proposals that are random points: what evolution cannot reach.
const FRESH: f64 = 0.1;
/// How often a child has two parents.
const CROSSOVER: f64 = 0.25;
/// How often a parent is drawn among its sketch only, each sketch as likely as the others.
const DIVERSITY: f64 = 0.15;

/// Evolutionary search.
pub struct Evolutionary {
    space: Arc<Space>,
    random: Random,
    score: Option<Box<dyn Score>>,
    /// Points that were proposed, or measured for someone else.
    seen: BTreeSet<Point>,
    /// What works, fastest first, ties in order of points.
    ranked: Vec<(f64, Point)>,
    n_random: usize,
}

impl Evolutionary {
    /// Evolutionary search in a space; the score picks among children.
    pub fn new(space: Arc<Space>, seed: u64, score: Option<Box<dyn Score>>) -> Self {
        let random = Random::new(seed);
        Self { space, random, score, seen: BTreeSet::new(), ranked: Vec::new(), n_random: 0 }
    }

    /// Points that nothing measured led to: the analytic ones first, then random ones, the best by
    /// score of several.
    fn fresh(&mut self, n: usize) -> Vec<Point> {
        let mut points: Vec<Point> = self.space.defaults();
        points.retain(|it| !self.seen.contains(it));
        points.truncate(n);
        self.seen.extend(points.iter().cloned());
        let missing = n - points.len();
        let pool = self.pool(missing, |it| it.space.random(&mut it.random));
        points.extend(self.pick(pool, missing));
        self.n_random += points.len();
        points
    }

    fn children(&mut self, n: usize) -> Vec<Point> {
        let pool = self.pool(n, Self::child);
        self.pick(pool, n)
    }

    fn child(&mut self) -> Point {
        let first = self.parent();
        if self.random.chance(CROSSOVER) {
            let second = self.parent();
            let child = self.space.crossover(&first, &second, &mut self.random);
            if !self.seen.contains(&child) {
                return child;
            }
        }
        self.space.mutate(&first, &mut self.random)
    }

    /// The best of a few measured points, drawn from all or from one sketch.
    fn parent(&mut self) -> Point {
        let n_parents = self.ranked.len().min(POPULATION);
        if self.random.chance(DIVERSITY) {
            let sketch = self.random.below(self.space.sketches.len()) as u16;
            if let Some((_, point)) = self.ranked.iter().find(|(_, it)| it.sketch == sketch) {
                return point.clone();
            }
        }
        let drawn = (0..TOURNAMENT).map(|_| self.random.below(n_parents)).min();
        self.ranked[drawn.unwrap_or(0)].1.clone()
    }

    /// Enough distinct unseen points for `n` to be picked from.
    fn pool(&mut self, n: usize, mut draw: impl FnMut(&mut Self) -> Point) -> Vec<Point> {
        let wanted = if self.score.is_some() { n * CHILDREN } else { n };
        let (mut pool, mut in_vain) = (BTreeSet::new(), 0);
        let mut order = Vec::new();
        while order.len() < wanted && in_vain < PATIENCE {
            let point = draw(self);
            if !self.seen.contains(&point) && pool.insert(point.clone()) {
                order.push(point);
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
        order
    }

    /// The `n` points of the pool that score best, and some as they were drawn, now seen.
    fn pick(&mut self, mut pool: Vec<Point>, n: usize) -> Vec<Point> {
        if let Some(score) = &self.score {
            let scores = score.score(&pool);
            let rank = |(drawn, score): (usize, f64)| {
                if drawn < n / UNSCORED && score.is_finite() { f64::NEG_INFINITY } else { score }
            };
            let ranks = scores.into_iter().enumerate().map(rank);
            let mut ranked: Vec<_> = ranks.zip(pool).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
            pool = ranked.into_iter().map(|(_, point)| point).collect();
        }
        pool.truncate(n);
        self.seen.extend(pool.iter().cloned());
        pool
    }
}

impl Strategy for Evolutionary {
    fn propose(&mut self, n: usize) -> Vec<Proposal> {
        let n_random = if self.ranked.is_empty() {
            n
        } else {
            let share = (0..n).filter(|_| self.random.chance(FRESH)).count();
            share.max(INITIAL.saturating_sub(self.n_random)).min(n)
        };
        let fresh = self.fresh(n_random);
        let children =
            if self.ranked.is_empty() { Vec::new() } else { self.children(n - fresh.len()) };
        let proposal = |source| move |point| Proposal { point, source };
        let fresh = fresh.into_iter().map(proposal(Source::Random));
        fresh.chain(children.into_iter().map(proposal(Source::Evolved))).collect()
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point.clone());
        let Some(timing) = outcome.timing() else { return };
        let entry = (timing.min_ns(), point.clone());
        let before = |it: &(f64, Point)| it.0.total_cmp(&entry.0).then_with(|| it.1.cmp(&entry.1));
        let (Ok(place) | Err(place)) = self.ranked.binary_search_by(before);
        self.ranked.insert(place, entry);
    }
}
