//! Limits on trials and time, and the plan of a final ranking within them.

use std::time::Duration;

use super::inner_extents::MAX_CHALLENGERS;

/// The limits; the first one that is reached ends a task, or all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Candidates measured for one task.
    pub trials: u64,
    /// Wall time for one task, judging and its final ranking included.
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
const MIN_ROUNDS: usize = 5;
/// Finalists that compete even if that exceeds the time: the default schedule, and the best.
const MIN_FINALISTS: usize = 2;
/// The share of the time of a task's search for its final ranking.
const FINAL_SHARE: f64 = 0.1;
/// The time of verifying a finalist, unless it is: in launches, with cold caches, and in ns; estimates.
const VERIFY_LAUNCHES: f64 = 5.0;
const VERIFY_NS: f64 = 5e6;

/// The candidates of a final ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidates {
    pub(super) n: usize,
    /// Those of them that are not verified on all cases.
    pub(super) n_unverified: usize,
    /// The latency of the slowest.
    pub(super) launch_ns: f64,
    /// The time of a sample, at least.
    pub(super) min_sample_ns: f64,
    /// Set if the best of them are timed at extents inside of a range as well.
    pub(super) is_range: bool,
}

impl FinalPlan {
    /// Plans as many candidates and rounds as fit into the share of the time that was spent on
    /// searching. A single candidate, the default schedule, needs no ranking.
    pub(super) fn new(searching: Duration, candidates: Candidates) -> Self {
        let n = candidates.n;
        if n < 2 {
            return Self { n_finalists: n, rounds: 0, time: Duration::ZERO };
        }
        let time = |n_finalists: usize, rounds: usize| candidates.time(n_finalists, rounds);
        let allowed = searching.mul_f64(FINAL_SHARE);
        let (mut n_finalists, mut rounds) = (n, MAX_ROUNDS);
        while time(n_finalists, rounds) > allowed && rounds > MIN_ROUNDS {
            rounds -= 1;
        }
        while time(n_finalists, rounds) > allowed && n_finalists > MIN_FINALISTS {
            n_finalists -= 1;
        }
        Self { n_finalists, rounds, time: time(n_finalists, rounds) }
    }

    /// Plans all rounds of all candidates, whatever the search took: the ranking is the purpose.
    pub(super) fn full(candidates: Candidates) -> Self {
        let (n_finalists, rounds) = (candidates.n, if candidates.n < 2 { 0 } else { MAX_ROUNDS });
        let time = if rounds == 0 { Duration::ZERO } else { candidates.time(n_finalists, rounds) };
        Self { n_finalists, rounds, time }
    }
}

impl Candidates {
    /// Estimates the time of a final ranking.
    fn time(self, n_finalists: usize, rounds: usize) -> Duration {
        let Self { n_unverified, launch_ns, min_sample_ns, is_range, .. } = self;
        // Each round warms up and takes a sample.
        let round_ns = 2.0 * launch_ns.max(min_sample_ns);
        let verify_ns = VERIFY_LAUNCHES * launch_ns + VERIFY_NS;
        let n_inner = if is_range { n_finalists.min(MAX_CHALLENGERS + 1) } else { 0 };
        let timing_ns = (n_finalists + n_inner) as f64 * rounds as f64 * round_ns;
        let n_unverified = n_unverified.min(n_finalists) as f64;
        Duration::from_nanos((n_unverified * verify_ns + timing_ns) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_final_ranking_takes_a_share_of_the_time_of_searching() {
        let seconds = Duration::from_secs_f64;
        let plan = |searching: f64, n: usize, launch_ns: f64| {
            let candidates =
                Candidates { n, n_unverified: 1, launch_ns, min_sample_ns: 5e4, is_range: true };
            FinalPlan::new(seconds(searching), candidates)
        };
        assert_eq!(plan(10.0, 1, 1e6).time, Duration::ZERO, "nothing but the default");
        let rich = plan(10.0, 12, 1e5);
        assert_eq!((rich.n_finalists, rich.rounds), (12, MAX_ROUNDS));
        for (searching, launch_ns) in [(1.0, 1e6), (10.0, 1e7), (5.0, 5e6)] {
            let plan = plan(searching, 12, launch_ns);
            assert!(plan.time <= seconds(searching * FINAL_SHARE), "{plan:?}");
            assert!(plan.n_finalists >= MIN_FINALISTS && plan.rounds >= MIN_ROUNDS, "{plan:?}");
        }
        let poor = plan(1.0, 12, 1e9);
        assert_eq!((poor.n_finalists, poor.rounds), (MIN_FINALISTS, MIN_ROUNDS));
    }
}
