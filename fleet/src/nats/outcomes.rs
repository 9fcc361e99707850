//! Outcomes on the server: one for each task, created and never replaced.

use async_nats::jetstream::kv::{self, CreateErrorKind};

use super::error::{Doing, NatsError};
use super::open::Fleet;
use crate::outcome::{MAX_OUTCOME_BYTES, TaskOutcome};
use crate::task::TaskId;

/// The fate of an outcome that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is the outcome of its task.
    First,
    /// The task has one: this one is ignored.
    Ignored,
}

impl Fleet {
    /// Stores an outcome, unless its task has one.
    ///
    /// # Errors
    ///
    /// [`NatsError`]. Storing it again is harmless, also if the first one arrived after all.
    pub async fn keep(&self, outcome: &TaskOutcome) -> Result<Kept, NatsError> {
        let message = self.put_text(outcome.to_json()).await?;
        match self.outcomes.create(outcome.task.to_string(), message).await {
            Ok(_) => Ok(Kept::First),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(Kept::Ignored),
            Err(error) => Err(NatsError::of("store an outcome", &error)),
        }
    }

    /// Returns whether a task has an outcome.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn has_outcome(&self, id: TaskId) -> Result<bool, NatsError> {
        let entry = self.outcomes.entry(id.to_string()).await.doing("look for an outcome")?;
        Ok(entry.is_some_and(|it| it.operation == kv::Operation::Put))
    }

    /// Returns the outcome of a task; `None` while there is none. Nothing in it was verified.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn outcome(&self, id: TaskId) -> Result<Option<TaskOutcome>, NatsError> {
        let found = self.outcomes.get(id.to_string()).await.doing("read an outcome")?;
        let Some(message) = found else { return Ok(None) };
        let text = self.text("outcome", message, MAX_OUTCOME_BYTES).await?;
        Ok(Some(TaskOutcome::from_json(&text)?))
    }
}
