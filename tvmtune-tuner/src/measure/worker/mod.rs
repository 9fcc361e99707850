//! The child process that runs candidates, so that they may hang, crash, and write where they
//! like.
//!
//! In: requests, on standard input. Out: responses, on standard output. It is the executable of
//! the tuner itself, started again with an environment variable set: [`maybe_run`].

mod memory;

use std::collections::VecDeque;
use std::env;
use std::io::{self, BufReader, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tvmtune_core::interp::Array;
use tvmtune_runtime::raw::{Code, Threads};

use self::memory::{Arguments, Placement};
use super::protocol::{
    CodeSpec, Frame, LaunchSpec, OutputSpec, Policy, Problem, Request, Response, Run,
};
use super::timer;
use crate::outcome::{Outcome, Timing};

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
            Ok(Err(error)) => failed(error.to_string()),
            Err(_) => failed("the worker panicked".to_owned()),
        };
        fuse.put_out();
        response.write(&mut responses)?;
        responses.flush()?;
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
struct Benches(VecDeque<Bench>);

/// Bytes of arguments that are kept for problems that may come back.
const KEPT: usize = 1 << 30;

impl Benches {
    fn answer(&mut self, request: Frame<Request>) -> io::Result<Frame<Response>> {
        let Frame { message, blob } = request;
        match message {
            Request::SetUp(problem) => {
                self.set_up(problem, &blob)?;
                Ok(Frame::new(Response::Done))
            }
            Request::Run(run) => {
                let bench = self.0.front_mut().ok_or_else(|| invalid("there is no problem"))?;
                bench.run(run, &blob)
            }
        }
    }

    fn set_up(&mut self, problem: Problem, expected: &[u8]) -> io::Result<()> {
        let known = self.0.iter().position(|it| it.has_arguments_of(&problem));
        let known = known.and_then(|it| self.0.remove(it));
        // Old memory goes first: there may not be enough.
        let mut n_bytes = 0;
        let fits = |it: &&Bench| {
            n_bytes += it.n_bytes();
            n_bytes <= KEPT
        };
        let n_kept = self.0.iter().take_while(fits).count();
        self.0.truncate(n_kept);
        let mut bench = known.unwrap_or_default();
        bench.set_up(problem, expected)?;
        self.0.push_front(bench);
        Ok(())
    }
}

/// A problem with its arguments in memory.
#[derive(Default)]
struct Bench {
    problem: Problem,
    arguments: Vec<Arguments>,
    /// For each case, for each result, its bytes.
    expected: Vec<Vec<Vec<u8>>>,
}

impl Bench {
    fn run(&mut self, run: Run, blob: &[u8]) -> io::Result<Frame<Response>> {
        Ok(match run {
            Run::Evaluate { code, case } => {
                let loaded = load(&[&code], blob)?.remove(0);
                let results = self.evaluate(&loaded, &code, case)?;
                Frame { message: Response::Results, blob: results.concat() }
            }
            Run::Measure { code, policy } => {
                let loaded = load(&[&code], blob)?.remove(0);
                Frame::new(Response::Outcome(self.measure(&loaded, &code, &policy)?))
            }
            Run::Compare { codes, rounds, policy } => {
                let loaded = load(&codes.iter().collect::<Vec<_>>(), blob)?;
                let codes: Vec<_> = loaded.iter().zip(&codes).collect();
                Frame::new(Response::Timings(self.compare(&codes, rounds, &policy)?))
            }
        })
    }

    /// Whether it has the arguments of that problem.
    fn has_arguments_of(&self, problem: &Problem) -> bool {
        let (here, there) = (&self.problem.cases, &problem.cases);
        here.len() == there.len()
            && here.iter().zip(there).all(|(here, there)| here.has_arguments_of(there))
    }

    /// How many bytes its arguments have.
    fn n_bytes(&self) -> usize {
        self.arguments.iter().map(Arguments::n_bytes).sum()
    }

    fn set_up(&mut self, problem: Problem, expected: &[u8]) -> io::Result<()> {
        self.expected.clear();
        if problem.has_expected {
            if problem.expected_bytes() != expected.len() as u64 {
                return Err(invalid("the expected results are of another size"));
            }
            let mut rest = expected;
            let mut next = |it: &OutputSpec| {
                let (bytes, others) = rest.split_at(it.bytes() as usize);
                rest = others;
                bytes.to_vec()
            };
            let cases = problem.cases.iter();
            self.expected = cases.map(|it| it.outputs.iter().map(&mut next).collect()).collect();
        }
        if self.arguments.is_empty() || !self.has_arguments_of(&problem) {
            let cases = problem.cases.iter().enumerate();
            let arguments = cases.map(|(n, case)| Arguments::new(case, n == 0));
            self.arguments = arguments.collect::<io::Result<_>>()?;
        }
        self.problem = problem;
        Ok(())
    }

    /// The results of one launch on a case, in memory where any slip is a fault.
    fn evaluate(&mut self, code: &Code, spec: &CodeSpec, case: usize) -> io::Result<Vec<Vec<u8>>> {
        let launch = launch_of(spec, case)?;
        let arguments = self.arguments.get_mut(case).ok_or_else(|| invalid("no such case"))?;
        let table = arguments.table(&launch.table, Placement::Tight)?;
        arguments.spoil_outputs();
        run_once(code, spec, launch, &table);
        Ok(arguments.outputs())
    }

    /// How the results on a case differ from the expected ones; `None` if they do not.
    fn verify(&mut self, code: &Code, spec: &CodeSpec, case: usize) -> io::Result<Option<String>> {
        let results = self.evaluate(code, spec, case)?;
        let outputs = &self.problem.cases[case].outputs;
        let expected = self.expected.get(case).ok_or_else(|| invalid("nothing is expected"))?;
        let pairs = outputs.iter().zip(results.iter().zip(expected));
        Ok(pairs.enumerate().find_map(|(n, (output, (got, want)))| {
            let mismatch = differs(output, got, want)?;
            Some(format!("case {case}, result {n}: {mismatch}"))
        }))
    }

    /// Verifies on the first case, then times, and verifies on the others what might be the best.
    fn measure(&mut self, code: &Code, spec: &CodeSpec, policy: &Policy) -> io::Result<Outcome> {
        if let Some(why) = self.verify(code, spec, 0)? {
            return Ok(Outcome::Wrong(why));
        }
        let launch = launch_of(spec, 0)?;
        let table = self.arguments[0].table(&launch.table, Placement::Aligned)?;
        let samples = timer::time(&mut || run_once(code, spec, launch, &table), policy);
        let timing = Timing::new(samples).ok_or_else(|| invalid("no sample"))?;
        // With some room: what is a little slower now may still win when timed again.
        if policy.best_ns.is_none_or(|best| timing.min_ns() < best * 1.1) {
            for case in 1..self.problem.cases.len() {
                if let Some(why) = self.verify(code, spec, case)? {
                    return Ok(Outcome::Wrong(why));
                }
            }
        }
        Ok(Outcome::Timed(timing))
    }

    /// Times codes in turn, so that a drift of the clock meets all of them alike.
    fn compare(
        &mut self,
        codes: &[(&Code, &CodeSpec)],
        rounds: usize,
        policy: &Policy,
    ) -> io::Result<Vec<Timing>> {
        let mut samples = vec![Vec::new(); codes.len()];
        let mut n_launches = vec![0; codes.len()];
        for round in 0..rounds.max(1) {
            for (n, (code, spec)) in codes.iter().enumerate() {
                let launch = launch_of(spec, 0)?;
                let table = self.arguments[0].table(&launch.table, Placement::Aligned)?;
                let mut launch = || run_once(code, spec, launch, &table);
                if round == 0 {
                    launch();
                    n_launches[n] = timer::calibrate(&mut launch, policy.min_sample_ns).0;
                } else if n_launches[n] > 1 {
                    // Others ran in between; one long launch does not mind.
                    launch();
                }
                samples[n].push(timer::sample(&mut launch, n_launches[n]));
            }
        }
        let timing = |it| Timing::new(it).ok_or_else(|| invalid("no sample"));
        samples.into_iter().map(timing).collect()
    }
}

/// The codes that a blob holds, one after the other.
fn load(specs: &[&CodeSpec], blob: &[u8]) -> io::Result<Vec<Code>> {
    let sizes = specs.iter().flat_map(|it| &it.phases);
    if sizes.sum::<usize>() != blob.len() {
        return Err(invalid("the code is of another size"));
    }
    let mut rest = blob;
    let mut next = |size: &usize| {
        let (bytes, others) = rest.split_at(*size);
        rest = others;
        bytes
    };
    let load =
        |spec: &&CodeSpec| Code::load(&spec.phases.iter().map(&mut next).collect::<Vec<_>>());
    specs.iter().map(load).collect()
}

fn launch_of(spec: &CodeSpec, case: usize) -> io::Result<&LaunchSpec> {
    let launch = spec.launches.get(case).ok_or_else(|| invalid("no launch for this case"))?;
    if launch.n_tasks.len() != spec.phases.len() {
        return Err(invalid("not a number of tasks for each phase"));
    }
    Ok(launch)
}

fn run_once(code: &Code, spec: &CodeSpec, launch: &LaunchSpec, table: &[u64]) {
    let threads = if spec.parallel { Threads::All } else { Threads::One };
    code.try_out(&launch.n_tasks, table, launch.scratch_bytes as usize, threads);
}

/// How a result differs from the expected one by more than it may; `None` if it does not.
fn differs(output: &OutputSpec, got: &[u8], want: &[u8]) -> Option<String> {
    if got == want {
        return None;
    }
    let array = |bytes| Array::from_bytes(output.dtype, &output.shape, bytes);
    let mismatch = array(got).max_error(&array(want), output.rel, output.abs)?;
    Some(mismatch.to_string())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_owned())
}
