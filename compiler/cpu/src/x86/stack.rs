//! Stack slot coloring: live intervals that do not overlap share a slot.

use super::liveness::LiveInterval;

/// Stack slots, reused when an interval ends.
#[derive(Default)]
pub(super) struct StackSlots {
    ends: Vec<u32>,
}

impl StackSlots {
    /// Returns a slot that is free throughout an interval. Intervals come by start.
    pub(super) fn take(&mut self, interval: &LiveInterval) -> u32 {
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
