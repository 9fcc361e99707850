//! Measurement on a device of this machine, by a worker process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tvmtune_ir::target::Target;

use super::interface::{Measure, MeasureError};
use super::job::{CaseSpec, Job};
use super::pool::{Answer, Pool, WorkerCommand};
use super::protocol::{Frame, Gpu, Policy, Request, Response, Run};
use crate::device::Device;
use crate::outcome::{Outcome, Timing};

/// Runs candidates of one problem after the other in a worker process.
#[derive(Debug)]
pub struct Measurer {
    pool: Pool,
    /// The first request to each new worker.
    set_up: Option<Arc<Frame<Request>>>,
    /// Set if the running worker received it.
    is_set_up: bool,
    /// The device on which candidates are timed.
    device: Device,
}

/// The time limit of a request, unless the latency to beat sets a shorter one.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The time limit for loading and verifying a candidate, without its own latency. A driver may have to
/// compile it.
const CPU_LOAD_LIMIT: Duration = Duration::from_secs(2);
const GPU_LOAD_LIMIT: Duration = Duration::from_secs(10);

impl Measurer {
    /// Creates a measurer of the CPU, with workers started by that command.
    pub fn new(command: WorkerCommand) -> Self {
        let pool = Pool::new(command, 10 * TIME_LIMIT);
        Self { pool, set_up: None, is_set_up: false, device: Device::Cpu }
    }

    /// Creates a measurer of the first GPU; its workers run code for the CPU as well.
    pub fn on_gpu(command: WorkerCommand) -> Self {
        Self { device: Device::Gpu, ..Self::new(command) }
    }

    /// Describes the first GPU; the inner error says why there is none.
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

    /// Measures the bandwidth of `n` copies within the memory of the GPU, in bytes read and written
    /// per ns, to detect throttling. The inner error says why it can't be measured.
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

    /// Sends a request that needs no problem; the inner error is that of the worker.
    fn ask_of_gpu(&mut self, request: Request) -> Result<Result<Response, String>, MeasureError> {
        // A driver may take long to start.
        Ok(match self.pool.ask(Arc::new(Frame::new(request)), TIME_LIMIT)? {
            Answer::Response(Frame { message: Response::Failed(why), .. })
            | Answer::Crashed(why) => Err(why),
            Answer::Response(Frame { message, .. }) => Ok(message),
            Answer::TimedOut => Err("the driver does not answer".to_owned()),
        })
    }

    /// Sends a request to a worker that is set up.
    fn ask(
        &mut self,
        request: Frame<Request>,
        limit: Duration,
    ) -> Result<Result<Frame<Response>, Outcome>, MeasureError> {
        self.prepare()?;
        Ok(match self.pool.ask(Arc::new(request), limit)? {
            Answer::Response(response) => Ok(response),
            Answer::Crashed(why) => Err(Outcome::Crashed(why)),
            Answer::TimedOut => Err(Outcome::TimedOut),
        })
    }

    /// Starts a worker if none is running, and sets up the problem.
    fn prepare(&mut self) -> Result<(), MeasureError> {
        if self.is_set_up && self.pool.is_running() {
            return Ok(());
        }
        let Some(set_up) = self.set_up.clone() else { return Ok(()) };
        self.is_set_up = true;
        match self.pool.ask(set_up, 5 * TIME_LIMIT)? {
            Answer::Response(Frame { message: Response::Done, .. }) => Ok(()),
            Answer::Response(Frame { message: Response::Failed(why), .. })
            | Answer::Crashed(why) => Err(MeasureError::SetUp(why)),
            Answer::Response(_) => Err(MeasureError::SetUp("it talked nonsense".to_owned())),
            Answer::TimedOut => Err(MeasureError::SetUp("it took too long".to_owned())),
        }
    }
}

impl WorkerCommand {
    /// Creates what measures on a device of this machine, with workers started by this command.
    pub fn measurer(self, target: &Target) -> Measurer {
        match target {
            Target::Cpu(_) => Measurer::new(self),
            Target::Gpu(_) => Measurer::on_gpu(self),
        }
    }
}

impl Measure for Measurer {
    fn runs_code(&self) -> bool {
        true
    }

    fn start_time(&self) -> Duration {
        self.pool.start_time()
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.pool.set_deadline(deadline);
    }

    fn set_up(&mut self, cases: &[CaseSpec], expected: Option<&[u8]>) -> Result<(), MeasureError> {
        let problem = CaseSpec::problem(cases, expected.is_some(), self.device);
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
        Ok(self.ask(frame, 5 * TIME_LIMIT)?.and_then(|it| match it.message {
            Response::Results => Ok(it.blob),
            other => Err(refusal(other)),
        }))
    }

    fn measure(&mut self, job: &Job, policy: &Policy) -> Result<Outcome, MeasureError> {
        // Verification runs it on each case, in cold memory; timing runs it a few times.
        let at_least = match self.device {
            Device::Cpu => CPU_LOAD_LIMIT,
            Device::Gpu => GPU_LOAD_LIMIT,
        };
        let limit = policy
            .best_ns
            .map_or(TIME_LIMIT, |best| at_least + Duration::from_nanos((best * 100.0) as u64));
        let request = Request::Run(Run::Measure { code: job.code.clone(), policy: *policy });
        let frame = Frame { message: request, blob: job.bytes.clone() };
        Ok(match self.ask(frame, limit.min(TIME_LIMIT))? {
            Ok(Frame { message: Response::Outcome(Outcome::Timed(timing)), .. }) => {
                Timing::new(timing.samples_ns().to_vec())
                    .map_or_else(|| refusal(Response::Ready), Outcome::Timed)
            }
            Ok(other) => refusal(other.message),
            Err(failure) => failure,
        })
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
        let answer = self.ask(Frame { message: request, blob }, 10 * TIME_LIMIT)?;
        Ok(answer.and_then(|it| match it.message {
            Response::Timings(timings) if timings.len() == jobs.len() => {
                let checked = timings.into_iter().map(|it| Timing::new(it.samples_ns().to_vec()));
                checked.collect::<Option<_>>().ok_or_else(|| refusal(Response::Ready))
            }
            other => Err(refusal(other)),
        }))
    }
}

/// Converts an unexpected response to the outcome of the candidate.
fn refusal(response: Response) -> Outcome {
    match response {
        Response::Failed(why) => Outcome::Invalid(why),
        Response::Outcome(outcome) => outcome,
        _ => Outcome::Crashed("it talked nonsense".to_owned()),
    }
}
