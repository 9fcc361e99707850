//! An event of a file: a launch, or something that another program wrote.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The category of the runtime's events.
const CATEGORY: &str = "tvmtune";

/// The longest time that a launch may have, in microseconds: a year. What is above is a mistake.
const MAX_US: f64 = 365.0 * 24.0 * 3600.0 * 1e6;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A launch with its time.
    Launch(Box<Launch>),
    /// A launch that became a part of a graph, and has no time.
    Captured,
    /// An event of another program.
    Other,
}

/// A launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launch {
    pub(crate) kernel: String,
    pub(crate) duration_us: f64,
    pub(crate) arguments: Arguments,
}

/// A launch, as the runtime wrote it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Arguments {
    /// The extent of each dynamic dimension.
    #[serde(default)]
    pub(crate) dims: BTreeMap<String, i64>,
    /// The range of each of them.
    pub(crate) bucket: BTreeMap<String, [i64; 2]>,
    pub(crate) isa: String,
    pub(crate) tier: String,
    /// Threads of the CPU; `None` on a device.
    pub(crate) threads: Option<u32>,
    pub(crate) artifact: String,
    pub(crate) workload: String,
    /// Its minimum work.
    pub(crate) gflop: Option<f64>,
    pub(crate) mbytes: Option<f64>,
    /// The time since its thread's former launch.
    pub(crate) idle_us: Option<f64>,
}

impl Event {
    /// Takes an event from its JSON.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong, if it is one of the runtime's and not as that writes them.
    pub(crate) fn new(mut json: Value) -> Result<Self, String> {
        if !json.is_object() {
            return Err(format!("expected an event, an object, and found {}", kind(&json)));
        }
        if json.get("cat").and_then(Value::as_str) != Some(CATEGORY) {
            return Ok(Self::Other);
        }
        let Some(kernel) = json.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return Err("a launch has no `name`".to_owned());
        };
        let wrong = |why: String| format!("the launch of `{kernel}`: {why}");
        match json.get("ph").and_then(Value::as_str) {
            Some("X") => {}
            Some("i") => return Ok(Self::Captured),
            _ => return Err(wrong("expected \"X\" or \"i\" for `ph`".to_owned())),
        }
        let duration_us = json.get("dur").and_then(Value::as_f64);
        let duration_us = duration_us.ok_or_else(|| wrong("`dur` is no number".to_owned()))?;
        let arguments = json.get_mut("args").map(Value::take).unwrap_or_default();
        let arguments: Arguments =
            serde_json::from_value(arguments).map_err(|it| wrong(format!("`args`: {it}")))?;
        let most_us = MAX_US;
        let numbers = [
            ("dur", Some(duration_us), most_us),
            ("args.idle_us", arguments.idle_us, most_us),
            ("args.gflop", arguments.gflop, f64::MAX),
            ("args.mbytes", arguments.mbytes, f64::MAX),
        ];
        for (name, value, most) in numbers {
            if let Some(value) = value
                && !(0.0..=most).contains(&value)
            {
                return Err(wrong(format!("`{name}` is {value:?}, expected 0 to {most:e}")));
            }
        }
        Ok(Self::Launch(Box::new(Launch { kernel, duration_us, arguments })))
    }
}

/// The kind of a value, for errors.
fn kind(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
