//! Sending tasks: each is queued once, however often it is sent.

use async_nats::jetstream::message::PublishMessage;

use super::error::{Doing, NatsError, chain};
use super::open::Fleet;
use super::subject;
use crate::task::{Task, TaskId};

/// The fate of a task that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the queue now.
    Queued,
    /// It was sent before: it waits, it runs, or it was done a moment ago.
    Known,
}

/// The server's words for a second message where one may be.
const ONE_PER_SUBJECT: &str = "maximum messages per subject";

impl Fleet {
    /// Sends a task to the workers of its device.
    ///
    /// # Errors
    ///
    /// [`NatsError`]. Sending it again is harmless, also if the first message arrived after all.
    pub async fn send(&self, task: &Task) -> Result<Sent, NatsError> {
        let id = task.id();
        let round = self.job(id).await?.map_or(0, |it| it.round);
        let text = self.put_text(task.to_json()).await?;
        let message = PublishMessage::build().payload(text).message_id(format!("{id}.{round}"));
        let sent = self.context.send_publish(subject::of_task(task, id), message);
        match sent.await.doing("send a task")?.await {
            Ok(stored) if stored.duplicate => Ok(Sent::Known),
            Ok(_) => Ok(Sent::Queued),
            Err(error) if chain(&error).contains(ONE_PER_SUBJECT) => Ok(Sent::Known),
            Err(error) => Err(NatsError::of("send a task", &error)),
        }
    }

    /// Returns whether a task waits or runs.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn is_queued(&self, task: &Task) -> Result<bool, NatsError> {
        use async_nats::jetstream::stream::LastRawMessageErrorKind::NoMessageFound;
        let subject = subject::of_task(task, task.id());
        match self.tasks.get_last_raw_message_by_subject(&subject).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == NoMessageFound => Ok(false),
            Err(error) => Err(NatsError::of("look for a task", &error)),
        }
    }

    /// Forgets what became of a task, so that it can be sent again: its dead letter, its tries, and its
    /// outcome.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn forget(&self, id: TaskId) -> Result<(), NatsError> {
        // Another round is another message for the server, which still knows the last one.
        self.change_job(id, |job| {
            job.round += 1;
            job.tries.clear();
        })
        .await?;
        self.outcomes.purge(id.to_string()).await.doing("forget an outcome")?;
        let purge = self.dead.purge().filter(subject::of_dead(id)).await;
        purge.doing("forget a dead letter").map(drop)
    }
}
