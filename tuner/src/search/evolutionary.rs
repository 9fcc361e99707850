//! Evolutionary search: generations of mutants and children of the best measured points, of which
//! cost models select those that are measured.
//!
//! # Source
//!
//! Ansor (Zheng et al., OSDI 2020), with differences: parents are selected by rank, in a tournament,
//! so that one lucky score does not take over; there is a crossover; each sketch keeps a share of the
//! proposals. Until a model is trained, the analytic cost model scores (Pruner, 2024), and from then
//! on each selects half of the proposals. Without either, children are measured as they are drawn.

use std::collections::BTreeMap;

use tvmtune_plan::record::Source;

use super::seen::{Ranking, Seen};
use super::strategy::{Proposal, Score, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Random points that are measured before evolution begins.
const INITIAL: usize = 32;
/// Measured points that may become parents.
const PARENTS: usize = 32;
/// The tournament size: a parent is the best of so many drawn.
const TOURNAMENT: usize = 3;
/// Random points drawn for each that is measured, if there is a cost model to select by.
const DRAWN: usize = 16;
/// One in `UNSCORED` is taken as it was drawn, if it can run: a score that is wrong about a kind of
/// points must not hide it. One in `QUOTA` is the best of a sketch that has none yet.
const UNSCORED: usize = 4;
const QUOTA: usize = 8;
/// The share of random points among the proposals: regions that evolution cannot reach.
const FRESH: f64 = 0.1;
/// The probability that a child has two parents.
const CROSSOVER: f64 = 0.25;
/// The probability that a parent is the best of a sketch, which is drawn uniformly.
const DIVERSITY: f64 = 0.15;
/// The shares of random and of measured points in the first generation.
const RANDOM: f64 = 0.2;
const ELITE: f64 = 0.2;

/// The number of points that are scored for each batch that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Points of a generation.
    pub population: usize,
    /// Generations after the first.
    pub generations: usize,
}

impl Effort {
    /// For candidates that take milliseconds to measure: scoring takes no longer than measuring.
    pub const QUICK: Self = Self { population: 128, generations: 2 };
}

/// Evolutionary search.
#[derive(Debug)]
pub struct Evolutionary {
    random: Random,
    effort: Effort,
    crossover: f64,
    seen: Seen,
    ranked: Ranking,
    n_random: usize,
}

impl Evolutionary {
    /// Creates the strategy.
    pub fn new(seed: u64, effort: Effort) -> Self {
        Self {
            random: Random::new(seed),
            effort,
            crossover: CROSSOVER,
            seen: Seen::default(),
            ranked: Ranking::default(),
            n_random: 0,
        }
    }

    /// Disables crossover.
    #[must_use]
    pub fn without_crossover(self) -> Self {
        Self { crossover: 0.0, ..self }
    }

    /// Returns points without parents: the default ones first, then random ones, the best by score
    /// of several.
    fn fresh(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Point> {
        let mut points: Vec<Point> = context.space.defaults();
        points.retain(|it| !self.seen.contains(it));
        points.truncate(n);
        self.seen.extend(&points);
        for (score_by, n) in shares(context, n - points.len()) {
            let Self { random, seen, .. } = self;
            let wanted = if score_by.is_some() { n * DRAWN } else { n };
            let drawn = seen.draw(wanted, || context.space.random(random));
            let selected = match score_by {
                Some(score) => select(scored(score, context.space, drawn), n),
                None => drawn,
            };
            self.seen.extend(&selected);
            points.extend(selected);
        }
        self.n_random += points.len();
        points
    }

    /// Returns descendants of measured points.
    fn children(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Point> {
        let parents = Parents(self.ranked.first(PARENTS).to_vec());
        let mut children = Vec::new();
        for (score_by, n) in shares(context, n) {
            let selected = match score_by {
                Some(score) => select(self.evolve(&parents, context.space, score), n),
                None => {
                    let crossover = self.crossover;
                    let Self { random, seen, .. } = self;
                    seen.draw(n, || parents.child(context.space, crossover, random))
                }
            };
            self.seen.extend(&selected);
            children.extend(selected);
        }
        children
    }

    /// Returns unseen points with their scores, in the order in which they were drawn.
    fn evolve(&mut self, parents: &Parents, space: &Space, score: &dyn Score) -> Vec<(f64, Point)> {
        let Effort { population, generations } = self.effort;
        let crossover = self.crossover;
        let share = |share: f64| (population as f64 * share) as usize;
        let mut first: Vec<Point> =
            self.ranked.first(share(ELITE)).iter().map(|it| it.1.clone()).collect();
        let Self { random, seen, .. } = self;
        let n_children = population - share(RANDOM) - first.len();
        first.extend(seen.draw(n_children, || parents.child(space, crossover, random)));
        first.extend(seen.draw(share(RANDOM), || space.random(random)));
        let mut order = Vec::new();
        let mut scores = BTreeMap::new();
        let mut here = Parents(scored(score, space, first));
        for generation in 0..=generations {
            for (score, point) in &here.0 {
                if scores.insert(point.clone(), *score).is_none() && !seen.contains(point) {
                    order.push((*score, point.clone()));
                }
            }
            here.0.retain(|it| it.0.is_finite());
            if here.0.is_empty() || generation == generations {
                break;
            }
            here.0.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
            here.0.dedup_by(|a, b| a.1 == b.1);
            here.0.truncate(population / 2);
            let draw = || here.child(space, crossover, random);
            let mut children = seen.draw(population / 2, draw);
            children.retain(|it| !scores.contains_key(it));
            let children = scored(score, space, children);
            here.0.extend(children);
        }
        order
    }
}

/// Points that may have children, the best first.
struct Parents(Vec<(f64, Point)>);

impl Parents {
    /// Returns a mutant of one parent, or a child of two.
    fn child(&self, space: &Space, crossover: f64, random: &mut Random) -> Point {
        let first = self.draw(space, random);
        if random.chance(crossover) {
            let second = self.draw(space, random);
            let child = space.crossover(first, second, random);
            if child != *first {
                return child;
            }
        }
        space.mutate(first, random)
    }

    /// Selects a parent: the winner of a tournament among all, or the best of a sketch.
    fn draw(&self, space: &Space, random: &mut Random) -> &Point {
        if random.chance(DIVERSITY) {
            let sketch = random.below(space.sketches.len()) as u16;
            if let Some((_, point)) = self.0.iter().find(|(_, it)| it.sketch == sketch) {
                return point;
            }
        }
        let drawn = (0..TOURNAMENT).map(|_| random.below(self.0.len())).min();
        &self.0[drawn.unwrap_or(0)].1
    }
}

fn scored(score: &dyn Score, space: &Space, points: Vec<Point>) -> Vec<(f64, Point)> {
    score.score(space, &points).into_iter().zip(points).collect()
}

/// Divides `n` proposals between the cost models: the learned and the analytic one are wrong about
/// different points.
fn shares<'a>(context: &SearchContext<'a>, n: usize) -> Vec<(Option<&'a dyn Score>, usize)> {
    let mut shares = match (context.model, context.analytic) {
        (Some(model), Some(analytic)) => {
            vec![(Some(model), n / 2), (Some(analytic), n - n / 2)]
        }
        (model, analytic) => vec![(model.or(analytic), n)],
    };
    // A model that selects nothing need not score.
    shares.retain(|it| it.1 > 0);
    shares
}

/// Selects `n` points: some as they were drawn, the best of each sketch within the quota, and the
/// best of all. Points that cannot run come last.
fn select(drawn: Vec<(f64, Point)>, n: usize) -> Vec<Point> {
    let mut taken: Vec<(f64, Point)> = Vec::new();
    let mut rest = Vec::new();
    for it in drawn {
        let as_drawn = taken.len() < n / UNSCORED && it.0.is_finite();
        if as_drawn { &mut taken } else { &mut rest }.push(it);
    }
    rest.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let room = taken.len() + n / QUOTA;
    let mut sketches: Vec<u16> = taken.iter().map(|it| it.1.sketch).collect();
    sketches.extend(rest.first().map(|it| it.1.sketch));
    let mut others = Vec::new();
    for it in rest {
        let is_first = taken.len() < room && it.0.is_finite() && !sketches.contains(&it.1.sketch);
        if is_first {
            sketches.push(it.1.sketch);
        }
        if is_first { &mut taken } else { &mut others }.push(it);
    }
    taken.extend(others);
    taken.truncate(n);
    taken.into_iter().map(|it| it.1).collect()
}

impl Strategy for Evolutionary {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        let has_parents = !self.ranked.all().is_empty();
        let n_random = if has_parents {
            let share = (0..n).filter(|_| self.random.chance(FRESH)).count();
            share.max(INITIAL.saturating_sub(self.n_random)).min(n)
        } else {
            n
        };
        let fresh = self.fresh(context, n_random);
        let missing = n - fresh.len();
        let children =
            if has_parents && missing > 0 { self.children(context, missing) } else { Vec::new() };
        let fresh = fresh.into_iter().map(|it| Proposal::new(Source::Random, it));
        fresh.chain(children.into_iter().map(|it| Proposal::new(Source::Evolved, it))).collect()
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point);
        self.ranked.observe(point, outcome);
    }
}
