//! The tries of a task: who began it, and how that ended.
//!
//! A try is written down before the task is executed. One without an end did not come back: its worker was
//! killed, or is out of reach.

use async_nats::jetstream::kv;
use async_nats::jetstream::kv::{CreateErrorKind, UpdateErrorKind};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tvmtune_plan::printable::one_line;

use super::error::{Doing, NatsError};
use super::open::Fleet;
use super::settings::{MAX_REFUSALS, Settings};
use crate::task::TaskId;

/// A task as the fleet knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The number of times that it was sent again after it had been set aside.
    #[serde(default)]
    pub round: u64,
    /// Its tries, the earliest first; of very many, the latest.
    #[serde(default)]
    pub tries: Vec<Try>,
}

/// A worker that began a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// Its number, from 1 on.
    pub number: u64,
    /// The name of the worker.
    pub worker: String,
    /// The host of the worker.
    pub host: String,
    /// The end; `None` if the worker has not come back.
    pub end: Option<End>,
}

/// The end of a try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The outcome is stored.
    Done,
    /// The worker was asked to end, and gave the task back.
    GivenBack,
    /// The machine does not execute such tasks.
    Refused(String),
    /// It failed.
    Failed(String),
}

/// The next step with a task that was delivered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// It is executed, as this try.
    Try(u64),
    /// It is set aside, for this reason.
    SetAside(String),
}

/// The most tries that are kept.
const MAX_KEPT: usize = 32;
/// The most conflicts with others that write down tries of the same task.
const MAX_CONFLICTS: usize = 50;

impl Job {
    /// Returns the reason for which nobody should try again.
    pub(super) fn exhausted(&self, settings: &Settings) -> Option<String> {
        let is_failed = |it: &&Try| matches!(it.end, None | Some(End::Failed(_)));
        let failed: Vec<&Try> = self.tries.iter().filter(is_failed).collect();
        if failed.len() >= settings.tries as usize {
            let last = failed.last().map_or_else(String::new, |it| it.text());
            return Some(format!("{} workers failed at it; the last one: {last}", failed.len()));
        }
        let refusals = self.tries.iter().filter(|it| matches!(it.end, Some(End::Refused(_))));
        let refusals: Vec<&Try> = refusals.collect();
        let last = refusals.last().map_or_else(String::new, |it| it.text());
        (refusals.len() >= MAX_REFUSALS).then(|| {
            format!("nobody executes it: {} refusals; the last one: {last}", refusals.len())
        })
    }

    fn begin(&mut self, worker: &str, host: &str) -> u64 {
        let number = self.tries.last().map_or(1, |it| it.number + 1);
        let (worker, host) = (one_line(worker), one_line(host));
        self.tries.push(Try { number, worker, host, end: None });
        let n_dropped = self.tries.len().saturating_sub(MAX_KEPT);
        self.tries.drain(..n_dropped);
        number
    }
}

impl Try {
    /// Returns who tried and how it ended, for people.
    pub fn text(&self) -> String {
        let how = match &self.end {
            None => "did not come back".to_owned(),
            Some(End::Done) => "stored its outcome".to_owned(),
            Some(End::GivenBack) => "gave it back".to_owned(),
            Some(End::Refused(why)) => format!("refused: {why}"),
            Some(End::Failed(why)) => format!("failed: {why}"),
        };
        format!("`{}` on `{}` {how}", self.worker, self.host)
    }
}

impl Fleet {
    /// Returns a task as the fleet knows it; `None` if nobody began it.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn job(&self, id: TaskId) -> Result<Option<Job>, NatsError> {
        Ok(entry(&self.jobs, id).await?.map(|it| it.0))
    }

    /// Writes down that a worker begins a task, unless enough have tried.
    pub(super) async fn begin(
        &self,
        id: TaskId,
        worker: &str,
        host: &str,
    ) -> Result<Begin, NatsError> {
        let change = |job: &mut Job| match job.exhausted(&self.settings) {
            Some(why) => Begin::SetAside(why),
            None => Begin::Try(job.begin(worker, host)),
        };
        self.change_job(id, change).await
    }

    /// Writes down how a try ended.
    pub(super) async fn end(&self, id: TaskId, number: u64, end: &End) -> Result<(), NatsError> {
        let change = |job: &mut Job| {
            let own = job.tries.iter_mut().find(|it| it.number == number);
            own.into_iter().for_each(|it| it.end = Some(end.clone()));
        };
        self.change_job(id, change).await
    }

    /// Changes a job, as if nobody else did at the same time.
    pub(super) async fn change_job<T>(
        &self,
        id: TaskId,
        change: impl Fn(&mut Job) -> T,
    ) -> Result<T, NatsError> {
        const DOING: &str = "write down a try";
        let mut n_conflicts = 0;
        loop {
            let found = entry(&self.jobs, id).await?;
            let (former, revision) = found.map_or((None, None), |it| (Some(it.0), Some(it.1)));
            let mut job = former.clone().unwrap_or_default();
            let result = change(&mut job);
            if former.as_ref() == Some(&job) {
                return Ok(result);
            }
            let text = Bytes::from(serde_json::to_vec(&job).expect("texts are JSON"));
            let is_conflict = match revision {
                None => match self.jobs.create(id.to_string(), text).await {
                    Ok(_) => return Ok(result),
                    Err(it) if it.kind() == CreateErrorKind::AlreadyExists => it.to_string(),
                    Err(it) => return Err(NatsError::of(DOING, &it)),
                },
                Some(revision) => match self.jobs.update(id.to_string(), text, revision).await {
                    Ok(_) => return Ok(result),
                    Err(it) if it.kind() == UpdateErrorKind::WrongLastRevision => it.to_string(),
                    Err(it) => return Err(NatsError::of(DOING, &it)),
                },
            };
            n_conflicts += 1;
            if n_conflicts == MAX_CONFLICTS {
                return Err(NatsError::Failed { doing: DOING, why: is_conflict });
            }
        }
    }
}

/// Reads a job, with its revision; one that cannot be read counts as new.
async fn entry(jobs: &kv::Store, id: TaskId) -> Result<Option<(Job, u64)>, NatsError> {
    let entry = jobs.entry(id.to_string()).await.doing("read the tries of a task")?;
    let entry = entry.filter(|it| it.operation == kv::Operation::Put);
    Ok(entry.map(|it| (serde_json::from_slice(&it.value).unwrap_or_default(), it.revision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_that_failed_count_and_those_given_back_do_not() {
        let settings = Settings::default();
        let mut job = Job::default();
        for n in 1..=40 {
            assert_eq!(job.begin("w", "h"), n);
            job.tries.last_mut().unwrap().end = Some(End::GivenBack);
        }
        assert_eq!(job.tries.len(), MAX_KEPT);
        assert_eq!(job.exhausted(&settings), None);
        job.begin("w", "h");
        job.begin("w", "h");
        assert_eq!(job.exhausted(&settings), None);
        job.begin("x", "h");
        let why = job.exhausted(&settings).unwrap();
        let expected = "3 workers failed at it; the last one: `x` on `h` did not come back";
        assert_eq!(why, expected);
        job.tries.iter_mut().for_each(|it| it.end = Some(End::Refused("no".to_owned())));
        assert!(job.exhausted(&settings).unwrap().starts_with("nobody executes it"));
    }
}
