//! The result of a task, as data.
//!
//! In: a task that was executed elsewhere. Out: a [`TaskOutcome`], as JSON. Next: the machine that asked
//! verifies and [accepts](crate::accept) it.
//!
//! # Invariants
//!
//! - An outcome that was read has texts and numbers within limits. Nothing of what it says about the
//!   program was checked yet.
//! - Text for people has no control characters.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tvmtune_plan::printable::{is_control, one_line};
use tvmtune_plan::read::limit;
use tvmtune_plan::record::Source;
use tvmtune_tuner::tune::TimeSpent;

use crate::task::TaskId;
use crate::wire::{self, VERSION, WireError, from_json};

/// The longest text of an outcome in bytes.
pub const MAX_OUTCOME_BYTES: usize = 64 << 20;
/// The most trials of an outcome, and the longest line of one in bytes.
const MAX_TRIALS: usize = 1_000_000;
const MAX_TRIAL_BYTES: usize = 1 << 20;
/// The longest line for people in bytes, and the longest reason of a failure.
const MAX_LINE_BYTES: usize = 512;
const MAX_REASON_BYTES: usize = 8 << 10;

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct TaskOutcome {
    /// The version of the format.
    pub version: u32,
    /// The task.
    pub task: TaskId,
    /// The worker that executed it, by a name that its owner chose.
    pub worker: String,
    /// The machine, as its operating system describes it.
    pub host: String,
    /// The tool and its version.
    pub tool: String,
    /// The result of the search, or the reason why there is none.
    pub finding: Finding,
}

/// The result of the search, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It was tuned.
    Tuned(Box<Tuned>),
    /// It was not.
    Failed(Failure),
}

/// The result of a task that was tuned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// The record, as TOML, with the bucket of the task alone.
    pub record: String,
    /// The trials of this session, as lines of a trial log.
    pub trials: Vec<String>,
    /// A summary for people.
    pub found: Found,
}

/// A summary for people of what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The latency of the default schedule.
    pub default_ns: f64,
    /// The latency of the best schedule, timed beside it.
    pub best_ns: f64,
    /// The strategy that proposed the best.
    pub source: Source,
    /// Candidates measured, in this session and in earlier ones.
    pub trials: u64,
    /// Candidates that failed in this session.
    pub failures: u64,
    /// Wall time spent, in this session and in earlier ones.
    pub seconds: f64,
    /// The time of this session, by activity.
    #[serde(with = "Times")]
    pub times: TimeSpent,
}

/// The failure of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// The reason, on one line.
    pub why: String,
}

/// The kind of a failure: it says if a repetition is worth trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The machine does not execute such tasks: another one may.
    Refused,
    /// The program cannot be tuned, anywhere.
    Impossible,
    /// The budget did not reach it, or another process held the device: a later attempt may succeed.
    Unreached,
    /// A record that came along is as fast as the task asks for: there is nothing to do.
    GoodEnough,
    /// The machine failed, or its worker crashed.
    Crashed,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TimeSpent", deny_unknown_fields)]
struct Times {
    judging: Duration,
    generating: Duration,
    measuring: Duration,
    proposing: Duration,
    comparing: Duration,
    waiting: Duration,
    total: Duration,
}

impl Failure {
    /// Creates a failure; the reason becomes one line.
    pub fn new(kind: FailureKind, why: &str) -> Self {
        let mut why = one_line(why);
        let end = (0..=MAX_REASON_BYTES.min(why.len())).rev().find(|it| why.is_char_boundary(*it));
        why.truncate(end.unwrap_or(0));
        Self { kind, why }
    }
}

impl TaskOutcome {
    /// Returns its text.
    pub fn to_json(&self) -> Vec<u8> {
        wire::to_json(self)
    }

    /// Reads an outcome.
    ///
    /// # Errors
    ///
    /// [`WireError`].
    pub fn from_json(text: &[u8]) -> Result<Self, WireError> {
        let Unchecked(outcome) = from_json("outcome", text, MAX_OUTCOME_BYTES)?;
        outcome.check().map(|()| outcome)
    }

    /// Returns the result, if it was tuned.
    pub fn tuned(&self) -> Option<&Tuned> {
        match &self.finding {
            Finding::Tuned(tuned) => Some(tuned),
            Finding::Failed(_) => None,
        }
    }

    /// Checks what types do not express.
    ///
    /// # Errors
    ///
    /// [`WireError`] names the field.
    pub fn check(&self) -> Result<(), WireError> {
        if self.version != VERSION {
            let (what, found) = ("outcome", self.version);
            return Err(match found > VERSION {
                true => WireError::Newer { what, found },
                false => invalid("version", "is of no release"),
            });
        }
        let lines = [("worker", &self.worker), ("host", &self.host), ("tool", &self.tool)];
        if let Some((field, _)) = lines.into_iter().find(|it| !is_line(it.1, MAX_LINE_BYTES)) {
            return Err(invalid(field, "is not one short line"));
        }
        match &self.finding {
            Finding::Tuned(tuned) => tuned.check(),
            Finding::Failed(failure) if is_line(&failure.why, MAX_REASON_BYTES) => Ok(()),
            Finding::Failed(_) => Err(invalid("why", "is not one short line")),
        }
    }
}

impl Tuned {
    fn check(&self) -> Result<(), WireError> {
        if self.record.len() as u64 > limit::RECORD {
            return Err(invalid("record", "is too long"));
        }
        if self.trials.len() > MAX_TRIALS {
            return Err(invalid("trials", "has more than a session can have"));
        }
        if !self.trials.iter().all(|it| it.len() <= MAX_TRIAL_BYTES && !it.contains('\n')) {
            return Err(invalid("trials", "has one that is not a line of a log"));
        }
        let Found { default_ns, best_ns, seconds, .. } = self.found;
        if ![default_ns, best_ns].iter().all(|it| it.is_finite() && *it > 0.0) {
            return Err(invalid("found", "has a latency that is not a positive number"));
        }
        match seconds.is_finite() && seconds >= 0.0 {
            true => Ok(()),
            false => Err(invalid("found", "has a time that is none")),
        }
    }
}

fn invalid(field: &'static str, why: &str) -> WireError {
    WireError::Invalid { what: "outcome", field, why: why.to_owned() }
}

fn is_line(text: &str, max_bytes: usize) -> bool {
    text.len() <= max_bytes && !text.chars().any(is_control)
}

/// An outcome whose fields have the right types, and were not checked further.
struct Unchecked(TaskOutcome);

impl<'de> Deserialize<'de> for Unchecked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TaskOutcome::deserialize(deserializer).map(Self)
    }
}

impl Serialize for TaskOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for TaskOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Unchecked(outcome) = Unchecked::deserialize(deserializer)?;
        outcome.check().map_err(D::Error::custom)?;
        Ok(outcome)
    }
}
