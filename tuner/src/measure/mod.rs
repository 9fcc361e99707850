//! Step 8 of 12: runs candidates in a worker, and reports what became of them.
//!
//! ```text
//! ... -> codegen -> compile -> [measure] -> record -> ...
//! ```
//!
//! In: machine code, how to launch it, and what it must compute. Out: an [`Outcome`]. Next: search
//! learns from it, and the best becomes a record.
//!
//! Read `protocol.rs` for what is asked of the worker, `worker` for what it does, and `pool.rs`
//! for how it is watched.
//!
//! # Invariants
//!
//! - No timing counts unless the results were right: of each candidate on the case where it is
//!   timed, and on awkward dimensions too if it may become the best.
//! - A candidate can harm nothing but its worker, and nothing a worker says is believed further
//!   than it can be checked: a timing is positive, or it is none.
//! - Timings are taken by the function that launches kernels in the user's program.

mod exclusive;
mod job;
mod pool;
mod protocol;
mod replayed;
mod timer;
pub mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::outcome::{Outcome, Timing};
use pool::{Answer, Pool};
use protocol::{Frame, Request, Response, Run};

pub use exclusive::{Exclusive, ExclusiveError};
pub use job::{CaseSpec, Job};
pub use pool::WorkerCommand;
pub use protocol::{Gpu, Policy};
pub use replayed::Replayed;

/// Whoever knows how long candidates take.
pub trait Measure {
    /// Whether it runs them, so that results can be had. A log does not.
    fn runs_code(&self) -> bool;

    /// From now on, candidates compute these cases; the first is where they are timed. Their
    /// expected results, if they are known, one after the other in `expected`.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if no worker can be started, or none can hold the arguments.
    fn set_up(&mut self, cases: &[CaseSpec], expected: Option<&[u8]>) -> Result<(), MeasureError>;

    /// Runs a candidate once on a case; its results, one after the other.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if nothing can be measured at all; what becomes of the candidate otherwise
    /// is in the inner result.
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

    /// Times candidates that were verified, side by side; a timing for each.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if nothing can be measured at all; the inner result tells what went wrong
    /// with the candidates.
    fn compare(
        &mut self,
        jobs: &[&Job],
        rounds: usize,
        policy: &Policy,
    ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError>;
}

/// Runs candidates of one problem after the other in a worker.
#[derive(Debug)]
pub struct Measurer {
    pool: Pool,
    /// What each new worker is told first.
    set_up: Option<Arc<Frame<Request>>>,
    /// Whether the worker that is running was told.
    is_set_up: bool,
    /// Whether candidates are timed on a GPU.
    on_gpu: bool,
}

/// Nothing can be measured at all.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The operating system refused.
    #[error("cannot start a worker, `{path}`: {source}")]
    Start {
        /// The executable.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The process does not behave as a worker.
    #[error(
        "`{0}` is no worker; call `tvmtune_tuner::measure::worker::maybe_run()` first in its `main`"
    )]
    NoWorker(PathBuf),
    /// A worker cannot hold the arguments of a problem.
    #[error("a worker cannot prepare the arguments: {0}")]
    SetUp(String),
}

/// How long a candidate may take if nothing better is known.
const PATIENCE: Duration = Duration::from_secs(60);
/// What loading a candidate and verifying it may take, beside what it takes itself. A driver may have
/// to compile it.
const CPU_PATIENCE: Duration = Duration::from_secs(2);
const GPU_PATIENCE: Duration = Duration::from_secs(10);

impl Measurer {
    /// Measures on the CPU, in workers started like that.
    pub fn new(command: WorkerCommand) -> Self {
        let pool = Pool::new(command, 10 * PATIENCE);
        Self { pool, set_up: None, is_set_up: false, on_gpu: false }
    }

    /// Measures on the first GPU, in workers started like that, which run code for the CPU as well.
    pub fn on_gpu(command: WorkerCommand) -> Self {
        Self { on_gpu: true, ..Self::new(command) }
    }

    /// The first GPU; the inner error says why there is none.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if no worker can be started.
    pub fn gpu(&mut self) -> Result<Result<Gpu, String>, MeasureError> {
        Ok(self.ask_of_gpu(Request::Gpu)?.and_then(|it| match it {
            Response::Gpu(gpu) => Ok(gpu),
            other => Err(refusal(other).to_string()),
        }))
    }

    /// What so many copies within the memory of the GPU move, in bytes read and written a ns: what
    /// a device that slows down shows by. The inner error says why that is not known.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if no worker can be started.
    pub fn copy_gbps(&mut self, n: usize) -> Result<Result<Vec<f64>, String>, MeasureError> {
        Ok(self.ask_of_gpu(Request::Copy(n))?.and_then(|it| match it {
            Response::Copied(copied) => Ok(copied),
            other => Err(refusal(other).to_string()),
        }))
    }

    /// Asks a worker what needs no problem; an inner error says what went wrong.
    fn ask_of_gpu(&mut self, request: Request) -> Result<Result<Response, String>, MeasureError> {
        // Drivers may take long to start.
        Ok(match self.pool.ask(&Frame::new(request), PATIENCE)? {
            Answer::Response(Frame { message: Response::Failed(why), .. })
            | Answer::Crashed(why) => Err(why),
            Answer::Response(Frame { message, .. }) => Ok(message),
            Answer::TimedOut => Err("the driver does not answer".to_owned()),
        })
    }

    /// Asks a worker that is set up.
    fn ask(
        &mut self,
        request: &Frame<Request>,
        patience: Duration,
    ) -> Result<Result<Frame<Response>, Outcome>, MeasureError> {
        self.prepare()?;
        Ok(match self.pool.ask(request, patience)? {
            Answer::Response(response) => Ok(response),
            Answer::Crashed(why) => Err(Outcome::Crashed(why)),
            Answer::TimedOut => Err(Outcome::TimedOut),
        })
    }

    /// Makes sure that a worker is running and knows the problem.
    fn prepare(&mut self) -> Result<(), MeasureError> {
        if self.is_set_up && self.pool.is_running() {
            return Ok(());
        }
        let Some(set_up) = self.set_up.clone() else { return Ok(()) };
        self.is_set_up = true;
        match self.pool.ask(&set_up, 5 * PATIENCE)? {
            Answer::Response(Frame { message: Response::Done, .. }) => Ok(()),
            Answer::Response(Frame { message: Response::Failed(why), .. })
            | Answer::Crashed(why) => Err(MeasureError::SetUp(why)),
            Answer::Response(_) => Err(MeasureError::SetUp("it talked nonsense".to_owned())),
            Answer::TimedOut => Err(MeasureError::SetUp("it took too long".to_owned())),
        }
    }
}

impl Measure for Measurer {
    fn runs_code(&self) -> bool {
        true
    }

    fn set_up(&mut self, cases: &[CaseSpec], expected: Option<&[u8]>) -> Result<(), MeasureError> {
        let problem = CaseSpec::problem(cases, expected.is_some(), self.on_gpu);
        let blob = expected.unwrap_or_default().to_vec();
        self.set_up = Some(Arc::new(Frame { message: Request::SetUp(problem), blob }));
        self.is_set_up = false;
        self.prepare()
    }

    fn evaluate(
        &mut self,
        job: &Job,
        case: usize,
    ) -> Result<Result<Vec<u8>, Outcome>, MeasureError> {
        let request = Request::Run(Run::Evaluate { code: job.code.clone(), case });
        let frame = Frame { message: request, blob: job.bytes.clone() };
        Ok(self.ask(&frame, 5 * PATIENCE)?.and_then(|it| match it.message {
            Response::Results => Ok(it.blob),
            other => Err(refusal(other)),
        }))
    }

    fn measure(&mut self, job: &Job, policy: &Policy) -> Result<Outcome, MeasureError> {
        // Verification runs it on each case, in cold memory; timing runs it a few times.
        let at_least = if self.on_gpu { GPU_PATIENCE } else { CPU_PATIENCE };
        let patience = policy
            .best_ns
            .map_or(PATIENCE, |best| at_least + Duration::from_nanos((best * 100.0) as u64));
        let request = Request::Run(Run::Measure { code: job.code.clone(), policy: *policy });
        let frame = Frame { message: request, blob: job.bytes.clone() };
        let answer = self.ask(&frame, patience.min(PATIENCE))?;
        Ok(answer.map_or_else(
            |failure| failure,
            |it| match it.message {
                Response::Outcome(Outcome::Timed(timing)) => {
                    Timing::new(timing.samples_ns().to_vec())
                        .map_or_else(|| refusal(Response::Ready), Outcome::Timed)
                }
                other => refusal(other),
            },
        ))
    }

    fn compare(
        &mut self,
        jobs: &[&Job],
        rounds: usize,
        policy: &Policy,
    ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError> {
        let codes = jobs.iter().map(|it| it.code.clone()).collect();
        let request = Request::Run(Run::Compare { codes, rounds, policy: *policy });
        let blob = jobs.iter().flat_map(|it| &it.bytes).copied().collect();
        let answer = self.ask(&Frame { message: request, blob }, 10 * PATIENCE)?;
        Ok(answer.and_then(|it| match it.message {
            Response::Timings(timings) if timings.len() == jobs.len() => {
                let checked = timings.into_iter().map(|it| Timing::new(it.samples_ns().to_vec()));
                checked.collect::<Option<_>>().ok_or_else(|| refusal(Response::Ready))
            }
            other => Err(refusal(other)),
        }))
    }
}

/// What becomes of a candidate whose worker answers like that.
fn refusal(response: Response) -> Outcome {
    match response {
        Response::Failed(why) => Outcome::Invalid(why),
        Response::Outcome(outcome) => outcome,
        _ => Outcome::Crashed("it talked nonsense".to_owned()),
    }
}
