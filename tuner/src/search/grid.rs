//! Grid search: every point in order; a baseline.
//!
//! # Source
//!
//! `AutoTVM`'s `GridSearchTuner`: the first decision turns fastest. Sketches take turns, so that a
//! large one does not hide those behind it.

use tvmtune_plan::record::Source;

use super::seen::Seen;
use super::strategy::{Proposal, SearchContext, Strategy};
use crate::outcome::Outcome;
use crate::space::{Point, Space};

/// Points in a row that constraints refuse, after which a sketch counts as exhausted.
const MAX_REFUSED: u64 = 1 << 20;

/// Proposes all points, one after the other.
#[derive(Debug, Default)]
pub struct Grid {
    /// The number of the next point in each sketch.
    next: Vec<u64>,
    /// The sketch whose turn it is.
    turn: usize,
    seen: Seen,
}

impl Grid {
    /// Returns the next point in order; `None` after the last one.
    fn step(&mut self, space: &Space) -> Option<Point> {
        self.next.resize(space.sketches.len(), 0);
        for _ in 0..self.next.len() {
            let sketch = self.turn % self.next.len();
            self.turn = sketch + 1;
            let n_points = space.sketches[sketch].n_points();
            let numbers = self.next[sketch]..n_points.min(self.next[sketch] + MAX_REFUSED);
            for number in numbers {
                let point = numbered(space, sketch as u16, number);
                if space.allows(&point) {
                    self.next[sketch] = number + 1;
                    return Some(point);
                }
            }
            self.next[sketch] = n_points;
        }
        None
    }
}

/// Returns the point of that number in a sketch, in mixed radix.
fn numbered(space: &Space, sketch: u16, mut number: u64) -> Point {
    let digit = |n_options: usize| {
        let digit = number % n_options as u64;
        number /= n_options as u64;
        digit as u16
    };
    let decisions = &space.sketches[sketch as usize].decisions;
    Point { sketch, choices: decisions.iter().map(|it| it.options.len()).map(digit).collect() }
}

impl Strategy for Grid {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        let mut fresh = Vec::new();
        while fresh.len() < n
            && let Some(point) = self.step(context.space)
        {
            if self.seen.insert(&point) {
                fresh.push(Proposal::new(Source::Random, point));
            }
        }
        fresh
    }

    fn observe(&mut self, point: &Point, _outcome: &Outcome) {
        self.seen.insert(point);
    }
}
