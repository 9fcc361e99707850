//! One delivery of a task, at a worker.
//!
//! ```text
//! read -> outcome there? -> write down the try -> execute, under a lease -> store -> acknowledge
//! ```
//!
//! The outcome is stored before the message is acknowledged: a worker that dies between the two leaves a
//! message whose outcome is there, and the next one acknowledges it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use tokio::sync::watch;
use tokio::{task as threads, time};
use tvmtune_plan::record::Provenance;

use super::dead::{DeadLetter, shortened};
use super::error::{Doing, NatsError};
use super::job::{Begin, End};
use super::lease::Lease;
use super::outcomes::Kept;
use super::subject;
use super::worker::{Site, WorkerEvent};
use crate::execute::execute;
use crate::outcome::{Failure, FailureKind, Finding, TaskOutcome};
use crate::task::{MAX_TASK_BYTES, Task, TaskId};
use crate::wire::VERSION;

/// The pauses between attempts to store an outcome: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The attempts to store an outcome: an hour of them.
const MAX_ATTEMPTS: usize = 360;

/// A message that was delivered.
struct Delivery {
    subject: String,
    content: bytes::Bytes,
    acker: Arc<Acker>,
}

/// Executes the task of a message, and stores its outcome. Where the server is lost, the message is delivered
/// again after the lease.
pub(super) async fn attempt(
    site: Arc<Site>,
    message: Message,
    stop: watch::Receiver<bool>,
) -> Result<(), NatsError> {
    let (message, acker) = message.split();
    let subject = message.subject.to_string();
    let delivery = Delivery { subject, content: message.payload, acker: Arc::new(acker) };
    let _lease = Lease::hold(delivery.acker.clone(), site.fleet.settings.heartbeat());
    let task = match read(&site, &delivery).await? {
        Ok(task) => task,
        Err(why) => return set_aside(&site, &delivery, None, &why).await,
    };
    let id = task.id();
    if site.fleet.has_outcome(id).await? {
        return delivery.acknowledge().await;
    }
    let (name, host) = (&site.machine.worker, &site.machine.provenance.host);
    let number = match site.fleet.begin(id, name, host).await? {
        Begin::Try(number) => number,
        Begin::SetAside(why) => return set_aside(&site, &delivery, Some(&task), &why).await,
    };
    site.tell(&WorkerEvent::Began { task: &task });
    site.presence.begin(&task);
    let ended = run(&site, &task, stop.clone()).await;
    let settled = settle(&site, &delivery, (&task, number), ended, stop).await;
    site.presence.end(id);
    settled
}

/// Reads a task; returns why a message is none for this worker.
async fn read(site: &Site, delivery: &Delivery) -> Result<Result<Task, String>, NatsError> {
    let text = site.fleet.text("task", delivery.content.clone(), MAX_TASK_BYTES).await;
    let task = match text {
        Ok(text) => Task::from_json(&text),
        Err(NatsError::Wire(error)) => Err(error),
        Err(error) => return Err(error),
    };
    let task = match task {
        Ok(task) => task,
        Err(error) => return Ok(Err(error.to_string())),
    };
    // Its queue is named by its sender as well.
    Ok(match delivery.subject == subject::of_task(&task, task.id()) {
        true => Ok(task),
        false => Err("it is in the queue of another task, device or code generator".to_owned()),
    })
}

/// Executes a task on a thread; returns `None` if the worker is asked to end first.
async fn run(
    site: &Arc<Site>,
    task: &Task,
    mut stop: watch::Receiver<bool>,
) -> Option<TaskOutcome> {
    let (thread_site, thread_task, id) = (site.clone(), task.clone(), task.id());
    let outcome = threads::spawn_blocking(move || {
        let mut on_progress = |it| thread_site.presence.progress(id, it);
        execute(&thread_task, &thread_site.machine, &mut on_progress)
    });
    tokio::select! {
        outcome = outcome => Some(outcome.unwrap_or_else(|it| crashed(site, id, &it.to_string()))),
        _ = stop.wait_for(|it| *it) => None,
    }
}

/// Stores an outcome, or gives the task to others.
async fn settle(
    site: &Site,
    delivery: &Delivery,
    (task, number): (&Task, u64),
    outcome: Option<TaskOutcome>,
    stop: watch::Receiver<bool>,
) -> Result<(), NatsError> {
    let (fleet, id, pause) = (&site.fleet, task.id(), Some(site.fleet.settings.pause()));
    let Some(outcome) = outcome else {
        fleet.end(id, number, &End::GivenBack).await?;
        return delivery.give_back(None).await;
    };
    let end = match &outcome.finding {
        // Another try would end alike.
        Finding::Tuned(_)
        | Finding::Failed(Failure {
            kind: FailureKind::Impossible | FailureKind::GoodEnough,
            ..
        }) => {
            let kept = store(site, &outcome, stop).await?;
            site.presence.stored();
            site.tell(&WorkerEvent::Stored { task, outcome: &outcome, kept });
            fleet.end(id, number, &End::Done).await?;
            return delivery.acknowledge().await;
        }
        Finding::Failed(Failure { kind: FailureKind::Refused, why }) => {
            End::Refused(shortened(why))
        }
        Finding::Failed(Failure { why, .. }) => End::Failed(shortened(why)),
    };
    site.tell(&WorkerEvent::Failed { task, outcome: &outcome });
    fleet.end(id, number, &end).await?;
    let exhausted = fleet.job(id).await?.and_then(|it| it.exhausted(&fleet.settings));
    match exhausted {
        Some(why) => set_aside(site, delivery, Some(task), &why).await,
        None => delivery.give_back(pause).await,
    }
}

/// Stores an outcome, again and again while the server is lost or full: it took minutes to find. A worker that
/// is asked to end gives up, and the task is executed elsewhere.
async fn store(
    site: &Site,
    outcome: &TaskOutcome,
    mut stop: watch::Receiver<bool>,
) -> Result<Kept, NatsError> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_ATTEMPTS {
        match site.fleet.keep(outcome).await {
            Err(error) if error.is_passing() && !*stop.borrow() => {
                site.tell(&WorkerEvent::Trouble { error: &error });
            }
            other => return other,
        }
        tokio::select! {
            () = time::sleep(pause) => {}
            _ = stop.wait_for(|it| *it) => {}
        }
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
    site.fleet.keep(outcome).await
}

/// Puts a message to the dead letters, then out of its queue.
async fn set_aside(
    site: &Site,
    delivery: &Delivery,
    task: Option<&Task>,
    why: &str,
) -> Result<(), NatsError> {
    let mut letter = DeadLetter::new(&delivery.subject, &delivery.content, why);
    if let Some(task) = task {
        letter.name = Some(task.name.to_string());
        letter.tries = site.fleet.job(task.id()).await?.unwrap_or_default().tries;
    }
    site.fleet.bury(&letter, delivery.content.clone()).await?;
    site.tell(&WorkerEvent::SetAside { letter: &letter });
    delivery.acknowledge().await
}

impl Delivery {
    /// Takes the message out of its queue.
    async fn acknowledge(&self) -> Result<(), NatsError> {
        self.acker.double_ack().await.map_err(io).doing("acknowledge a task")
    }

    /// Gives the message to another worker, after a pause.
    async fn give_back(&self, pause: Option<Duration>) -> Result<(), NatsError> {
        let kind = AckKind::Nak(pause);
        self.acker.double_ack_with(kind).await.map_err(io).doing("give a task back")
    }
}

fn io(error: async_nats::Error) -> std::io::Error {
    std::io::Error::other(error)
}

/// Returns the outcome of a task whose thread panicked.
fn crashed(site: &Site, task: TaskId, why: &str) -> TaskOutcome {
    let Provenance { tool, host, .. } = site.machine.provenance.clone();
    TaskOutcome {
        version: VERSION,
        task,
        worker: site.machine.worker.clone(),
        host,
        tool,
        finding: Finding::Failed(Failure::new(FailureKind::Crashed, why)),
    }
}
