//! The worker process: started, watched, and replaced.
//!
//! A worker that crashes, hangs or talks nonsense costs the candidate that made it do so, and the
//! time to start another one with the same problem. One worker is all there is: kernels use every
//! core themselves, and two at once would time each other.

use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;
use std::{env, thread};

use tvmtune_ir::target::Target;

use super::protocol::{Frame, Request, Response};
use super::{MeasureError, Measurer, worker};

/// How long a worker may take to say that it is there.
const START: Duration = Duration::from_secs(30);
/// What a worker is given beyond the tuner's patience before it ends itself.
const GRACE: Duration = Duration::from_secs(5);

/// How to start a worker.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    program: PathBuf,
    args: Vec<OsString>,
}

/// What came of asking.
#[derive(Debug)]
pub(super) enum Answer {
    Response(Frame<Response>),
    /// It ended, or said what is no response; here is why, as far as can be told.
    Crashed(String),
    TimedOut,
}

/// The worker, if one is running, and how to start another.
#[derive(Debug)]
pub(super) struct Pool {
    command: WorkerCommand,
    running: Option<Worker>,
    /// No request may take longer.
    longest: Duration,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    requests: BufWriter<ChildStdin>,
    responses: Receiver<io::Result<Frame<Response>>>,
}

impl WorkerCommand {
    /// This executable, whose `main` calls [`worker::maybe_run`].
    ///
    /// # Errors
    ///
    /// If the system does not tell which executable this is.
    pub fn this_executable() -> io::Result<Self> {
        Ok(Self::new(env::current_exe()?))
    }

    /// Another executable whose `main` calls [`worker::maybe_run`].
    pub fn new(program: PathBuf) -> Self {
        Self { program, args: Vec::new() }
    }

    /// What measures on a device of this machine, in workers started like that.
    pub fn measurer(self, target: &Target) -> Measurer {
        match target {
            Target::Cpu(_) => Measurer::new(self),
            Target::Gpu(_) => Measurer::on_gpu(self),
        }
    }

    /// As `self`, with one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }
}

impl Pool {
    pub(super) fn new(command: WorkerCommand, longest: Duration) -> Self {
        Self { command, running: None, longest }
    }

    /// Whether a worker is there to be asked.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Asks the worker, which is started if there is none; waits so long for the answer. After any
    /// answer but a response the worker is gone.
    pub(super) fn ask(
        &mut self,
        request: &Frame<Request>,
        patience: Duration,
    ) -> Result<Answer, MeasureError> {
        let mut worker = match self.running.take() {
            Some(worker) => worker,
            None => self.start()?,
        };
        // A worker that died before it was asked fails here or below: either way it tells.
        let sent = request.write(&mut worker.requests);
        let received = match sent {
            Ok(()) => worker.responses.recv_timeout(patience.min(self.longest)),
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

    fn start(&self) -> Result<Worker, MeasureError> {
        // A program that forgets `maybe_run` would otherwise start itself for ever.
        if worker::is_worker() {
            return Err(MeasureError::NoWorker(self.command.program.clone()));
        }
        let no_start = |source| MeasureError::Start { path: self.command.program.clone(), source };
        let limit = (self.longest + GRACE).as_secs();
        let mut child = Command::new(&self.command.program)
            .args(&self.command.args)
            .env(worker::VARIABLE, limit.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(no_start)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(no_start(io::ErrorKind::BrokenPipe.into()));
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
        let mut worker = Worker { child, requests: BufWriter::new(stdin), responses };
        let listener = thread::Builder::new().name("worker".to_owned()).spawn(listen);
        let ready = listener.is_ok().then(|| worker.responses.recv_timeout(START));
        match ready {
            Some(Ok(Ok(Frame { message: Response::Ready, .. }))) => Ok(worker),
            _ => {
                worker.end();
                Err(MeasureError::NoWorker(self.command.program.clone()))
            }
        }
    }
}

impl Worker {
    /// Kills it, if it still lives, and tells how it ended.
    fn end(&mut self) -> Option<ExitStatus> {
        // One that is about to end by itself has a better story to tell.
        for _ in 0..20 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(1));
        }
        // It fails only if the child is gone already.
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

/// How a process ended, for people.
fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;

        let meaning = match status.signal() {
            Some(4) => "illegal instruction",
            Some(7 | 10) => "bus error",
            Some(8) => "arithmetic fault",
            Some(11) => "access outside of its memory",
            _ => return status.to_string(),
        };
        meaning.to_owned()
    }
    #[cfg(not(unix))]
    status.to_string()
}
