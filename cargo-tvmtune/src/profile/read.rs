//! Files in Chrome's trace event format: a list of events, or an object with one.
//!
//! An application may have ended at any moment. So the bracket that ends the list may be missing, and
//! the last event may be cut off: all before it count. Anything else that is wrong is an error with the
//! line where it stands.

use serde::Deserialize;
use serde_json::{Deserializer, Value};

use super::event::{Event, Launch};

/// The launches of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Profile {
    pub(crate) launches: Vec<Launch>,
    /// Launches that became parts of graphs, without times.
    pub(crate) n_captured: usize,
    /// Events of other programs.
    pub(crate) n_others: usize,
    /// The last event is not there to its end.
    pub(crate) is_cut_off: bool,
}

/// The other form of the format: what is beside the list is about the display.
#[derive(Deserialize)]
struct Whole {
    #[serde(rename = "traceEvents")]
    events: Vec<Value>,
}

impl Profile {
    /// Reads the content of a file.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong, and in which line.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let (text, is_cut_off) = match str::from_utf8(bytes) {
            Ok(text) => (text, false),
            // A character is cut off.
            Err(error) if error.error_len().is_none() => {
                (str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(), true)
            }
            Err(error) => {
                return Err(format!("byte {} is no part of a UTF-8 text", error.valid_up_to()));
            }
        };
        let mut profile = Self { is_cut_off, ..Self::default() };
        let start = text.trim_start();
        match start.bytes().next() {
            None => return Err("the file is empty: no launch was traced".to_owned()),
            Some(b'[') => profile.add_list(text, text.len() - start.len() + 1)?,
            Some(b'{') => {
                let whole: Whole = serde_json::from_str(text)
                    .map_err(|it| format!("no trace in the form of an object: {it}"))?;
                for (n, event) in whole.events.into_iter().enumerate() {
                    profile.add(event).map_err(|it| format!("event {}: {it}", n + 1))?;
                }
            }
            Some(_) => {
                return Err(
                    "no trace: expected a list of events, `[`, or an object, `{`".to_owned()
                );
            }
        }
        Ok(profile)
    }

    /// Adds the events of a list, which begin at `at`.
    fn add_list(&mut self, text: &str, mut at: usize) -> Result<(), String> {
        let blank = |at: usize| text[at..].len() - text[at..].trim_start().len();
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        loop {
            at += blank(at);
            if text[at..].is_empty() {
                return Ok(());
            }
            if text[at..].starts_with(']') {
                at += 1;
                at += blank(at);
                return match text[at..].is_empty() {
                    true => Ok(()),
                    false => Err(format!("line {}: text after the end of the list", line(at))),
                };
            }
            let mut values = Deserializer::from_str(&text[at..]).into_iter::<Value>();
            match values.next() {
                Some(Ok(event)) => {
                    self.add(event).map_err(|it| format!("line {}: {it}", line(at)))?;
                    at += values.byte_offset();
                }
                Some(Err(error)) if !error.is_eof() => {
                    let line = line(at) + error.line() - 1;
                    return Err(format!("line {line}: {}", without_place(&error)));
                }
                Some(Err(_)) | None => {
                    self.is_cut_off = true;
                    return Ok(());
                }
            }
            at += blank(at);
            match text[at..].bytes().next() {
                Some(b',') => at += 1,
                Some(b']') | None => {}
                Some(_) => return Err(format!("line {}: expected `,` or `]`", line(at))),
            }
        }
    }

    /// Adds an event.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong with it.
    pub(super) fn add(&mut self, event: Value) -> Result<(), String> {
        match Event::new(event)? {
            Event::Launch(launch) => self.launches.push(*launch),
            Event::Captured => self.n_captured += 1,
            Event::Other => self.n_others += 1,
        }
        Ok(())
    }
}

/// Formats an error without its place, which is that in a part of the file.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
