//! The loop of a worker: asks for tasks of its devices, and executes them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{Consumer, pull};
use futures_util::StreamExt as _;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time;

use super::attempt::attempt;
use super::dead::DeadLetter;
use super::error::{Doing, NatsError};
use super::open::Fleet;
use super::outcomes::Kept;
use super::presence::Presence;
use crate::execute::Machine;
use crate::outcome::TaskOutcome;
use crate::task::Task;

/// The options of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// The number of tasks of one device that run at once; they share the machine by its executor.
    pub slots: usize,
}

/// An event of a worker, for people.
#[derive(Debug)]
pub enum WorkerEvent<'a> {
    /// A task is executed.
    Began { task: &'a Task },
    /// An outcome was stored, or ignored.
    Stored { task: &'a Task, outcome: &'a TaskOutcome, kept: Kept },
    /// A task failed, and may be tried again.
    Failed { task: &'a Task, outcome: &'a TaskOutcome },
    /// A task was set aside.
    SetAside { letter: &'a DeadLetter },
    /// The server did not do something; it is asked again.
    Trouble { error: &'a NatsError },
}

/// One device of a worker.
pub(super) struct Site {
    pub(super) fleet: Fleet,
    pub(super) machine: Machine,
    pub(super) presence: Presence,
    on_event: OnEvent,
}

type OnEvent = Arc<dyn Fn(&WorkerEvent<'_>) + Send + Sync>;

/// The time for which the server keeps a request for tasks, and what is allowed for the answer.
const REQUEST: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_millis(500);
/// The pause after something that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// A task of the runtime that ends with its owner.
struct Attached(JoinHandle<()>);

/// Serves the tasks of some devices of this machine until `stop` becomes true; then gives back what runs.
///
/// Threads that execute tasks which were given back run on: the process is expected to end.
///
/// # Errors
///
/// [`NatsError`], if the queue of a device cannot be opened. A server that is lost later is waited for.
pub async fn serve(
    fleet: &Fleet,
    machines: Vec<Machine>,
    options: WorkerOptions,
    stop: watch::Receiver<bool>,
    on_event: impl Fn(&WorkerEvent<'_>) + Send + Sync + 'static,
) -> Result<(), NatsError> {
    let on_event: OnEvent = Arc::new(on_event);
    let mut devices = JoinSet::new();
    for machine in machines {
        let site = Arc::new(Site {
            fleet: fleet.clone(),
            machine,
            presence: Presence::new(fleet.client.new_inbox().replace('.', "-"), options.slots),
            on_event: on_event.clone(),
        });
        devices.spawn(serve_device(site, options, stop.clone()));
    }
    let mut result = Ok(());
    while let Some(ended) = devices.join_next().await {
        result = result.and(ended.unwrap_or(Ok(())));
    }
    result
}

async fn serve_device(
    site: Arc<Site>,
    options: WorkerOptions,
    mut stop: watch::Receiver<bool>,
) -> Result<(), NatsError> {
    let device = site.machine.device.key();
    let mut consumer = site.fleet.consumer(&device).await?;
    let shown = site.clone();
    let shown =
        tokio::spawn(async move { shown.fleet.show(&shown.presence, &shown.machine).await });
    let shown = Attached(shown);
    let slots = Arc::new(Semaphore::new(options.slots.max(1)));
    let mut attempts = JoinSet::new();
    while !*stop.borrow() {
        let next = async {
            let slot = slots.clone().acquire_owned().await.expect("nobody closes it");
            next(&consumer).await.map(|it| (slot, it))
        };
        let delivered = tokio::select! {
            delivered = next => delivered,
            _ = stop.wait_for(|it| *it) => break,
        };
        match delivered {
            Ok((slot, Some(message))) => {
                let (site, stop) = (site.clone(), stop.clone());
                attempts.spawn(async move {
                    let attempted = attempt(site.clone(), message, stop).await;
                    if let Err(error) = attempted {
                        site.trouble(&error);
                        // The same may go wrong with every task.
                        time::sleep(PAUSE).await;
                    }
                    drop(slot);
                });
            }
            Ok((_, None)) => {}
            Err(error) => {
                site.trouble(&error);
                time::sleep(PAUSE).await;
                consumer = site.fleet.consumer(&device).await.unwrap_or(consumer);
            }
        }
        while attempts.try_join_next().is_some() {}
    }
    while attempts.join_next().await.is_some() {}
    drop(shown);
    site.fleet.hide(&site.presence).await
}

/// Waits for a task for a while.
async fn next(consumer: &Consumer<pull::Config>) -> Result<Option<Message>, NatsError> {
    const DOING: &str = "ask for a task";
    let request = consumer.fetch().max_messages(1).expires(REQUEST).messages();
    let mut messages = request.await.doing(DOING)?;
    // A server that was started again knows nothing of the request.
    match time::timeout(REQUEST + ANSWER, messages.next()).await {
        Ok(Some(message)) => message.map(Some).map_err(std::io::Error::other).doing(DOING),
        Ok(None) | Err(_) => Ok(None),
    }
}

impl Site {
    /// Tells the caller of an event.
    pub(super) fn tell(&self, event: &WorkerEvent<'_>) {
        (self.on_event)(event);
    }

    fn trouble(&self, error: &NatsError) {
        self.tell(&WorkerEvent::Trouble { error });
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("presence", &self.presence).finish_non_exhaustive()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.abort();
    }
}
