//! Progress, as data: whoever asked for tuning prints it, or does not.

use std::fmt;
use std::path::PathBuf;

use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Platform;
use tvmtune_plan::record::Source;

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

/// Something that happened while tuning.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Tuning begins.
    Started {
        /// How many tasks there are.
        n_tasks: usize,
    },
    /// Nothing can be tuned for a task.
    Skipped {
        /// Which.
        task: &'a TaskName,
        /// Why.
        why: String,
    },
    /// The default schedule was measured: what is to be beaten.
    Default {
        /// Of which task.
        task: &'a TaskName,
        /// Its latency.
        ns: f64,
    },
    /// A candidate was measured.
    Trial {
        /// Of which task.
        task: &'a TaskName,
        /// Its number, from 1 on; of the trials of earlier sessions too.
        trial: u64,
        /// What became of it.
        outcome: &'a Outcome,
        /// The best latency so far, this one included.
        best_ns: f64,
    },
    /// A candidate is the best so far.
    Improved {
        /// Of which task.
        task: &'a TaskName,
        /// What it was before.
        from_ns: f64,
        /// What it is now.
        to_ns: f64,
        /// Who proposed it.
        source: Source,
    },
    /// A task was tuned.
    Finished {
        /// Which.
        task: &'a TaskName,
        /// How it went.
        result: &'a TaskResult,
    },
    /// Results were written.
    Saved {
        /// To which file.
        path: PathBuf,
    },
    /// Something is amiss that stops nothing.
    Warning {
        /// What.
        what: String,
    },
}

/// How tuning a task went.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskResult {
    /// Which.
    pub task: TaskName,
    /// The latency of the default schedule: the middle of the faster half of its samples.
    pub default_ns: f64,
    /// The latency of the best schedule, timed beside it.
    pub best_ns: f64,
    /// The latency of the best schedule that is not the default one, if any came to the finals.
    pub found_ns: Option<f64>,
    /// Who proposed the best.
    pub source: Source,
    /// Candidates measured, in this session and in earlier ones.
    pub trials: u64,
    /// Wall time spent on them.
    pub seconds: f64,
    /// Candidates that failed in this session.
    pub failures: u64,
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
