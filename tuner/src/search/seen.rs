//! The points that are not to be proposed again.

use std::collections::BTreeSet;

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
