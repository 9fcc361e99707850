//! Measured points that work, fastest first.

use crate::outcome::Outcome;
use crate::space::Point;

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
