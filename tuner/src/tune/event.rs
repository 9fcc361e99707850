//! Progress events of a run.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Platform;
use tvmtune_plan::record::Source;

use super::spent::TimeSpent;
use crate::outcome::Outcome;

/// A task, for people: `linear[M=17..=64] avx512`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskName {
    /// The program.
    pub program: String,
    /// The dynamic dimensions with their ranges.
    pub dims: Vec<(String, Interval)>,
    /// The instruction set, or the architecture of a GPU.
    pub platform: Platform,
}

/// An event of a run.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Another process measures on the device, or writes records.
    Waiting {
        /// The time waited so far.
        waited: Duration,
        /// That process, and its business.
        whom: &'a str,
    },
    /// Tuning begins.
    Started {
        /// The number of tasks.
        n_tasks: usize,
    },
    /// A task can't be tuned.
    Skipped {
        /// The task.
        task: &'a TaskName,
        /// The reason.
        why: String,
    },
    /// A task was chosen for the next round.
    Chosen {
        /// The task.
        task: &'a TaskName,
        /// The reason.
        reason: Reason,
    },
    /// The default schedule was measured.
    Default {
        /// The task.
        task: &'a TaskName,
        /// Its latency.
        ns: f64,
    },
    /// A candidate was measured.
    Trial {
        /// The task.
        task: &'a TaskName,
        /// Its number, from 1 on; of the trials of earlier sessions too.
        trial: u64,
        /// The outcome.
        outcome: &'a Outcome,
        /// The best latency so far, this one included.
        best_ns: f64,
    },
    /// A candidate is the best so far.
    Improved {
        /// The task.
        task: &'a TaskName,
        /// The best latency before.
        from_ns: f64,
        /// The best latency now.
        to_ns: f64,
        /// The strategy that proposed it.
        source: Source,
    },
    /// A task was tuned.
    Finished {
        /// The task.
        task: &'a TaskName,
        /// Its result.
        result: &'a TaskResult,
    },
    /// Results were written.
    Saved {
        /// The file.
        path: PathBuf,
    },
    /// A problem that does not stop the run.
    Warning {
        /// The problem.
        what: String,
    },
}

/// The reason why a task gets the next round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Its first search is not over.
    FirstSearch,
    /// The round is expected to save that share of the time of all kernels, each as often as it runs.
    Saving(f64),
    /// The scheduler expects nothing in particular, or nothing worked so far.
    Turn,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstSearch => f.write_str("first search"),
            Self::Saving(share) => {
                write!(f, "expected to save {:.2} % of all kernels' time", share * 100.0)
            }
            Self::Turn => f.write_str("it is its turn"),
        }
    }
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskResult {
    /// The task.
    pub task: TaskName,
    /// The latency of the default schedule: the middle of the faster half of its samples.
    pub default_ns: f64,
    /// The latency of the best schedule, timed beside it.
    pub best_ns: f64,
    /// The latency of the best schedule that is not the default one, if any was in the final ranking.
    pub found_ns: Option<f64>,
    /// The latency of the schedule that the crate ships, if it ships one for these ranges.
    pub shipped_ns: Option<f64>,
    /// The code of the earlier release that recorded a schedule, if it was kept and timed beside the best.
    pub former: Option<FormerCode>,
    /// The strategy that proposed the best.
    pub source: Source,
    /// Candidates measured, in this session and in earlier ones.
    pub trials: u64,
    /// Wall time spent on them, in this session and in earlier ones.
    pub seconds: f64,
    /// The time of this session.
    pub times: TimeSpent,
    /// Candidates that failed in this session.
    pub failures: u64,
}

/// Code of an earlier release, timed beside the best schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FormerCode {
    /// Its latency.
    pub ns: f64,
    /// True if it is faster than the best schedule, beyond noise.
    pub is_faster: bool,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        for (n, (name, Interval { lo, hi })) in self.dims.iter().enumerate() {
            write!(f, "{}{name}={lo}..={hi}", if n == 0 { "[" } else { ", " })?;
        }
        write!(f, "{} {}", if self.dims.is_empty() { "" } else { "]" }, self.platform)
    }
}
