//! Stack slot coloring: intervals that do not overlap share a part of the frame.

use super::liveness::Interval;

/// Parts of the frame, reused when an interval ends.
#[derive(Default)]
pub(super) struct Slots {
    ends: Vec<u32>,
}

impl Slots {
    /// A part that is free from the interval's start to its end. Intervals come by start.
    pub(super) fn take(&mut self, interval: &Interval) -> u32 {
        let free = self.ends.iter().position(|end| *end < interval.start);
        let at = free.unwrap_or(self.ends.len());
        if at == self.ends.len() {
            self.ends.push(0);
        }
        self.ends[at] = interval.end;
        at as u32
    }

    pub(super) fn len(&self) -> u32 {
        self.ends.len() as u32
    }
}
