//! The child process that runs candidates: they may hang, crash, and write anywhere.
//!
//! In: requests, on standard input. Out: responses, on standard output. It is the executable of
//! the tuner itself, started again with an environment variable set: [`maybe_run`].
//!
//! `runner.rs` verifies and times a candidate, `cpu` and `gpu` launch it.

mod cpu;
mod error;
mod lazy_gpu;
mod param;
mod runner;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(not(feature = "cuda"))]
#[path = "no_gpu.rs"]
mod gpu;

use std::collections::VecDeque;
use std::io::{self, BufReader, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use self::error::{WorkerError, invalid};
use self::lazy_gpu::LazyGpu;
use self::runner::Runner;
use super::protocol::{Frame, Problem, Request, Response};

/// Set in workers; its value is the time limit of a request in seconds.
pub(super) const VARIABLE: &str = "TVMTUNE_WORKER";

/// Runs the worker and never returns, if this process was started as one. Call it first in the
/// `main` of an executable that tunes.
pub fn maybe_run() {
    let Some(limit) = env::var_os(VARIABLE) else { return };
    let limit = limit.to_str().and_then(|it| it.parse().ok()).unwrap_or(600);
    process::exit(match run(Duration::from_secs(limit)) {
        Ok(()) => 0,
        Err(_) => 1,
    })
}

/// Tells if this process was started as a worker.
pub(super) fn is_worker() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Answers requests until the pipe is closed.
fn run(limit: Duration) -> io::Result<()> {
    let watchdog = Watchdog::start(limit);
    let mut requests = BufReader::new(io::stdin());
    let mut responses = BufWriter::new(io::stdout());
    let mut runners = Runners::default();
    Frame::new(Response::Ready).write(&mut responses)?;
    loop {
        let request = match Frame::<Request>::read(&mut requests) {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        watchdog.arm();
        // A panic is a bug of ours, or caused by the candidate.
        let answer = catch_unwind(AssertUnwindSafe(|| runners.answer(request)));
        let failed = |why: String| Frame::new(Response::Failed(why));
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(WorkerError::Failed(why))) => failed(why),
            Ok(Err(WorkerError::Lost(why))) => Frame::new(Response::Lost(why)),
            Err(_) => failed("the worker panicked".to_owned()),
        };
        watchdog.disarm();
        response.write(&mut responses)?;
        responses.flush()?;
        if matches!(response.message, Response::Lost(_)) {
            return Ok(());
        }
    }
}

/// Aborts the process if a request takes too long: the tuner, which would kill it, may be gone.
struct Watchdog {
    since: &'static Mutex<Option<Instant>>,
}

impl Watchdog {
    fn start(limit: Duration) -> Self {
        static SINCE: Mutex<Option<Instant>> = Mutex::new(None);
        let is_hung =
            move || SINCE.lock().is_ok_and(|it| it.is_some_and(|it| it.elapsed() > limit));
        // Without a watchdog, only a worker whose tuner was killed runs on.
        let _ = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(500));
                if is_hung() {
                    process::abort();
                }
            }
        });
        Self { since: &SINCE }
    }

    fn arm(&self) {
        self.set(Some(Instant::now()));
    }

    fn disarm(&self) {
        self.set(None);
    }

    fn set(&self, since: Option<Instant>) {
        if let Ok(mut it) = self.since.lock() {
            *it = since;
        }
    }
}

/// The problems of the last requests, the current one first. Tasks are interleaved, and filling large
/// arguments takes longer than timing a candidate.
#[derive(Default)]
struct Runners {
    runners: VecDeque<Runner>,
    gpu: LazyGpu,
}

/// The maximum size of the arguments of all problems but the current one, in bytes.
const CACHE_BYTES: usize = 1 << 30;

impl Runners {
    /// Executes a request.
    fn answer(&mut self, request: Frame<Request>) -> Result<Frame<Response>, WorkerError> {
        let Frame { message, blob } = request;
        match message {
            Request::Gpu => Ok(Frame::new(Response::Gpu(self.gpu.get()?.describe()))),
            Request::Copy(n) => {
                let copied = self.gpu.get()?.copy(n)?;
                Ok(Frame::new(Response::Copied(copied)))
            }
            Request::SetUp(problem) => {
                self.set_up(problem, &blob)?;
                Ok(Frame::new(Response::Done))
            }
            Request::Run(run) => {
                let runner = self.runners.front_mut();
                let runner = runner.ok_or_else(|| invalid("there is no problem"))?;
                runner.run(run, &blob, &mut self.gpu)
            }
        }
    }

    /// Makes a problem the current one.
    fn set_up(&mut self, problem: Problem, expected: &[u8]) -> Result<(), WorkerError> {
        let cached = self.runners.iter().position(|it| it.has_arguments_of(&problem));
        let cached = cached.and_then(|it| self.runners.remove(it));
        // Memory of the GPU is freed first: there may not be enough.
        self.runners.iter_mut().for_each(Runner::free_gpu);
        let mut n_bytes = 0;
        let fits = |it: &&Runner| {
            n_bytes += it.n_bytes();
            n_bytes <= CACHE_BYTES
        };
        let n_kept = self.runners.iter().take_while(fits).count();
        self.runners.truncate(n_kept);
        let mut runner = cached.unwrap_or_default();
        let gpu = if problem.on_gpu { Some(self.gpu.get()?) } else { None };
        runner.set_up(problem, expected, gpu)?;
        self.runners.push_front(runner);
        Ok(())
    }
}
