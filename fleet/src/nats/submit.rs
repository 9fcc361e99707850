//! From tasks to the user's cache: sends what is missing, and accepts outcomes as they arrive.
//!
//! Outcomes that are there are taken first, and a task that waits or runs is not sent again: a submission that
//! was interrupted goes on where it was.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::task as threads;
use tokio::time;
use tvmtune_plan::database::Database;

use super::dead::DeadLetter;
use super::error::NatsError;
use super::open::{Fleet, keys};
use super::queue::Sent;
use super::subject;
use crate::accept::{AcceptError, Accepted, accept};
use crate::outcome::{Failure, FailureKind, Finding, TaskOutcome};
use crate::task::{Task, TaskId};

/// Tasks that are sent.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The time to wait for outcomes; `None` waits as long as it takes.
    pub patience: Option<Duration>,
    /// True to send again what was set aside, failed or was refused before.
    pub retries: bool,
}

/// The fate of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// Its outcome was merged.
    Accepted(Accepted),
    /// A record that came along is as fast as the task asks for.
    GoodEnough,
    /// It cannot be tuned.
    Failed { why: String },
    /// It was set aside.
    Dead(DeadLetter),
    /// Its outcome is not believed.
    Refused { why: String },
}

/// An event of a submission, for people.
#[derive(Debug)]
pub enum SubmitEvent<'a> {
    /// A task is in the queue.
    Sent { task: &'a Task, sent: Sent },
    /// Something became of a task.
    Ended { task: &'a Task, ended: &'a Ended, outcome: Option<&'a TaskOutcome> },
    /// There is no worker for the device now; tasks wait for one.
    NoWorker { device: String, n_tasks: usize },
    /// The server did not do something; it is asked again.
    Trouble { error: &'a NatsError },
}

/// The fate of a submission.
#[derive(Clone, Debug, Default)]
pub struct Submitted {
    /// The fates of tasks.
    pub ended: BTreeMap<TaskId, Ended>,
    /// Tasks that were queued now.
    pub n_sent: usize,
    /// Tasks that still wait or run.
    pub n_open: usize,
}

/// The pauses between two looks for outcomes: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Sends tasks, waits for their outcomes, and accepts these into the cache of `database`.
///
/// # Errors
///
/// [`NatsError`], if the server does not take a task, or the cache cannot be written. A server that is lost
/// while outcomes are waited for is waited for as well.
pub async fn submit(
    fleet: &Fleet,
    submission: &Submission,
    database: &Database,
    on_event: &mut dyn FnMut(&SubmitEvent<'_>),
) -> Result<Submitted, NatsError> {
    let clock = Instant::now();
    let open = submission.tasks.iter().map(|it| (it.id(), it)).collect();
    let mut session = Session { fleet, database, open, result: Submitted::default(), on_event };
    session.look().await?;
    if submission.retries {
        session.reopen(&submission.tasks).await?;
    }
    session.send().await?;
    session.warn().await?;
    let mut pause = FIRST_PAUSE;
    let is_patient = || submission.patience.is_none_or(|it| clock.elapsed() < it);
    while !session.open.is_empty() && is_patient() {
        time::sleep(pause).await;
        pause = match session.look().await {
            Ok(0) => (pause.mul_f64(1.5)).min(LONGEST_PAUSE),
            Ok(_) => FIRST_PAUSE,
            Err(error) if error.is_passing() => {
                (session.on_event)(&SubmitEvent::Trouble { error: &error });
                LONGEST_PAUSE
            }
            Err(error) => return Err(error),
        };
    }
    session.result.n_open = session.open.len();
    Ok(session.result)
}

struct Session<'a> {
    fleet: &'a Fleet,
    database: &'a Database,
    /// Tasks of which nothing has become yet.
    open: BTreeMap<TaskId, &'a Task>,
    result: Submitted,
    on_event: &'a mut dyn FnMut(&SubmitEvent<'_>),
}

impl<'a> Session<'a> {
    /// Settles the open tasks of which something became; returns their number.
    async fn look(&mut self) -> Result<usize, NatsError> {
        let n_before = self.open.len();
        let found = keys(&self.fleet.outcomes).await?;
        for id in found.iter().filter_map(|it| subject::task_id(it)) {
            let Some(task) = self.open.get(&id).copied() else { continue };
            if let Some((ended, outcome)) = self.take(task, id).await? {
                self.end(task, id, ended, outcome.as_ref());
            }
        }
        for id in self.fleet.dead_tasks().await? {
            let Some(task) = self.open.get(&id).copied() else { continue };
            if let Some(letter) = self.fleet.dead_letter(id).await? {
                self.end(task, id, Ended::Dead(letter), None);
            }
        }
        Ok(n_before - self.open.len())
    }

    /// Takes the outcome of a task, if it is there.
    async fn take(
        &self,
        task: &Task,
        id: TaskId,
    ) -> Result<Option<(Ended, Option<TaskOutcome>)>, NatsError> {
        let outcome = match self.fleet.outcome(id).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return Ok(None),
            Err(NatsError::Wire(error)) => {
                return Ok(Some((Ended::Refused { why: error.to_string() }, None)));
            }
            Err(error) => return Err(error),
        };
        let accepted = threads::block_in_place(|| accept(task, &outcome, self.database));
        let ended = match (accepted, &outcome.finding) {
            (Err(error @ AcceptError::Refused { .. }), _) => {
                Ended::Refused { why: error.to_string() }
            }
            (Err(error), _) => return Err(error.into()),
            (Ok(_), Finding::Failed(Failure { kind: FailureKind::GoodEnough, .. })) => {
                Ended::GoodEnough
            }
            (Ok(_), Finding::Failed(failure)) => Ended::Failed { why: failure.why.clone() },
            (Ok(accepted), Finding::Tuned(_)) => Ended::Accepted(accepted),
        };
        Ok(Some((ended, Some(outcome))))
    }

    fn end(&mut self, task: &Task, id: TaskId, ended: Ended, outcome: Option<&TaskOutcome>) {
        (self.on_event)(&SubmitEvent::Ended { task, ended: &ended, outcome });
        self.open.remove(&id);
        self.result.ended.insert(id, ended);
    }

    /// Makes tasks open again that ended without a result.
    async fn reopen(&mut self, tasks: &'a [Task]) -> Result<(), NatsError> {
        for task in tasks {
            let id = task.id();
            let is_lost = |it: &Ended| !matches!(it, Ended::Accepted(_) | Ended::GoodEnough);
            if self.result.ended.get(&id).is_some_and(is_lost) {
                self.fleet.forget(id).await?;
                self.result.ended.remove(&id);
                self.open.insert(id, task);
            }
        }
        Ok(())
    }

    /// Sends the open tasks.
    async fn send(&mut self) -> Result<(), NatsError> {
        for task in self.open.values() {
            let sent = self.fleet.send(task).await?;
            self.result.n_sent += usize::from(sent == Sent::Queued);
            (self.on_event)(&SubmitEvent::Sent { task, sent });
        }
        Ok(())
    }

    /// Says for which devices there is no worker.
    async fn warn(&mut self) -> Result<(), NatsError> {
        let workers = self.fleet.workers().await?;
        let mut missing = BTreeMap::<&str, usize>::new();
        for task in self.open.values() {
            if !workers.iter().any(|it| it.device == task.device.as_str()) {
                *missing.entry(task.device.as_str()).or_default() += 1;
            }
        }
        for (device, n_tasks) in missing {
            (self.on_event)(&SubmitEvent::NoWorker { device: device.to_owned(), n_tasks });
        }
        Ok(())
    }
}
