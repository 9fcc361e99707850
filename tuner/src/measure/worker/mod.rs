//! The child process that runs candidates: they may hang, crash, and write anywhere.
//!
//! In: requests, on standard input. Out: responses, on standard output. It is the executable of
//! the tuner itself, started again with an environment variable set: [`maybe_run`].
//!
//! `runner.rs` verifies and times a candidate, `cpu` and `gpu` launch it.

mod cpu;
mod floats;
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use self::gpu::Gpu;
use self::runner::Runner;
use super::protocol::{Frame, Problem, Request, Response};

/// Set in workers; its value is the time limit of a request in seconds.
pub(super) const VARIABLE: &str = "TVMTUNE_WORKER";

/// The reason why a request failed.
#[derive(Debug)]
enum WorkerError {
    /// The request failed; later ones may succeed.
    Failed(String),
    /// The GPU context of this process is broken.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "there is no context to break"))]
    Lost(String),
}

impl From<io::Error> for WorkerError {
    fn from(error: io::Error) -> Self {
        WorkerError::Failed(error.to_string())
    }
}

/// Creates the error of an invalid request.
fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned())
}

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
    start_watchdog(limit);
    let requests = listen()?;
    let mut responses = BufWriter::new(io::stdout());
    let mut runners = Runners::default();
    Frame::new(Response::Ready).write(&mut responses)?;
    loop {
        let Ok(request) = requests.recv() else { return Ok(()) };
        let request = request?;
        set_arrived(Some(Instant::now()));
        // A panic is a bug of ours, or caused by the candidate.
        let answer = catch_unwind(AssertUnwindSafe(|| runners.answer(request)));
        let failed = |why: String| Frame::new(Response::Failed(why));
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(WorkerError::Failed(why))) => failed(why),
            Ok(Err(WorkerError::Lost(why))) => Frame::new(Response::Lost(why)),
            Err(_) => failed("the worker panicked".to_owned()),
        };
        set_arrived(None);
        response.write(&mut responses)?;
        responses.flush()?;
        if matches!(response.message, Response::Lost(_)) {
            return Ok(());
        }
    }
}

/// Receives requests on a thread of its own: a candidate may never end, and the process ends once the
/// tuner is gone.
fn listen() -> io::Result<Receiver<io::Result<Frame<Request>>>> {
    let (sender, requests) = sync_channel(1);
    let listen = move || {
        let mut stdin = BufReader::new(io::stdin());
        loop {
            let request = Frame::read(&mut stdin);
            let is_gone =
                request.as_ref().is_err_and(|it| it.kind() == io::ErrorKind::UnexpectedEof);
            if is_gone {
                TUNER_IS_GONE.store(true, Ordering::Relaxed);
                process::exit(0);
            }
            let failed = request.is_err();
            if sender.send(request).is_err() || failed {
                return;
            }
        }
    };
    thread::Builder::new().name("requests".to_owned()).spawn(listen)?;
    Ok(requests)
}

/// Set once there is no tuner that waits for an answer.
static TUNER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// The time when the present request arrived.
static ARRIVED: Mutex<Option<Instant>> = Mutex::new(None);

fn set_arrived(arrived: Option<Instant>) {
    if let Ok(mut it) = ARRIVED.lock() {
        *it = arrived;
    }
}

/// Aborts the process if a request takes too long, or if it does not end after its tuner: a driver may
/// wait for a kernel that never ends.
fn start_watchdog(limit: Duration) {
    let is_hung = move || {
        TUNER_IS_GONE.load(Ordering::Relaxed)
            || ARRIVED.lock().is_ok_and(|it| it.is_some_and(|it| it.elapsed() > limit))
    };
    // Without a watchdog, only a worker that hangs after its tuner was killed runs on.
    let _ = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
        loop {
            thread::sleep(Duration::from_millis(500));
            if is_hung() {
                process::abort();
            }
        }
    });
}

/// The first GPU, once it was opened.
#[derive(Default)]
struct LazyGpu(Option<Gpu>);

impl LazyGpu {
    /// Returns the GPU; opens it first if necessary.
    fn get(&mut self) -> Result<&Gpu, WorkerError> {
        Ok(match &mut self.0 {
            Some(gpu) => gpu,
            none => none.insert(Gpu::open()?),
        })
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
        self.runners.iter_mut().for_each(Runner::free_copies);
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
