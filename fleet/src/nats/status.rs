//! A fleet as it is now, for people: workers, queues, outcomes, dead letters.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use serde::Serialize;

use super::dead::DeadLetter;
use super::error::{Doing, NatsError};
use super::open::{Fleet, keys};
use super::presence::Worker;
use super::settings::Settings;
use super::subject;

/// A fleet as it is now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// The version of the server.
    pub server: String,
    /// The settings.
    pub settings: Settings,
    /// The queues in which there are tasks.
    pub queues: Vec<Queue>,
    /// The workers that are there, with what they execute.
    pub workers: Vec<Worker>,
    /// The number of outcomes that are kept.
    pub n_outcomes: usize,
    /// The tasks that were set aside.
    pub dead: Vec<DeadLetter>,
}

/// The tasks of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// The device, as it is spelled in subjects.
    pub device: String,
    /// The format and the code generator of the tasks.
    pub dialect: String,
    /// The number of tasks that wait or run.
    pub n_tasks: usize,
    /// The number of workers for them.
    pub n_workers: usize,
}

/// The most dead letters that are read.
const MAX_LETTERS: usize = 1000;

impl Fleet {
    /// Returns the fleet as it is now.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn status(&self) -> Result<Status, NatsError> {
        let workers = self.workers().await?;
        let mut dead = Vec::new();
        for id in self.dead_tasks().await?.into_iter().take(MAX_LETTERS) {
            dead.extend(self.dead_letter(id).await?);
        }
        dead.sort_by(|a, b| (&a.device, &a.name, a.task).cmp(&(&b.device, &b.name, b.task)));
        Ok(Status {
            server: self.client.server_info().version,
            settings: self.settings,
            queues: self.queues(&workers).await?,
            n_outcomes: keys(&self.outcomes).await?.len(),
            workers,
            dead,
        })
    }

    async fn queues(&self, workers: &[Worker]) -> Result<Vec<Queue>, NatsError> {
        const DOING: &str = "list the tasks";
        let subjects = self.tasks.info_with_subjects(subject::ALL_TASKS).await.doing(DOING)?;
        let subjects: Vec<(String, usize)> = subjects.try_collect().await.doing(DOING)?;
        let mut queues = BTreeMap::<(&str, &str), usize>::new();
        for (subject, n_tasks) in &subjects {
            if let Some(queue) = subject::queue_of(subject) {
                *queues.entry(queue).or_default() += n_tasks;
            }
        }
        let is_for = |worker: &&Worker, (device, dialect): (&str, &str)| {
            worker.device.replace(':', "_") == device && worker.dialect == dialect
        };
        let queue = |((device, dialect), n_tasks): ((&str, &str), usize)| Queue {
            device: device.to_owned(),
            dialect: dialect.to_owned(),
            n_tasks,
            n_workers: workers.iter().filter(|it| is_for(it, (device, dialect))).count(),
        };
        Ok(queues.into_iter().map(queue).collect())
    }
}
