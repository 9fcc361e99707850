//! The supervisor of the worker process: starts it, enforces time limits, and replaces it.
//!
//! A worker that crashes, hangs or violates the protocol costs the candidate that it ran, and the time
//! to start another one with the same problem. There is one worker only: kernels use every core
//! themselves, and two at once would disturb each other's timings.

use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::interface::MeasureError;
use super::protocol::{Frame, Request, Response};
use super::worker;

/// The time limit for the start of a worker.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The time after the largest limit before a worker ends itself.
const GRACE: Duration = Duration::from_secs(5);
/// The least time limit of a request, also behind the deadline: final rankings go on for a moment.
const LEAST_LIMIT: Duration = Duration::from_secs(5);

/// The command line of a worker.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    program: PathBuf,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Answer {
    Response(Frame<Response>),
    /// It ended, or sent an invalid response; the text says why.
    Crashed(String),
    TimedOut,
}

/// The worker, if one is running, and the command to start another.
#[derive(Debug)]
pub(super) struct Pool {
    command: WorkerCommand,
    running: Option<Worker>,
    /// The largest time limit of all requests.
    max_limit: Duration,
    /// The end of the budget: whoever does not answer then gets little more time.
    deadline: Option<Instant>,
    /// The time that workers took to start.
    start_time: Duration,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    /// To the thread that writes them: a worker that is stopped reads nothing, and whoever writes to
    /// a full pipe waits without limit.
    requests: SyncSender<Arc<Frame<Request>>>,
    responses: Receiver<io::Result<Frame<Response>>>,
}

impl WorkerCommand {
    /// Runs this executable, whose `main` calls [`worker::maybe_run`].
    ///
    /// # Errors
    ///
    /// If the system does not tell which executable this is.
    pub fn this_executable() -> io::Result<Self> {
        Ok(Self::new(env::current_exe()?))
    }

    /// Runs another executable, whose `main` calls [`worker::maybe_run`].
    pub fn new(program: PathBuf) -> Self {
        Self { program, args: Vec::new(), variables: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }
}

impl Pool {
    pub(super) fn new(command: WorkerCommand, max_limit: Duration) -> Self {
        Self { command, running: None, max_limit, deadline: None, start_time: Duration::ZERO }
    }

    /// Sets the time by which requests are answered, or given up soon after.
    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Tells if a worker is running.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the time that workers took to start so far.
    pub(super) fn start_time(&self) -> Duration {
        self.start_time
    }

    /// Sends a request to the worker, which is started if none is running, and waits for the answer
    /// within a time limit. After any answer but a response the worker is gone.
    pub(super) fn ask(
        &mut self,
        request: Arc<Frame<Request>>,
        limit: Duration,
    ) -> Result<Answer, MeasureError> {
        let limit = self.within_deadline(limit.min(self.max_limit));
        let mut worker = match self.running.take() {
            Some(worker) => worker,
            None => {
                let clock = Instant::now();
                let worker = self.start();
                self.start_time += clock.elapsed();
                worker?
            }
        };
        // A worker that died before the request fails here or below.
        let received = match worker.requests.try_send(request) {
            Ok(()) => worker.responses.recv_timeout(limit),
            Err(_) => worker.responses.recv_timeout(Duration::from_secs(1)),
        };
        Ok(match received {
            Ok(Ok(Frame { message: Response::Lost(why), .. })) => {
                worker.end();
                Answer::Crashed(why)
            }
            Ok(Ok(response)) => {
                self.running = Some(worker);
                Answer::Response(response)
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                worker.end();
                Answer::Crashed("it talked nonsense".to_owned())
            }
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                Answer::Crashed(worker.end().map_or_else(String::new, describe))
            }
            Err(RecvTimeoutError::Timeout) => {
                worker.end();
                Answer::TimedOut
            }
        })
    }

    /// Returns the part of a time limit that is left before the deadline.
    fn within_deadline(&self, limit: Duration) -> Duration {
        let left = self.deadline.map(|it| it.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| limit.min(left.max(LEAST_LIMIT)))
    }

    /// Starts a worker, and waits until it is ready.
    fn start(&self) -> Result<Worker, MeasureError> {
        // A program whose `main` lacks `maybe_run` would otherwise start itself forever.
        if worker::is_worker() {
            return Err(MeasureError::NoWorker(self.command.program.clone()));
        }
        let no_start = |source| MeasureError::Start { path: self.command.program.clone(), source };
        let limit = (self.max_limit + GRACE).as_secs();
        let mut child = Command::new(&self.command.program)
            .args(&self.command.args)
            .envs(self.command.variables.iter().map(|(name, value)| (name, value)))
            .env(worker::VARIABLE, limit.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(no_start)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(no_start(io::ErrorKind::BrokenPipe.into()));
        };
        let (requests, to_write) = sync_channel::<Arc<Frame<Request>>>(1);
        let mut stdin = BufWriter::new(stdin);
        let write = move || {
            for request in to_write {
                if request.write(&mut stdin).is_err() {
                    return;
                }
            }
        };
        let (sender, responses) = sync_channel(1);
        let mut stdout = BufReader::new(stdout);
        let listen = move || {
            loop {
                let response = Frame::read(&mut stdout);
                let failed = response.is_err();
                if sender.send(response).is_err() || failed {
                    return;
                }
            }
        };
        let mut worker = Worker { child, requests, responses };
        let thread = || thread::Builder::new().name("worker".to_owned());
        let have_started = thread().spawn(write).is_ok() && thread().spawn(listen).is_ok();
        let limit = self.within_deadline(START_LIMIT);
        let ready = have_started.then(|| worker.responses.recv_timeout(limit));
        match ready {
            Some(Ok(Ok(Frame { message: Response::Ready, .. }))) => Ok(worker),
            _ => {
                let path = self.command.program.clone();
                Err(match worker.end().and_then(signal) {
                    Some(KILLED) | None => MeasureError::NoWorker(path),
                    Some(signal) => MeasureError::Died { path, why: meaning(signal) },
                })
            }
        }
    }
}

/// The signal by which a worker is killed that does not end by itself, or by the system when memory
/// runs out.
const KILLED: i32 = 9;

impl Worker {
    /// Kills it, if it is still running, and returns its exit status.
    fn end(&mut self) -> Option<ExitStatus> {
        // The exit status of one that is about to end by itself says more.
        for _ in 0..20 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(1));
        }
        // Fails only if the child is gone already.
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Describes an exit status for people.
fn describe(status: ExitStatus) -> String {
    signal(status).map_or_else(|| status.to_string(), meaning)
}

/// Returns the signal that ended a process.
fn signal(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    return None;
}

/// Describes a signal for people.
fn meaning(signal: i32) -> String {
    match signal {
        4 => "illegal instruction".to_owned(),
        6 => "it aborted, as it does where memory runs out".to_owned(),
        7 | 10 => "bus error".to_owned(),
        8 => "arithmetic fault".to_owned(),
        KILLED => "the system killed it, as it does where memory runs out".to_owned(),
        11 => "access outside of its memory".to_owned(),
        other => format!("signal {other}"),
    }
}
