//! What tuning may spend.

use std::time::{Duration, Instant};

/// Limits; whichever is reached first ends a task, or all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Candidates measured for one task.
    pub trials: u64,
    /// Wall time for one task, its preparation and its finals included.
    pub per_task: Duration,
    /// Wall time for all tasks together.
    pub total: Duration,
}

impl Default for Budget {
    /// Minutes for a package: a second or three finds most of what a small space holds.
    fn default() -> Self {
        Self { trials: 1000, per_task: Duration::from_secs(20), total: Duration::from_secs(300) }
    }
}

impl Budget {
    /// The budget of a task that is worth only a share of others.
    pub(super) fn scaled(&self, share: f64) -> Self {
        Self {
            trials: (self.trials as f64 * share).ceil() as u64,
            per_task: self.per_task.mul_f64(share.clamp(0.0, 1.0)),
            total: self.total,
        }
    }
}

/// Adds up wall time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
