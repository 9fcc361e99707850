//! Points that constraints refuse, made into the nearest that they allow.
//!
//! Options of decisions are tried in order of their distance, decision by decision, and a choice is taken
//! back as soon as no point that is allowed has it (backtracking with pruning). The number of choices is
//! limited, so a template that allows next to nothing takes no longer than others.

use tvmtune_space::sketch::Sketch;

use super::{Point, Space};
use crate::random::Random;

/// Choices that one repair tries: some hundred microseconds.
const MAX_CHOICES: usize = 512;
/// Orders of decisions in which a random repair is tried.
const MAX_ORDERS: usize = 4;

impl Space {
    /// Returns a point if it is allowed, else one that is and shares decisions with it, random ones; `None`
    /// if none is found.
    pub(crate) fn allowed(&self, point: Point, random: &mut Random) -> Option<Point> {
        if self.allows(&point) {
            return Some(point);
        }
        let mut order: Vec<usize> = (0..point.choices.len()).collect();
        (0..MAX_ORDERS).find_map(|_| {
            for n in (1..order.len()).rev() {
                order.swap(n, random.below(n + 1));
            }
            self.repaired(&point, &order, 0)
        })
    }

    /// Returns a point if it is allowed, else the nearest one that keeps some of its decisions; `None` if
    /// none is found.
    pub(super) fn allowed_with(&self, point: Point, kept: &[usize]) -> Option<Point> {
        if self.allows(&point) {
            return Some(point);
        }
        let others = (0..point.choices.len()).filter(|it| !kept.contains(it));
        let order: Vec<usize> = kept.iter().copied().chain(others).collect();
        self.repaired(&point, &order, kept.len())
    }

    fn repaired(&self, point: &Point, order: &[usize], n_kept: usize) -> Option<Point> {
        let sketch = self.sketch(point);
        let mut repair =
            Repair { sketch, wanted: &point.choices, order, n_kept, n_left: MAX_CHOICES };
        let mut choices = vec![None; order.len()];
        let found = repair.choose(0, &mut choices);
        let choices = found.then(|| choices.into_iter().collect::<Option<Vec<u16>>>())??;
        Some(Point { sketch: point.sketch, choices })
    }
}

struct Repair<'a> {
    sketch: &'a Sketch,
    wanted: &'a [u16],
    /// The decisions in the order in which they are made; the first ones have the wanted option alone.
    order: &'a [usize],
    n_kept: usize,
    /// Choices that may be tried.
    n_left: usize,
}

impl Repair<'_> {
    /// Makes the decisions from one on; returns whether the point is allowed.
    fn choose(&mut self, from: usize, choices: &mut [Option<u16>]) -> bool {
        let Some(decision) = self.order.get(from).copied() else {
            let complete: Option<Vec<u16>> = choices.iter().copied().collect();
            return complete.is_some_and(|it| self.sketch.allows(&it));
        };
        let wanted = self.wanted[decision];
        let mut options: Vec<u16> =
            (0..self.sketch.decisions[decision].options.len() as u16).collect();
        options.sort_by_key(|it| it.abs_diff(wanted));
        if from < self.n_kept {
            options.truncate(1);
        }
        for option in options {
            if self.n_left == 0 {
                return false;
            }
            self.n_left -= 1;
            choices[decision] = Some(option);
            if self.sketch.may_allow(choices) && self.choose(from + 1, choices) {
                return true;
            }
        }
        choices[decision] = None;
        false
    }
}
