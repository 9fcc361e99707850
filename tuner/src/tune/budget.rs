//! Limits on trials and time, and the plan of a final ranking within them.

use std::time::Duration;

/// The limits; the first one that is reached ends a task, or all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Candidates measured for one task.
    pub trials: u64,
    /// Wall time for one task, its preparation and its final ranking included.
    pub per_task: Duration,
    /// Wall time for all tasks together.
    pub total: Duration,
}

impl Budget {
    /// Scales the limits of a task.
    pub(super) fn scaled(&self, share: f64) -> Self {
        Self {
            trials: (self.trials as f64 * share).ceil() as u64,
            per_task: self.per_task.mul_f64(share.clamp(0.0, 1.0)),
            total: self.total,
        }
    }
}

/// The size of a final ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinalPlan {
    /// Finalists that are timed side by side.
    pub(super) n_finalists: usize,
    /// Timings of each.
    pub(super) rounds: usize,
    /// The expected time.
    pub(super) time: Duration,
}

/// Rounds of a final ranking, if there is time for them, and those without which no difference is
/// significant.
const MAX_ROUNDS: usize = 15;
const MIN_ROUNDS: usize = 8;
/// Finalists that compete even if that exceeds the time: the default schedule, and others.
const MIN_FINALISTS: usize = 3;
/// The share of a task's time for its final ranking.
const FINAL_SHARE: f64 = 0.25;
/// The time of verifying a finalist: in launches, with cold caches, and in ns; estimates.
const VERIFY_LAUNCHES: f64 = 20.0;
const VERIFY_NS: f64 = 5e6;

impl FinalPlan {
    /// Plans as many of `n_candidates` and rounds as fit into the share of a task's time, for
    /// launches of `launch_ns` and samples of at least `min_sample_ns`.
    pub(super) fn new(
        per_task: Duration,
        n_candidates: usize,
        launch_ns: f64,
        min_sample_ns: f64,
    ) -> Self {
        // Each round warms up and takes a sample.
        let round_ns = 2.0 * launch_ns.max(min_sample_ns);
        let verify_ns = VERIFY_LAUNCHES * launch_ns + VERIFY_NS;
        let time = |n_finalists: usize, rounds: usize| {
            let ns = n_finalists as f64 * (verify_ns + rounds as f64 * round_ns);
            Duration::from_nanos(ns as u64)
        };
        let allowed = per_task.mul_f64(FINAL_SHARE);
        let (mut n_finalists, mut rounds) = (n_candidates, MAX_ROUNDS);
        while time(n_finalists, rounds) > allowed && rounds > MIN_ROUNDS {
            rounds -= 1;
        }
        while time(n_finalists, rounds) > allowed && n_finalists > MIN_FINALISTS {
            n_finalists -= 1;
        }
        Self { n_finalists, rounds, time: time(n_finalists, rounds) }
    }
}
