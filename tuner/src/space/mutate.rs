//! Mutation, crossover and neighborhoods of points, for evolution and coordinate descent.

use std::collections::BTreeSet;

use tvmtune_space::sketch::{Decision, DecisionKind};

use super::{Neighbor, Point, Space};
use crate::random::Random;

impl Space {
    /// A point that differs from this one in one or two decisions; the same only if there are no
    /// others. Moves, tried until one applies: a factor to its neighbor or to any other, a factor
    /// from one level of an axis to another, any other option of the rest. Where constraints refuse a
    /// move, other decisions make room for it.
    pub fn mutate(&self, point: &Point, random: &mut Random) -> Point {
        for _ in 0..16 {
            let mut next = point.clone();
            let moved = match random.below(10) {
                0..=3 => self.step(&mut next, random),
                4..=5 => self.exchange(&mut next, random),
                6..=8 => self.replace(&mut next, random),
                _ => {
                    let first = self.replace(&mut next, random);
                    self.replace(&mut next, random) && first
                }
            };
            if moved && let Some(next) = self.allowed_move(point, next) {
                return next;
            }
        }
        self.random_of(point.sketch, random)
    }

    /// A child that takes each group of decisions from either parent. Parents of different
    /// sketches have no common decisions: the first is mutated instead.
    pub fn crossover(&self, one: &Point, other: &Point, random: &mut Random) -> Point {
        if one.sketch != other.sketch {
            return self.mutate(one, random);
        }
        let salt = random.bits();
        let mut child = one.clone();
        for (n, decision) in self.decisions(one).iter().enumerate() {
            let mut coin = Random::new(salt).fork(u64::from(decision.group));
            if coin.chance(0.5) {
                child.choices[n] = other.choices[n];
            }
        }
        self.allowed(child, random).unwrap_or_else(|| one.clone())
    }

    /// All points that differ in one decision: ordered ones by `distance` options to either side,
    /// the others by any. Then those that move as many options from one level of an axis to
    /// another. Where constraints refuse one, the nearest that they allow with that change stands for it.
    pub fn neighbors(&self, point: &Point, distance: u16) -> Vec<Neighbor> {
        let mut near = Vec::new();
        for (n, decision) in self.decisions(point).iter().enumerate() {
            let now = point.choices[n];
            for option in 0..decision.options.len() as u16 {
                // Others have no far neighbors: all are near.
                let is_near = if decision.kind.is_ordered() {
                    option.abs_diff(now) == distance
                } else {
                    option != now && distance == 1
                };
                if is_near {
                    let is_later = option > now;
                    let point = with(point, n, option);
                    near.push(Neighbor { point, decision: n as u16, is_later });
                }
            }
        }
        for (from, to) in self.exchangeable(point, distance) {
            let (less, more) = (point.choices[from] - distance, point.choices[to] + distance);
            let point = with(&with(point, from, less), to, more);
            near.push(Neighbor { point, decision: to as u16, is_later: true });
        }
        self.allowed_neighbors(point, near)
    }

    /// The point of a sketch whose values are nearest to those that `wanted` returns for the name and
    /// kind of a decision; the default option where it returns none. For options of another workload. If
    /// constraints refuse it, the nearest that they allow.
    pub fn nearest(
        &self,
        sketch: u16,
        wanted: &dyn Fn(&str, DecisionKind) -> Option<u64>,
    ) -> Point {
        let found = &self.sketches[sketch as usize];
        let mut choices = found.default.clone();
        for (choice, decision) in choices.iter_mut().zip(&found.decisions) {
            let Some(value) = wanted(&decision.name, decision.kind) else { continue };
            // None and one are near each other, and not the same.
            let distance = |it: u64| match it == value {
                true => -1.0,
                false => (it.max(1) as f64 / value.max(1) as f64).ln().abs(),
            };
            let options = decision.options.iter().map(|it| distance(*it)).enumerate();
            if let Some((best, _)) = options.min_by(|a, b| a.1.total_cmp(&b.1)) {
                *choice = best as u16;
            }
        }
        let fallback = || Point { sketch, choices: found.default.clone() };
        self.allowed_with(Point { sketch, choices }, &[]).unwrap_or_else(fallback)
    }

    /// Returns the point that a move leads to, if it leads anywhere, with room made for it.
    fn allowed_move(&self, from: &Point, to: Point) -> Option<Point> {
        let changed = (0..to.choices.len()).filter(|it| from.choices[*it] != to.choices[*it]);
        let changed: Vec<usize> = changed.collect();
        self.allowed_with(to, &changed).filter(|it| it != from)
    }

    /// Returns neighbors of a point with room made for their changes, each point once.
    fn allowed_neighbors(&self, point: &Point, near: Vec<Neighbor>) -> Vec<Neighbor> {
        if near.iter().all(|it| self.allows(&it.point)) {
            return near;
        }
        let mut seen = BTreeSet::new();
        let allowed = |it: Neighbor| {
            let point = self.allowed_move(point, it.point)?;
            seen.insert(point.clone()).then_some(Neighbor { point, ..it })
        };
        near.into_iter().filter_map(allowed).collect()
    }

    /// Draws a decision of a point, with its number; `None` if there is none.
    fn draw(&self, point: &Point, random: &mut Random) -> Option<(usize, &Decision)> {
        let decisions = self.decisions(point);
        let n = (!decisions.is_empty()).then(|| random.below(decisions.len()))?;
        Some((n, &decisions[n]))
    }

    fn step(&self, point: &mut Point, random: &mut Random) -> bool {
        let Some((n, decision)) = self.draw(point, random) else { return false };
        let up = random.chance(0.5);
        let now = point.choices[n];
        let next = if up { now + 1 } else { now.wrapping_sub(1) };
        let legal = decision.kind.is_ordered() && (next as usize) < decision.options.len();
        if legal {
            point.choices[n] = next;
        }
        legal
    }

    fn replace(&self, point: &mut Point, random: &mut Random) -> bool {
        let Some((n, decision)) = self.draw(point, random) else { return false };
        let next = random.below(decision.options.len()) as u16;
        let moved = next != point.choices[n];
        point.choices[n] = next;
        moved
    }

    fn exchange(&self, point: &mut Point, random: &mut Random) -> bool {
        let pairs = self.exchangeable(point, 1);
        if pairs.is_empty() {
            return false;
        }
        let (from, to) = pairs[random.below(pairs.len())];
        point.choices[from] -= 1;
        point.choices[to] += 1;
        true
    }

    /// Pairs of levels of one axis of which the first can shrink and the second can grow by so many
    /// options.
    fn exchangeable(&self, point: &Point, by: u16) -> Vec<(usize, usize)> {
        let decisions = self.decisions(point);
        let mut pairs = Vec::new();
        for (from, a) in decisions.iter().enumerate() {
            for (to, b) in decisions.iter().enumerate() {
                let same = from != to && a.group == b.group;
                let factors = a.kind.is_ordered() && b.kind.is_ordered();
                let room = point.choices[from] >= by
                    && usize::from(point.choices[to] + by) < b.options.len();
                if same && factors && room {
                    pairs.push((from, to));
                }
            }
        }
        pairs
    }
}

fn with(point: &Point, decision: usize, option: u16) -> Point {
    let mut next = point.clone();
    next.choices[decision] = option;
    next
}
