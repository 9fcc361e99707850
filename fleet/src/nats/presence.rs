//! Workers that are there: each renews an entry, which vanishes with it.
//!
//! Times are those that the worker's own clock measured from one moment to another, so clocks that differ by
//! hours show nothing wrong.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::time;
use tvmtune_plan::printable::one_line;

use super::error::{Doing, NatsError};
use super::open::{Fleet, keys};
use super::subject;
use crate::execute::{Machine, Progress};
use crate::task::{Task, TaskId};

/// A worker, as the others see it: one device of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its identity.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// Its machine, as the operating system describes it.
    pub host: String,
    /// Its device.
    pub device: String,
    /// The format and the code generator that it speaks.
    pub dialect: String,
    /// The number of tasks that it executes at once.
    pub slots: usize,
    /// The tasks that it executes.
    pub running: Vec<Running>,
    /// The number of tasks whose outcomes it stored.
    pub n_done: u64,
    /// The share of its time in which the device was measured.
    pub device_use: f64,
    /// The time since it began to serve, in seconds.
    pub seconds: f64,
}

/// A task that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// The task.
    pub task: TaskId,
    /// The name of its program.
    pub name: String,
    /// The time that it has run, in seconds.
    pub seconds: f64,
    /// Its last progress.
    pub progress: Option<Progress>,
}

/// A worker as it sees itself.
#[derive(Debug)]
pub(super) struct Presence {
    id: String,
    slots: usize,
    started: Instant,
    n_done: AtomicU64,
    running: Mutex<Vec<(Instant, Running)>>,
}

impl Presence {
    pub(super) fn new(id: String, slots: usize) -> Self {
        Self {
            id,
            slots,
            started: Instant::now(),
            n_done: AtomicU64::new(0),
            running: Mutex::default(),
        }
    }

    pub(super) fn begin(&self, task: &Task) {
        let (task, name) = (task.id(), task.name.to_string());
        let running = Running { task, name, seconds: 0.0, progress: None };
        self.lock().push((Instant::now(), running));
    }

    pub(super) fn progress(&self, task: TaskId, progress: Progress) {
        let mut running = self.lock();
        let own = running.iter_mut().find(|it| it.1.task == task);
        own.into_iter().for_each(|it| it.1.progress = Some(progress.clone()));
    }

    pub(super) fn end(&self, task: TaskId) {
        self.lock().retain(|it| it.1.task != task);
    }

    pub(super) fn stored(&self) {
        self.n_done.fetch_add(1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Running)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker(&self, machine: &Machine) -> Worker {
        let elapsed = |(since, it): &(Instant, Running)| Running {
            seconds: since.elapsed().as_secs_f64(),
            ..it.clone()
        };
        Worker {
            id: self.id.clone(),
            name: machine.worker.clone(),
            host: machine.provenance.host.clone(),
            device: machine.device.key().to_string(),
            dialect: subject::dialect(),
            slots: self.slots,
            running: self.lock().iter().map(elapsed).collect(),
            n_done: self.n_done.load(Ordering::Relaxed),
            device_use: machine.executor.timeline().device_use(),
            seconds: self.started.elapsed().as_secs_f64(),
        }
    }
}

impl Fleet {
    /// Shows a worker to the others, for as long as this is awaited.
    pub(super) async fn show(&self, presence: &Presence, machine: &Machine) {
        loop {
            let text = serde_json::to_vec(&presence.worker(machine)).expect("texts are JSON");
            // An entry that was not renewed is followed by the next one.
            let _ = self.workers.put(presence.id.as_str(), text.into()).await;
            time::sleep(self.settings.heartbeat()).await;
        }
    }

    /// Shows a worker no more.
    pub(super) async fn hide(&self, presence: &Presence) -> Result<(), NatsError> {
        self.workers.purge(presence.id.as_str()).await.doing("leave the fleet")
    }

    /// Returns the workers that are there.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn workers(&self) -> Result<Vec<Worker>, NatsError> {
        let mut workers = Vec::new();
        for key in keys(&self.workers).await? {
            let text = self.workers.get(key).await.doing("read the workers")?;
            let worker = text.and_then(|it| serde_json::from_slice::<Worker>(&it).ok());
            workers.extend(worker.map(printable));
        }
        workers.sort_by(|a, b| (&a.device, &a.name, &a.id).cmp(&(&b.device, &b.name, &b.id)));
        Ok(workers)
    }
}

/// Returns a worker without what would control a terminal.
fn printable(worker: Worker) -> Worker {
    let running = |it: Running| Running { name: one_line(&it.name), ..it };
    Worker {
        id: one_line(&worker.id),
        name: one_line(&worker.name),
        host: one_line(&worker.host),
        device: one_line(&worker.device),
        dialect: one_line(&worker.dialect),
        running: worker.running.into_iter().map(running).collect(),
        ..worker
    }
}
