//! Parallel indices, for the race detection of the interpreter: the iteration of each loop over
//! threads or vector lanes in which an access executes.
//!
//! In: the loops that are open at two accesses. Out: the first of them whose iterations differ, if
//! accesses in different iterations of it are unordered on a device.

/// The depth to which loops over threads and lanes are tracked; deeper ones count as sequential.
const MAX_DEPTH: usize = 4;

/// One iteration of each open loop over threads or lanes, outermost first.
#[derive(Clone, Copy, Default)]
pub(super) struct ParallelIndex {
    path: [ParallelStep; MAX_DEPTH],
    depth: u8,
}

/// One iteration of a loop over threads or lanes.
#[derive(Clone, Copy, Default)]
pub(super) struct ParallelStep {
    /// The execution of the loop: unique in the run of a nest.
    instance: u32,
    number: u32,
    var: u16,
    is_thread: bool,
}

impl ParallelStep {
    /// An iteration of a loop over the threads of a block.
    pub(super) fn thread(instance: u32, var: usize, number: i64) -> Self {
        Self { instance, number: number as u32, var: var as u16, is_thread: true }
    }

    /// An iteration of a vectorized loop.
    pub(super) fn vector_lane(instance: u32, var: usize, number: i64) -> Self {
        Self { is_thread: false, ..Self::thread(instance, var, number) }
    }
}

impl ParallelIndex {
    /// Returns the index inside one more loop.
    pub(super) fn inside(mut self, step: ParallelStep) -> Self {
        if let Some(innermost) = self.path.get_mut(usize::from(self.depth)) {
            *innermost = step;
            self.depth += 1;
        }
        self
    }

    /// Returns the index without the loops over variables for which `drop` holds.
    pub(super) fn without(self, drop: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::default();
        for step in self.steps().iter().filter(|it| !drop(it.var.into())) {
            kept.path[usize::from(kept.depth)] = *step;
            kept.depth += 1;
        }
        kept
    }

    /// Returns whether a write here and an access at `later`, which the interpreter executes after it,
    /// are unordered on a device.
    pub(super) fn races_after_write(&self, later: &ParallelIndex) -> bool {
        self.divergence(later).is_some()
    }

    /// As `races_after_write` for a read before a write: the lanes of a vector all read before one
    /// of them writes.
    pub(super) fn races_after_read(&self, later: &ParallelIndex) -> bool {
        self.divergence(later).is_some_and(|it| it.is_thread)
    }

    /// The outermost loop in whose iterations two indices differ; loops one after the other are
    /// ordered.
    fn divergence(&self, other: &ParallelIndex) -> Option<ParallelStep> {
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

    fn steps(&self) -> &[ParallelStep] {
        &self.path[..usize::from(self.depth)]
    }
}
