//! Ansor's evolution, as published: a large population, parents drawn by predicted throughput, mutation
//! without crossover, and a small share of random points. A baseline.
//!
//! # Source
//!
//! TVM's `auto_scheduler` (`sketch_policy.cc`, `search_policy.py`) with its constants. Tiles mutate as
//! there: a factor of one level of an axis moves to another. The rest of its mutations (unrolling, location
//! of a stage, loops that run in parallel), a tenth in all, are the other decisions of a sketch here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tvmtune_plan::record::Source;
use tvmtune_space::sketch::Decision;

use super::seen::{Ranking, Seen};
use super::strategy::{Proposal, Score, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::space::{Point, Space};

/// Points of a generation, and the generations after the first.
const POPULATION: usize = 2048;
const GENERATIONS: usize = 4;
/// The share of the best measured points in the first generation, at most.
const MEASURED: f64 = 0.2;
/// The probability that a point mutates; else it survives as it is.
const MUTATION: f64 = 0.85;
/// The probability that a mutation moves a factor of a tile.
const TILE: f64 = 0.9;
/// Points of a round, which are measured before the next evolution, and the random ones among them.
const ROUND: usize = 64;
const N_RANDOM: usize = 3;

/// Ansor's evolution.
#[derive(Debug)]
pub struct Ansor {
    random: Random,
    seen: Seen,
    ranked: Ranking,
    /// The rest of a round.
    round: VecDeque<Proposal>,
}

impl Ansor {
    /// Creates the strategy.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            seen: Seen::default(),
            ranked: Ranking::default(),
            round: VecDeque::new(),
        }
    }

    /// Returns the best points of an evolution, then random ones; all random without a model.
    fn next_round(&mut self, context: &SearchContext<'_>) -> VecDeque<Proposal> {
        let good = match context.score() {
            Some(score) => self.evolve(context.space, score, ROUND - N_RANDOM),
            None => Vec::new(),
        };
        self.seen.extend(&good);
        let random = &mut self.random;
        let rest = self.seen.draw(ROUND - good.len(), || context.space.random(random));
        self.seen.extend(&rest);
        let good = good.into_iter().map(|it| Proposal::new(Source::Evolved, it));
        good.chain(rest.into_iter().map(|it| Proposal::new(Source::Random, it))).collect()
    }

    /// Returns the `n` unseen points with the best scores of all generations.
    fn evolve(&mut self, space: &Space, score: &dyn Score, n: usize) -> Vec<Point> {
        let measured = self.ranked.first((POPULATION as f64 * MEASURED) as usize);
        let mut population: Vec<Point> = measured.iter().map(|it| it.1.clone()).collect();
        let random = &mut self.random;
        population.resize_with(POPULATION, || space.random(random));
        let mut scores: BTreeMap<Point, f64> = BTreeMap::new();
        for generation in 0..=GENERATIONS {
            let new: BTreeSet<Point> =
                population.iter().filter(|it| !scores.contains_key(*it)).cloned().collect();
            let new: Vec<Point> = new.into_iter().collect();
            scores.extend(new.iter().cloned().zip(score.score(space, &new)));
            let wheel = Wheel::new(population.iter().map(|it| scores[it].recip()));
            if generation == GENERATIONS || wheel.is_empty() {
                break;
            }
            let child = |_| {
                let parent = &population[wheel.draw(random)];
                if random.chance(MUTATION) { mutate(space, parent, random) } else { parent.clone() }
            };
            population = (0..POPULATION).map(child).collect();
        }
        let fresh = scores.into_iter().filter(|it| it.1.is_finite() && !self.seen.contains(&it.0));
        let mut best: Vec<(Point, f64)> = fresh.collect();
        best.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
        best.truncate(n);
        best.into_iter().map(|it| it.0).collect()
    }
}

impl Strategy for Ansor {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        while proposals.len() < n {
            if self.round.is_empty() {
                self.round = self.next_round(context);
            }
            let Some(next) = self.round.pop_front() else { break };
            proposals.push(next);
        }
        proposals
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.seen.insert(point);
        self.round.retain(|it| it.point != *point);
        self.ranked.observe(point, outcome);
    }
}

/// Draws positions in proportion to weights.
struct Wheel(Vec<f64>);

impl Wheel {
    fn new(weights: impl Iterator<Item = f64>) -> Self {
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += if weight.is_finite() { weight.max(0.0) } else { 0.0 };
            Some(*sum)
        });
        Self(sums.collect())
    }

    fn total(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    /// Tells if nothing has any weight.
    fn is_empty(&self) -> bool {
        self.total() <= 0.0
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.total();
        self.0.partition_point(|sum| *sum <= at).min(self.0.len() - 1)
    }
}

/// Returns a mutant; the point itself if the mutation that was drawn does not apply.
fn mutate(space: &Space, point: &Point, random: &mut Random) -> Point {
    let decisions = space.decisions(point);
    let is_tile = |it: &Decision| it.kind.is_ordered();
    let tiles = random.chance(TILE);
    let drawn: Vec<usize> =
        (0..decisions.len()).filter(|n| is_tile(&decisions[*n]) == tiles).collect();
    if drawn.is_empty() {
        return point.clone();
    }
    let n = drawn[random.below(drawn.len())];
    let mut next = point.clone();
    if tiles {
        move_factor(decisions, &mut next, n, random);
    } else {
        next.choices[n] = random.below(decisions[n].options.len()) as u16;
    }
    space.allowed(next, random).unwrap_or_else(|| point.clone())
}

/// Moves a factor between the level of decision `n` and another one of its axis. The outermost level is no
/// decision: it has what others leave.
fn move_factor(decisions: &[Decision], point: &mut Point, n: usize, random: &mut Random) {
    let value = |n: usize, option: u16| decisions[n].options[option as usize];
    let now = value(n, point.choices[n]);
    let same_axis = |it: &usize| {
        *it != n && decisions[*it].group == decisions[n].group && decisions[*it].kind.is_ordered()
    };
    let mut others: Vec<Option<usize>> = (0..decisions.len()).filter(same_axis).map(Some).collect();
    others.push(None);
    let other = others[random.below(others.len())];
    let mut moves = Vec::new();
    for option in 0..decisions[n].options.len() as u16 {
        let wanted = value(n, option);
        let Some(other) = other else {
            if wanted != now && (wanted.is_multiple_of(now) || now.is_multiple_of(wanted)) {
                moves.push((option, None));
            }
            continue;
        };
        let product = now * value(other, point.choices[other]);
        let left = decisions[other].options.iter().position(|it| it * wanted == product);
        if let Some(left) = left.filter(|_| wanted != now) {
            moves.push((option, Some((other, left as u16))));
        }
    }
    if moves.is_empty() {
        return;
    }
    let (option, also) = moves[random.below(moves.len())];
    point.choices[n] = option;
    if let Some((other, left)) = also {
        point.choices[other] = left;
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_space::sketch::{DecisionKind, Sketch};

    use super::*;

    fn decision(group: u32, options: &[u64]) -> Decision {
        let (name, kind, options) = ("tile".to_owned(), DecisionKind::Outer, options.to_vec());
        Decision { name, kind, options, group }
    }

    #[test]
    fn a_factor_moves_to_another_level_of_its_axis() {
        let options = [1, 2, 3, 4, 6, 12];
        let decisions = [decision(0, &options), decision(0, &options), decision(1, &[1, 5])];
        let start = Point { sketch: 0, choices: vec![4, 1, 0] };
        let value = |point: &Point, n: usize| decisions[n].options[point.choices[n] as usize];
        let mut random = Random::new(1);
        let mut products = BTreeSet::new();
        for _ in 0..200 {
            let mut point = start.clone();
            move_factor(&decisions, &mut point, 0, &mut random);
            assert_eq!(point.choices[2], 0, "another axis stays as it is");
            let product = value(&point, 0) * value(&point, 1);
            assert!(point.choices[1] == start.choices[1] || product == 12, "{point:?}");
            products.insert(product);
        }
        // 6 x 2 to 12 x 1, 4 x 3, 3 x 4, 2 x 6 and 1 x 12, or a factor from or to the outermost level.
        assert!(products.contains(&12) && products.contains(&24) && products.contains(&2));
    }

    #[test]
    fn a_point_that_others_measured_leaves_the_round() {
        let sketch = Sketch::new("one", vec![decision(0, &[1, 2, 4])], vec![0], Vec::new());
        let space = Space::from_sketches(vec![sketch]);
        let context = SearchContext::without_models(&space);
        let mut strategy = Ansor::new(1);
        let first = strategy.propose(&context, 1).remove(0).point;
        let other = Point { sketch: 0, choices: vec![(first.choices[0] + 1) % 3] };
        strategy.observe(&other, &Outcome::TimedOut);
        let rest: Vec<Point> =
            strategy.propose(&context, 9).into_iter().map(|it| it.point).collect();
        assert_eq!(rest, [Point { sketch: 0, choices: vec![(first.choices[0] + 2) % 3] }]);
    }

    #[test]
    fn parents_are_drawn_in_proportion_to_throughput() {
        let wheel = Wheel::new([1.0, f64::INFINITY, 0.0, 3.0].into_iter());
        let mut random = Random::new(2);
        let mut drawn = [0; 4];
        (0..4000).for_each(|_| drawn[wheel.draw(&mut random)] += 1);
        assert_eq!((drawn[1], drawn[2]), (0, 0));
        assert!((2800..3200).contains(&drawn[3]), "{drawn:?}");
        assert!(Wheel::new([0.0, f64::NAN].into_iter()).is_empty());
    }
}
