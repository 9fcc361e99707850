//! A genetic algorithm on what was measured, generation by generation: a yardstick.
//!
//! # Source
//!
//! `AutoTVM`'s `GATuner` with its constants: a hundred genes a generation, the three best survive,
//! parents are drawn by fitness, each decision mutates with probability 0.1.

use tvmtune_plan::record::Source;

use super::ranking::Ranking;
use super::seen::Seen;
use super::{Proposal, Scene, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Points of a generation.
const GENERATION: usize = 100;
/// The best points of all, which are parents in every generation.
const ELITE: usize = 3;
/// How often a decision changes at random.
const MUTATION: f64 = 0.1;

/// A genetic algorithm without any model.
#[derive(Debug)]
pub struct Genetic {
    random: Random,
    seen: Seen,
    /// The generation that is being measured, and what is left of it to propose.
    measured: Ranking,
    waiting: Vec<Point>,
    elite: Ranking,
}

impl Genetic {
    /// A genetic algorithm.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            seen: Seen::default(),
            measured: Ranking::default(),
            waiting: Vec::new(),
            elite: Ranking::default(),
        }
    }

    /// Children of the last generation and of the elite; random points as long as there is none.
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
                let mut at = random.unit() * total;
                let found = parents.iter().find(|it| {
                    at -= it.0.recip();
                    at <= 0.0
                });
                found.unwrap_or(&parents[0]).1.clone()
            };
            let (one, other) = (parent(), parent());
            mutated(space, space.crossover(&one, &other, random), random)
        };
        self.waiting = seen.draw(GENERATION, draw);
        for it in &self.waiting {
            self.seen.insert(it);
        }
        self.waiting.reverse();
    }
}

/// A point of which some decisions are drawn anew.
fn mutated(space: &Space, mut point: Point, random: &mut Random) -> Point {
    for (n, decision) in space.decisions(&point).iter().enumerate() {
        if random.chance(MUTATION) {
            point.choices[n] = random.below(decision.options.len()) as u16;
        }
    }
    point
}

impl Strategy for Genetic {
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal> {
        if self.waiting.is_empty() {
            self.next_generation(scene.space);
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
