//! Evolution: generations of mutants and children of the best points so far, of which a guess of
//! their latency picks those that are measured.
//!
//! # Source
//!
//! Ansor (Zheng et al., OSDI 2020), with its defects mended: parents are drawn by rank, in a
//! tournament, so that one lucky score does not take over; there is a crossover; each sketch keeps a
//! share of the proposals. Until a model is trained, an analytic draft guesses (Pruner, 2024), and
//! from then on each for half of them. Without either, parents are drawn among what was measured, and their children are measured.

use std::collections::BTreeMap;

use tvmtune_plan::record::Source;

use super::ranking::Ranking;
use super::seen::Seen;
use super::{Proposal, Scene, Score, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Points that are measured before any evolve, in a space that is large enough.
const INITIAL: usize = 32;
/// Measured points that may become parents.
const PARENTS: usize = 32;
/// Parents are the best of so many drawn.
const TOURNAMENT: usize = 3;
/// How many random points are drawn for each that is measured, if there is a score to pick by.
const DRAWN: usize = 16;
/// One in so many is taken as it was drawn, if it can run at all: a score that is wrong about a kind
/// of points must not hide it. As many more are the best of a sketch, each in its turn.
const UNSCORED: usize = 4;
const QUOTA: usize = 8;
/// The share of proposals that are random points: what evolution cannot reach.
const FRESH: f64 = 0.1;
/// How often a child has two parents.
const CROSSOVER: f64 = 0.25;
/// How often a parent is drawn among its sketch only, each sketch as likely as the others.
const DIVERSITY: f64 = 0.15;
/// The shares of a population's first generation that are random, and that were measured.
const RANDOM: f64 = 0.2;
const ELITE: f64 = 0.2;

/// How much is guessed for each batch that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Points of a generation.
    pub population: usize,
    /// Generations after the first.
    pub generations: usize,
}

impl Effort {
    /// Where measuring a candidate takes milliseconds: guessing takes no longer than measuring.
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
    /// Evolutionary search.
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

    /// The same without children of two parents.
    #[must_use]
    pub fn without_crossover(self) -> Self {
        Self { crossover: 0.0, ..self }
    }

    /// Points that nothing measured led to: the analytic ones first, then random ones, the best by
    /// score of several.
    fn fresh(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Point> {
        let mut points: Vec<Point> = scene.space.defaults();
        points.retain(|it| !self.seen.contains(it));
        points.truncate(n);
        points.iter().for_each(|it| {
            self.seen.insert(it);
        });
        for (guide, n) in shares(scene, n - points.len()) {
            let Self { random, seen, .. } = self;
            let wanted = if guide.is_some() { n * DRAWN } else { n };
            let drawn = seen.draw(wanted, || scene.space.random(random));
            let picked = match guide {
                Some(score) => pick(scored(score, scene.space, drawn), n),
                None => drawn,
            };
            points.extend(self.noted(picked));
        }
        self.n_random += points.len();
        points
    }

    /// Descendants of what was measured.
    fn children(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Point> {
        let parents = Parents(self.ranked.first(PARENTS).to_vec());
        let mut children = Vec::new();
        for (guide, n) in shares(scene, n) {
            let picked = match guide {
                Some(score) => pick(self.evolve(&parents, scene.space, score), n),
                None => {
                    let crossover = self.crossover;
                    let Self { random, seen, .. } = self;
                    seen.draw(n, || parents.child(scene.space, crossover, random))
                }
            };
            children.extend(self.noted(picked));
        }
        children
    }

    /// Unseen points with their scores, in the order in which they came up.
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
        let mut known = BTreeMap::new();
        let mut here = Parents(scored(score, space, first));
        for generation in 0..=generations {
            for (score, point) in &here.0 {
                if known.insert(point.clone(), *score).is_none() && !seen.contains(point) {
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
            children.retain(|it| !known.contains_key(it));
            let children = scored(score, space, children);
            here.0.extend(children);
        }
        order
    }

    /// The points, now seen.
    fn noted(&mut self, points: Vec<Point>) -> Vec<Point> {
        points.iter().for_each(|it| {
            self.seen.insert(it);
        });
        points
    }
}

/// Points that may have children, the best first.
struct Parents(Vec<(f64, Point)>);

impl Parents {
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

    /// The best of a few, drawn from all; or the best of a sketch.
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

/// So many points, shared out between those who guess: a model and analysis are wrong about
/// different points, and a model about any kind of which it has not seen enough.
fn shares<'a>(scene: &Scene<'a>, n: usize) -> Vec<(Option<&'a dyn Score>, usize)> {
    let mut shares = match (scene.model, scene.draft) {
        (Some(model), Some(draft)) => vec![(Some(model), n / 2), (Some(draft), n - n / 2)],
        (model, draft) => vec![(model.or(draft), n)],
    };
    // Who picks nothing need not guess.
    shares.retain(|it| it.1 > 0);
    shares
}

/// `n` points: some as they were drawn, the best of each sketch as far as there is room for them,
/// and the best of all. What cannot run comes last.
fn pick(drawn: Vec<(f64, Point)>, n: usize) -> Vec<Point> {
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
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal> {
        let has_parents = !self.ranked.all().is_empty();
        let n_random = if has_parents {
            let share = (0..n).filter(|_| self.random.chance(FRESH)).count();
            share.max(INITIAL.saturating_sub(self.n_random)).min(n)
        } else {
            n
        };
        let fresh = self.fresh(scene, n_random);
        let missing = n - fresh.len();
        let children =
            if has_parents && missing > 0 { self.children(scene, missing) } else { Vec::new() };
        let fresh = fresh.into_iter().map(|it| Proposal::new(Source::Random, it));
        fresh.chain(children.into_iter().map(|it| Proposal::new(Source::Evolved, it))).collect()
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point);
        self.ranked.observe(point, outcome);
    }
}
