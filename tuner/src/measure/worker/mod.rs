//! The child process that runs candidates, so that they may hang, crash, and write where they
//! like.
//!
//! In: requests, on standard input. Out: responses, on standard output. It is the executable of
//! the tuner itself, started again with an environment variable set: [`maybe_run`].
//!
//! Read `bench.rs` for what happens to a candidate, `cpu` and `gpu` for how it is launched there.

mod bench;
mod cpu;
mod param;
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

use self::bench::Bench;
use self::gpu::Gpu;
use super::protocol::{Frame, Problem, Request, Response};

/// Why something was not done.
#[derive(Debug)]
enum Trouble {
    /// It can't be: the next thing may be.
    Failed(String),
    /// The GPU does not work any more in this process.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "there is none to lose"))]
    Lost(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Failed(error.to_string())
    }
}

/// Set in workers; its value is the number of seconds after which a request has hung.
pub(super) const VARIABLE: &str = "TVMTUNE_WORKER";

/// Becomes a worker and never returns, if this process was started as one. Call it first in the
/// `main` of an executable that tunes.
pub fn maybe_run() {
    let Some(limit) = env::var_os(VARIABLE) else { return };
    let limit = limit.to_str().and_then(|it| it.parse().ok()).unwrap_or(600);
    process::exit(match run(Duration::from_secs(limit)) {
        Ok(()) => 0,
        Err(_) => 1,
    })
}

/// Whether this process was started as a worker.
pub(super) fn is_worker() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Answers requests until there are no more.
fn run(limit: Duration) -> io::Result<()> {
    let fuse = Fuse::start(limit);
    let mut requests = BufReader::new(io::stdin());
    let mut responses = BufWriter::new(io::stdout());
    let mut benches = Benches::default();
    Frame::new(Response::Ready).write(&mut responses)?;
    loop {
        let request = match Frame::<Request>::read(&mut requests) {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        fuse.light();
        // A panic is a bug of ours, or the doing of the code that was tried.
        let answer = catch_unwind(AssertUnwindSafe(|| benches.answer(request)));
        let failed = |why: String| Frame::new(Response::Failed(why));
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(Trouble::Failed(why))) => failed(why),
            Ok(Err(Trouble::Lost(why))) => Frame::new(Response::Lost(why)),
            Err(_) => failed("the worker panicked".to_owned()),
        };
        fuse.put_out();
        response.write(&mut responses)?;
        responses.flush()?;
        if matches!(response.message, Response::Lost(_)) {
            return Ok(());
        }
    }
}

/// Ends the process if a request takes too long: the tuner may be gone, and nobody else would.
struct Fuse {
    since: &'static Mutex<Option<Instant>>,
}

impl Fuse {
    fn start(limit: Duration) -> Self {
        static SINCE: Mutex<Option<Instant>> = Mutex::new(None);
        let is_hung =
            move || SINCE.lock().is_ok_and(|it| it.is_some_and(|it| it.elapsed() > limit));
        // A fuse that cannot be had is missed only where the tuner itself is killed.
        let _ = thread::Builder::new().name("fuse".to_owned()).spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(500));
                if is_hung() {
                    process::abort();
                }
            }
        });
        Self { since: &SINCE }
    }

    fn light(&self) {
        self.set(Some(Instant::now()));
    }

    fn put_out(&self) {
        self.set(None);
    }

    fn set(&self, since: Option<Instant>) {
        if let Ok(mut it) = self.since.lock() {
            *it = since;
        }
    }
}

/// The problems that this worker was told of last, the current one first. Tasks take turns, and
/// filling large arguments takes longer than timing a candidate.
#[derive(Default)]
struct Benches {
    benches: VecDeque<Bench>,
    /// The GPU, once it was asked for.
    gpu: Option<Gpu>,
}

/// Bytes of arguments that are kept for problems that may come back.
const KEPT: usize = 1 << 30;

impl Benches {
    fn answer(&mut self, request: Frame<Request>) -> Result<Frame<Response>, Trouble> {
        let Frame { message, blob } = request;
        match message {
            Request::Gpu => Ok(Frame::new(Response::Gpu(opened(&mut self.gpu)?.describe()))),
            Request::Copy(n) => {
                let copied = opened(&mut self.gpu)?.copy(n)?;
                Ok(Frame::new(Response::Copied(copied)))
            }
            Request::SetUp(problem) => {
                self.set_up(problem, &blob)?;
                Ok(Frame::new(Response::Done))
            }
            Request::Run(run) => {
                let bench = self.benches.front_mut();
                let bench = bench.ok_or_else(|| invalid("there is no problem"))?;
                bench.run(run, &blob, &mut self.gpu)
            }
        }
    }

    fn set_up(&mut self, problem: Problem, expected: &[u8]) -> Result<(), Trouble> {
        let known = self.benches.iter().position(|it| it.has_arguments_of(&problem));
        let known = known.and_then(|it| self.benches.remove(it));
        // Old memory goes first: there may not be enough.
        self.benches.iter_mut().for_each(Bench::leave_gpu);
        let mut n_bytes = 0;
        let fits = |it: &&Bench| {
            n_bytes += it.n_bytes();
            n_bytes <= KEPT
        };
        let n_kept = self.benches.iter().take_while(fits).count();
        self.benches.truncate(n_kept);
        let mut bench = known.unwrap_or_default();
        let gpu = if problem.on_gpu { Some(opened(&mut self.gpu)?) } else { None };
        bench.set_up(problem, expected, gpu)?;
        self.benches.push_front(bench);
        Ok(())
    }
}

/// The GPU, opened now if it was not before.
fn opened(gpu: &mut Option<Gpu>) -> Result<&Gpu, Trouble> {
    Ok(match gpu {
        Some(gpu) => gpu,
        None => gpu.insert(Gpu::open()?),
    })
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_owned())
}
