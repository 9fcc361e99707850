//! The messages between a worker and the machine that asks: JSON, each behind its length.
//!
//! In: a pipe. Out: messages. A shell may print something of its own first, so the worker begins with a line
//! that nothing else prints.
//!
//! # Invariant
//!
//! - A message that was read is no longer than its limit, and what is in it was checked.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::record::GENERATOR;

use crate::execute::Progress;
use crate::outcome::{MAX_OUTCOME_BYTES, TaskOutcome};
use crate::task::{Task, TaskId};
use crate::wire::{VERSION, WireError, from_json, to_json};

/// The first line of a worker.
const FIRST_LINE: &str = "tvmtune worker 1\n";

/// The most that a shell may print before, in bytes.
const MAX_NOISE_BYTES: u64 = 1 << 20;

/// The longest message in bytes: an outcome, with what is around it.
const MAX_MESSAGE_BYTES: usize = MAX_OUTCOME_BYTES + 1024;

/// A message to the worker; the end of the pipe tells it to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    /// Execute it.
    Task(Box<Task>),
}

/// A message of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromWorker {
    /// The first message of the worker: its tool, host and devices.
    Hello(Hello),
    /// The progress of the task that it executes.
    Progress {
        /// The task.
        task: TaskId,
        /// Its progress.
        progress: Progress,
    },
    /// The outcome of a task.
    Outcome(Box<TaskOutcome>),
}

/// A worker's description of itself, and of the devices that it can measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the formats.
    pub version: u32,
    /// The tool and its version.
    pub tool: String,
    /// The version of the code generator.
    pub generator: u32,
    /// The machine, as its operating system describes it.
    pub host: String,
    /// The key of its CPU; `None` if no code is generated for it.
    pub cpu: Option<DeviceKey>,
    /// The key of its GPU, if that was asked for.
    pub gpu: Option<DeviceKey>,
    /// The reason why there is none, if it was asked for.
    pub no_gpu: Option<String>,
}

impl Hello {
    /// Checks that the worker speaks of the same formats and code.
    pub(super) fn check(&self) -> Result<(), WireError> {
        let what = "worker";
        if self.version != VERSION {
            return Err(WireError::Newer { what, found: self.version });
        }
        match self.generator == GENERATOR {
            true => Ok(()),
            false => Err(WireError::Generator { what, found: self.generator }),
        }
    }
}

/// Writes the line by which a worker begins.
pub(super) fn begin(output: &mut impl Write) -> io::Result<()> {
    // A login shell may have printed text that does not end its line.
    output.write_all(format!("\n{FIRST_LINE}").as_bytes())?;
    output.flush()
}

/// Reads up to the first message of a worker; returns whether it began.
pub(super) fn find_begin(input: &mut impl BufRead) -> io::Result<bool> {
    let mut input = input.take(MAX_NOISE_BYTES);
    let mut line = Vec::new();
    while line != FIRST_LINE.as_bytes() {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes a message.
pub(super) fn write(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let text = to_json(message);
    let n_bytes = u32::try_from(text.len()).map_err(io::Error::other)?;
    output.write_all(&n_bytes.to_le_bytes())?;
    output.write_all(&text)?;
    output.flush()
}

/// Reads a message; `None` at the end of the pipe.
pub(super) fn read<T: for<'de> Deserialize<'de>>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut n_bytes = [0; 4];
    match input.read_exact(&mut n_bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let n_bytes = u32::from_le_bytes(n_bytes) as usize;
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if n_bytes > MAX_MESSAGE_BYTES {
        return Err(invalid(format!("a message of {n_bytes} bytes")));
    }
    let mut text = Vec::new();
    if input.take(n_bytes as u64).read_to_end(&mut text)? < n_bytes {
        return Ok(None);
    }
    let message = from_json("message", &text, MAX_MESSAGE_BYTES);
    message.map(Some).map_err(|it| invalid(it.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            version: VERSION,
            tool: "tvmtune 0.1.0".to_owned(),
            generator: GENERATOR,
            host: "a host".to_owned(),
            cpu: None,
            gpu: None,
            no_gpu: None,
        }
    }

    #[test]
    fn messages_come_back_after_what_a_shell_printed() {
        let mut pipe = b"Welcome!\nlast login: tvmtune worker 1\n$ ".to_vec();
        begin(&mut pipe).unwrap();
        let message = FromWorker::Hello(hello());
        write(&mut pipe, &message).unwrap();
        let mut input = pipe.as_slice();
        assert!(find_begin(&mut input).unwrap());
        assert_eq!(read(&mut input).unwrap(), Some(message));
        assert_eq!(read::<FromWorker>(&mut input).unwrap(), None);
        assert!(!find_begin(&mut b"command not found\n".as_slice()).unwrap());
    }

    #[test]
    fn messages_that_are_none_are_errors_and_cut_ones_the_end() {
        let read = |bytes: &[u8]| read::<FromWorker>(&mut &*bytes);
        assert!(read(&[1, 0, 0]).unwrap().is_none());
        assert!(read(&[9, 0, 0, 0, b'{']).unwrap().is_none());
        assert!(read(&[0xff; 8]).unwrap_err().to_string().contains("bytes"));
        assert!(read(&[2, 0, 0, 0, b'{', b'}']).is_err());
    }

    #[test]
    fn a_worker_of_another_release_is_refused() {
        assert_eq!(hello().check(), Ok(()));
        let newer = Hello { version: 9, ..hello() }.check().unwrap_err().to_string();
        assert!(newer.contains("the worker has format 9"), "{newer}");
        let other = Hello { generator: 1, ..hello() }.check().unwrap_err().to_string();
        assert!(other.contains("of code generator 1"), "{other}");
    }
}
