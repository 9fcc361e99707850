//! Which thread of a block, and which lane of a vector, does something.

/// Loops over threads and lanes nest no deeper than this; what is deeper counts as in order.
const DEEPEST: usize = 4;

/// One iteration of each open loop over threads or lanes, outermost first.
#[derive(Clone, Copy, Default)]
pub(super) struct Lane {
    path: [Step; DEEPEST],
    depth: u8,
}

#[derive(Clone, Copy, Default)]
struct Step {
    /// The run of the loop: unique in the run of a nest.
    instance: u32,
    number: u32,
    var: u16,
    is_thread: bool,
}

impl Lane {
    /// That iteration of a loop inside what `self` is in.
    pub(super) fn inside(
        mut self,
        instance: u32,
        var: usize,
        number: i64,
        is_thread: bool,
    ) -> Self {
        if let Some(step) = self.path.get_mut(usize::from(self.depth)) {
            *step = Step { instance, number: number as u32, var: var as u16, is_thread };
            self.depth += 1;
        }
        self
    }

    /// Without the loops over variables for which `drop` holds.
    pub(super) fn without(self, drop: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::default();
        for step in self.steps().iter().filter(|it| !drop(it.var.into())) {
            kept.path[usize::from(kept.depth)] = *step;
            kept.depth += 1;
        }
        kept
    }

    /// Whether a write and something after it, in the order of the interpreter, are in no order
    /// on a device.
    pub(super) fn races_after_write(&self, later: &Lane) -> bool {
        self.parting(later).is_some()
    }

    /// As `races_after_write` for a read before a write: the lanes of a vector all read before one
    /// of them writes.
    pub(super) fn races_after_read(&self, later: &Lane) -> bool {
        self.parting(later).is_some_and(|it| it.is_thread)
    }

    /// The outermost loop in two different iterations of which they are. Loops one after the other
    /// are in order.
    fn parting(&self, other: &Lane) -> Option<Step> {
        for (a, b) in self.steps().iter().zip(other.steps()) {
            if a.instance != b.instance {
                return None;
            }
            if a.number != b.number {
                return Some(*a);
            }
        }
        None
    }

    fn steps(&self) -> &[Step] {
        &self.path[..usize::from(self.depth)]
    }
}
