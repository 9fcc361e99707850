//! The points that are not to be proposed again, and those that work.

use std::collections::BTreeSet;

use crate::outcome::Outcome;
use crate::space::Point;

/// Draws in a row without a new point, after which a space counts as exhausted.
const PATIENCE: usize = 200;

/// Points that were proposed or observed.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeSet<Point>);

impl Seen {
    /// Adds a point; false if it was there.
    pub(super) fn insert(&mut self, point: &Point) -> bool {
        self.0.insert(point.clone())
    }

    /// Adds points.
    pub(super) fn extend(&mut self, points: &[Point]) {
        self.0.extend(points.iter().cloned());
    }

    /// Tells if a point was seen.
    pub(super) fn contains(&self, point: &Point) -> bool {
        self.0.contains(point)
    }

    /// Draws up to `n` distinct unseen points; fewer when too many draws in a row bring nothing new.
    /// None of them is added.
    pub(super) fn draw(&self, n: usize, mut draw: impl FnMut() -> Point) -> Vec<Point> {
        let (mut fresh, mut order, mut n_failed) = (BTreeSet::new(), Vec::new(), 0);
        while order.len() < n && n_failed < PATIENCE {
            let point = draw();
            if !self.contains(&point) && fresh.insert(point.clone()) {
                order.push(point);
                n_failed = 0;
            } else {
                n_failed += 1;
            }
        }
        order
    }
}

/// Measured points in order of latency, ties in order of points.
#[derive(Debug, Default)]
pub(super) struct Ranking(Vec<(f64, Point)>);

impl Ranking {
    /// Adds a point, if it works.
    pub(super) fn observe(&mut self, point: &Point, outcome: &Outcome) {
        let Some(timing) = outcome.timing() else { return };
        let entry = (timing.min_ns(), point.clone());
        let before = |it: &(f64, Point)| it.0.total_cmp(&entry.0).then_with(|| it.1.cmp(&entry.1));
        let (Ok(position) | Err(position)) = self.0.binary_search_by(before);
        self.0.insert(position, entry);
    }

    /// Returns all points, with their latencies in ns.
    pub(super) fn all(&self) -> &[(f64, Point)] {
        &self.0
    }

    /// Returns the `n` fastest.
    pub(super) fn first(&self, n: usize) -> &[(f64, Point)] {
        &self.0[..n.min(self.0.len())]
    }
}
