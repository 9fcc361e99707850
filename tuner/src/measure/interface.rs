//! The interface of measurement: what the tuning loop asks of a device or of a log.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::job::{CaseSpec, Job};
use super::protocol::Policy;
use crate::executor::MachineLockError;
use crate::outcome::{Outcome, Timing};

/// A source of timings: a device, or a log of earlier measurements.
pub trait Measure {
    /// Tells if it executes candidates, so that there are results. A log does not.
    fn runs_code(&self) -> bool;

    /// Returns the time that was spent on starting workers so far.
    fn start_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Sets the end of the budget: what does not answer by then is given up a few seconds later.
    fn set_deadline(&mut self, deadline: Option<Instant>) {
        let _ = deadline;
    }

    /// Sets the cases that candidates compute from now on; they are timed on the first. `expected`
    /// has the results of all cases, concatenated, if they are known.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if no worker can be started, or none can hold the arguments.
    fn set_up(&mut self, cases: &[CaseSpec], expected: Option<&[u8]>) -> Result<(), MeasureError>;

    /// Runs a candidate once on a case; returns its results, concatenated.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if nothing can be measured at all; the inner error is the outcome of a
    /// candidate that failed.
    fn evaluate(
        &mut self,
        job: &Job,
        case: usize,
    ) -> Result<Result<Vec<u8>, Outcome>, MeasureError>;

    /// Verifies a candidate and times it.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if nothing can be measured at all.
    fn measure(&mut self, job: &Job, policy: &Policy) -> Result<Outcome, MeasureError>;

    /// Times verified candidates side by side; returns a timing for each.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if nothing can be measured at all; the inner error is the
    /// outcome if a candidate failed.
    fn compare(
        &mut self,
        jobs: &[&Job],
        rounds: usize,
        policy: &Policy,
    ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError>;
}

/// The error if nothing can be measured at all.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Other processes have the machine, or it can't be locked.
    #[error(transparent)]
    Machine(#[from] MachineLockError),
    /// The operating system refused.
    #[error("cannot start a worker, `{path}`: {source}")]
    Start {
        /// The executable.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The process does not behave as a worker.
    #[error(
        "`{0}` is no worker; call `tvmtune_tuner::measure::worker::maybe_run()` first in its `main`"
    )]
    NoWorker(PathBuf),
    /// A worker ended before it was ready.
    #[error(
        "a worker, `{path}`, ended as it started: {why}; free memory, or raise its limit (`ulimit -v`)"
    )]
    Died {
        /// The executable.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A worker cannot hold the arguments of a problem.
    #[error(
        "a worker cannot prepare the arguments: {0}; free memory, raise its limit (`ulimit -v`), or \
         give the dimensions smaller ranges"
    )]
    SetUp(String),
}
