//! Executes tasks on another machine, one after the other.
//!
//! In: a [`Task`]. Out: its outcome. A task whose worker dies is tried once more by a new one, and then counts
//! as failed, so that others go on; a connection that ends is an error.

use std::time::{Duration, Instant};

use super::error::RemoteError;
use super::message::{FromWorker, Hello, ToWorker};
use super::probe::{self, WorkerFile};
use super::shell::Shell;
use super::worker::{Ended, Worker};
use crate::execute::Progress;
use crate::outcome::{Failure, FailureKind, Finding, TaskOutcome};
use crate::task::Task;
use crate::wire::VERSION;

/// Time beyond the budget of a task, for the last candidate, the final ranking and the way back.
const GRACE: Duration = Duration::from_secs(60);

/// Workers that may die over one task.
const MAX_ATTEMPTS: usize = 2;

/// Another machine that executes tasks. When it is dropped, nothing of it is left there.
pub struct Remote {
    // Before the shell, which it needs.
    worker: Option<Worker>,
    shell: Shell,
    file: WorkerFile,
    hello: Hello,
}

impl Remote {
    /// Connects to a machine, copies the executable there, and starts it.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]: nothing was copied to a machine that can't run it.
    pub fn connect(address: &str, file: &WorkerFile) -> Result<Self, RemoteError> {
        let shell = Shell::connect(address)?;
        probe::check(&shell, file)?;
        let worker = Worker::start(&shell, file)?;
        let (hello, file) = (worker.hello.clone(), file.clone());
        Ok(Self { worker: Some(worker), shell, file, hello })
    }

    /// Returns what the machine said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Executes a task there.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] if the machine can't be reached any more, or takes longer than the task's budget and
    /// a grace.
    pub fn execute(
        &mut self,
        task: &Task,
        on_progress: &mut dyn FnMut(Progress),
    ) -> Result<TaskOutcome, RemoteError> {
        let mut died = String::new();
        for _ in 0..MAX_ATTEMPTS {
            let mut worker = match self.worker.take() {
                Some(worker) => worker,
                None => Worker::start(&self.shell, &self.file)?,
            };
            worker.send(&ToWorker::Task(Box::new(task.clone())));
            match self.wait(&mut worker, task, on_progress)? {
                Ok(outcome) => {
                    self.worker = Some(worker);
                    return Ok(outcome);
                }
                Err(why) => died = why,
            }
        }
        let why = format!("the worker died over it twice: {died}");
        Ok(TaskOutcome {
            version: VERSION,
            task: task.id(),
            worker: self.shell.address().to_owned(),
            host: self.hello.host.clone(),
            tool: self.hello.tool.clone(),
            finding: Finding::Failed(Failure::new(FailureKind::Crashed, &why)),
        })
    }

    /// Waits for the outcome of a task; the inner error says how the worker died.
    fn wait(
        &self,
        worker: &mut Worker,
        task: &Task,
        on_progress: &mut dyn FnMut(Progress),
    ) -> Result<Result<TaskOutcome, String>, RemoteError> {
        let (id, started) = (task.id(), Instant::now());
        let limit = task.budget.total().saturating_add(GRACE);
        let address = || self.shell.address().to_owned();
        loop {
            let left = limit.saturating_sub(started.elapsed());
            let received = match worker.receive(left) {
                None => {
                    let waited = started.elapsed();
                    return Err(RemoteError::Silent { address: address(), waited });
                }
                Some(Err(Ended::Process(why))) => return Ok(Err(why)),
                Some(Err(Ended::Connection(why))) => {
                    return Err(RemoteError::Lost { address: address(), why });
                }
                Some(Ok(received)) => received,
            };
            match received {
                Ok(FromWorker::Progress { task, progress }) if task == id => on_progress(progress),
                Ok(FromWorker::Outcome(outcome)) if outcome.task == id => return Ok(Ok(*outcome)),
                Ok(_) => {
                    let why = "a message about another task".to_owned();
                    return Err(RemoteError::Protocol { address: address(), why });
                }
                Err(why) => return Err(RemoteError::Protocol { address: address(), why }),
            }
        }
    }
}
