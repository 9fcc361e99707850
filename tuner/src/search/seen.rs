//! Points that nobody needs to try again.

use std::collections::BTreeSet;

use crate::space::Point;

/// Draws in vain after which a space counts as exhausted.
const PATIENCE: usize = 200;

/// Points that were proposed, or measured for someone else.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeSet<Point>);

impl Seen {
    /// Notes a point; false if it is known.
    pub(super) fn insert(&mut self, point: &Point) -> bool {
        self.0.insert(point.clone())
    }

    /// Whether a point is known.
    pub(super) fn contains(&self, point: &Point) -> bool {
        self.0.contains(point)
    }

    /// Up to `n` distinct points that are not known, as they are drawn; fewer when too many draws
    /// in a row bring nothing new. None of them is noted.
    pub(super) fn draw(&self, n: usize, mut draw: impl FnMut() -> Point) -> Vec<Point> {
        let (mut fresh, mut order, mut in_vain) = (BTreeSet::new(), Vec::new(), 0);
        while order.len() < n && in_vain < PATIENCE {
            let point = draw();
            if !self.contains(&point) && fresh.insert(point.clone()) {
                order.push(point);
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
        order
    }
}
