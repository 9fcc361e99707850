//! Dead letters: tasks that are set aside, with the reason and those who tried.
//!
//! The letter is the message as it was queued; its headers say why it lies here.

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use tvmtune_ir::digest::Digest;
use tvmtune_plan::printable::one_line;

use super::error::{Doing, NatsError};
use super::job::Try;
use super::open::Fleet;
use super::subject;
use crate::task::TaskId;

/// The header of a letter with its reason, as JSON.
const HEADER: &str = "Tvmtune-Letter";
/// The longest reason in bytes: headers count as a part of a message.
const MAX_REASON_BYTES: usize = 500;
/// The most tries that a letter lists.
const MAX_TRIES: usize = 10;

/// A task that was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The task; of a message that is none, the hash of its content.
    pub task: TaskId,
    /// The name of its program, if it is a task.
    pub name: Option<String>,
    /// The device in whose queue it was.
    pub device: String,
    /// The reason.
    pub why: String,
    /// The last tries.
    pub tries: Vec<Try>,
}

impl DeadLetter {
    /// Creates the letter of a message from a queue.
    pub(super) fn new(subject: &str, content: &[u8], why: &str) -> Self {
        let task = subject::task_id(subject);
        Self {
            task: task.unwrap_or_else(|| TaskId(Digest::of([content]))),
            name: None,
            device: one_line(subject::queue_of(subject).map_or("", |it| it.0)),
            why: shortened(why),
            tries: Vec::new(),
        }
    }

    fn header(&self) -> String {
        let mut letter = self.clone();
        let n_dropped = letter.tries.len().saturating_sub(MAX_TRIES);
        letter.tries.drain(..n_dropped);
        // Headers are lines of printable text.
        let text = serde_json::to_string(&letter).expect("texts are JSON");
        text.chars().map(|it| if it.is_ascii() { it } else { '?' }).collect()
    }
}

impl Fleet {
    /// Sets a message aside. Doing so twice leaves one letter.
    pub(super) async fn bury(&self, letter: &DeadLetter, content: Bytes) -> Result<(), NatsError> {
        // Without its content, if that and the reason do not fit in a message.
        let fits = content.len() <= self.part_bytes;
        let content = if fits { content } else { Bytes::new() };
        let message =
            PublishMessage::build().payload(content).header(HEADER, letter.header().as_str());
        const DOING: &str = "set a task aside";
        let sent = self.context.send_publish(subject::of_dead(letter.task), message).await;
        sent.doing(DOING)?.await.doing(DOING).map(drop)
    }

    /// Returns the dead letter of a task.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn dead_letter(&self, id: TaskId) -> Result<Option<DeadLetter>, NatsError> {
        let subject = subject::of_dead(id);
        let message = match self.dead.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => message,
            Err(it) if it.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(it) => return Err(NatsError::of("read a dead letter", &it)),
        };
        let header = message.headers.get(HEADER).map(ToString::to_string).unwrap_or_default();
        let unreadable = || DeadLetter::new(&subject, &[], "its reason cannot be read");
        let letter = serde_json::from_str(&header).unwrap_or_else(|_| unreadable());
        Ok(Some(DeadLetter { task: id, ..letter }))
    }

    /// Returns the tasks that were set aside.
    ///
    /// # Errors
    ///
    /// [`NatsError`].
    pub async fn dead_tasks(&self) -> Result<Vec<TaskId>, NatsError> {
        const DOING: &str = "list the dead letters";
        let subjects = self.dead.info_with_subjects(subject::ALL_DEAD).await.doing(DOING)?;
        let subjects: Vec<(String, usize)> = subjects.try_collect().await.doing(DOING)?;
        Ok(subjects.iter().filter_map(|it| subject::task_id(&it.0)).collect())
    }
}

/// Returns a reason as one line that fits in a header.
pub(super) fn shortened(why: &str) -> String {
    let mut why = one_line(why);
    let end = (0..=MAX_REASON_BYTES.min(why.len())).rev().find(|it| why.is_char_boundary(*it));
    why.truncate(end.unwrap_or(0));
    why
}
