//! A genetic algorithm on measurements, generation by generation: a baseline.
//!
//! # Source
//!
//! `AutoTVM`'s `GATuner` with its constants: a hundred genes a generation, the three best survive,
//! parents are drawn by fitness, each decision mutates with probability 0.1.

use tvmtune_plan::record::Source;

use super::seen::{Ranking, Seen};
use super::strategy::{Proposal, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Points of a generation.
const GENERATION: usize = 100;
/// The best points of all, which are parents in every generation.
const ELITE: usize = 3;
/// The probability that a decision mutates.
const MUTATION: f64 = 0.1;

/// A genetic algorithm without any model.
#[derive(Debug)]
pub struct Genetic {
    random: Random,
    seen: Seen,
    /// The outcomes of the present generation, and the rest of it that is not proposed yet.
    measured: Ranking,
    waiting: Vec<Point>,
    elite: Ranking,
}

impl Genetic {
    /// Creates the strategy.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            seen: Seen::default(),
            measured: Ranking::default(),
            waiting: Vec::new(),
            elite: Ranking::default(),
        }
    }

    /// Draws children of the last generation and of the elite; random points for the first one.
    fn next_generation(&mut self, space: &Space) {
        let mut parents: Vec<(f64, Point)> = self.measured.all().to_vec();
        parents.extend(self.elite.first(ELITE).iter().cloned());
        self.measured = Ranking::default();
        let Self { random, seen, .. } = self;
        // Fitness is throughput.
        let total: f64 = parents.iter().map(|it| it.0.recip()).sum();
        let draw = || {
            if parents.len() < 2 {
                return space.random(random);
            }
            let mut parent = || {
                // Roulette-wheel selection.
                let mut left = random.unit() * total;
                let selected = parents.iter().find(|it| {
                    left -= it.0.recip();
                    left <= 0.0
                });
                selected.unwrap_or(&parents[0]).1.clone()
            };
            let (one, other) = (parent(), parent());
            mutated(space, space.crossover(&one, &other, random), random)
        };
        self.waiting = seen.draw(GENERATION, draw);
        self.seen.extend(&self.waiting);
        self.waiting.reverse();
    }
}

/// Draws some decisions of a point anew, of which constraints may allow a part only.
fn mutated(space: &Space, parent: Point, random: &mut Random) -> Point {
    let mut point = parent.clone();
    for (n, decision) in space.decisions(&point).iter().enumerate() {
        if random.chance(MUTATION) {
            point.choices[n] = random.below(decision.options.len()) as u16;
        }
    }
    space.allowed(point, random).unwrap_or(parent)
}

impl Strategy for Genetic {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        if self.waiting.is_empty() {
            self.next_generation(context.space);
        }
        let rest = self.waiting.len().saturating_sub(n);
        let next = self.waiting.split_off(rest);
        next.into_iter().rev().map(|it| Proposal::new(Source::Evolved, it)).collect()
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point);
        self.measured.observe(point, outcome);
        self.elite.observe(point, outcome);
    }
}
