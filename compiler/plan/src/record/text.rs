//! Records as TOML text.

use serde::{Deserialize, Serialize};
use toml::ser::ValueSerializer;

use super::{Bucket, Entry, Record, SCHEMA, ranges};

/// Text that is not a record this build can use. Callers name the file, and treat it as a miss.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// Written by a newer version of the format, with that schema.
    #[error("its schema is {found}, this version of tvmtune reads up to {SCHEMA}; update tvmtune")]
    Newer { found: u32 },
    /// Not TOML, or fields are missing, unknown or of the wrong type.
    #[error("{0}; delete the file, or restore it, and tune again")]
    Malformed(String),
    /// Well-formed, but it cannot be true.
    #[error("{0}; delete the file, or restore it, and tune again")]
    Invalid(&'static str),
}

/// The part of every file by which newer ones are told from damaged ones.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

impl Record {
    /// The record as text; equal records give equal text.
    ///
    /// A change of it is read by people: the numbers of a schedule are one line, and stand before what
    /// makes it.
    pub fn to_toml(&self) -> String {
        let Self { schema, name, workload, device, generator, provenance, dag, buckets, .. } = self;
        let mut text = format!(
            "schema = {schema}\nname = {}\nworkload = {}\ndevice = {}\ngenerator = {generator}\n\
             provenance = {}\ndag = {}\n",
            inline(name),
            inline(workload),
            inline(device),
            inline(provenance),
            lines(dag),
        );
        buckets.iter().for_each(|it| it.print(&mut text));
        text + "\n[end]\n"
    }

    /// The record in a text.
    ///
    /// # Errors
    ///
    /// See [`RecordError`].
    pub fn from_toml(text: &str) -> Result<Self, RecordError> {
        let malformed = |it: toml::de::Error| {
            let line = it.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            RecordError::Malformed(format!("line {line}: {}", it.message()))
        };
        // Most files are records: what is wrong with one is found out where there is something.
        match toml::from_str::<Record>(text) {
            Ok(record) if record.schema <= SCHEMA => {
                record.check().map_err(RecordError::Invalid)?;
                Ok(record)
            }
            parsed => {
                let Version { schema } = toml::from_str(text).map_err(malformed)?;
                if schema > SCHEMA {
                    return Err(RecordError::Newer { found: schema });
                }
                parsed.map_err(malformed)
            }
        }
    }
}

impl Bucket {
    fn print(&self, text: &mut String) {
        let Self { dims, trials, seconds, complete, weight, schedules } = self;
        let dims: Vec<String> = dims.iter().map(ranges::text).collect();
        *text += &format!("\n[[bucket]]\ndims = {}\n", inline(&dims));
        *text += &format!("trials = {trials}\nseconds = {}\n", inline(seconds));
        if *complete {
            text.push_str("complete = true\n");
        }
        if let Some(weight) = weight {
            *text += &format!("weight = {}\n", inline(weight));
        }
        schedules.iter().for_each(|it| it.print(text));
    }
}

impl Entry {
    fn print(&self, text: &mut String) {
        let Self { platform, artifact, measured_code, source, trace, .. } = self;
        let Self { measured, accuracy, lineage, images, .. } = self;
        *text += &format!("\n[[bucket.schedule]]\nisa = {}\n", inline(&platform.to_string()));
        *text += &format!("source = {}\n", inline(source));
        if let Some(measured) = measured {
            *text += &format!("measured = {}\n", inline(measured));
        }
        if let Some(accuracy) = accuracy {
            *text += &format!("accuracy = {}\n", inline(accuracy));
        }
        *text += &list("trace", trace);
        *text += &format!("artifact = {}\n", inline(artifact));
        if let Some(code) = measured_code {
            *text += &format!("measured_code = {}\n", inline(code));
        }
        if !lineage.is_empty() {
            *text += &list("lineage", lineage);
        }
        if !images.is_empty() {
            *text += &list("image", images);
        }
    }
}

/// Formats a value on one line.
fn inline(value: &impl Serialize) -> String {
    let mut text = String::new();
    value
        .serialize(ValueSerializer::new(&mut text))
        .expect("a record has string keys and finite numbers only");
    text
}

/// Formats an array with one element a line.
fn list(name: &str, values: &[impl Serialize]) -> String {
    if values.is_empty() {
        return format!("{name} = []\n");
    }
    let lines: String = values.iter().map(|it| format!("    {},\n", inline(it))).collect();
    format!("{name} = [\n{lines}]\n")
}

/// Formats a text of several lines as it reads, unless that takes escapes.
fn lines(value: &str) -> String {
    let is_plain = |it: char| it == '\n' || !it.is_control() && !['"', '\\'].contains(&it);
    if value.contains('\n') && value.chars().all(is_plain) {
        format!("\"\"\"\n{value}\"\"\"")
    } else {
        inline(&value)
    }
}
