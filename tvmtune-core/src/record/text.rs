//! Records as TOML text.

use serde::Deserialize;

use super::{Record, SCHEMA};

/// Text that is not a record this build can use. Callers name the file, and treat it as a miss.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// Written by a newer version of the format.
    #[error("its schema is {found}, this version of tvmtune reads up to {SCHEMA}; update tvmtune")]
    Newer {
        /// The schema of the file.
        found: u32,
    },
    /// Not TOML, or fields are missing, unknown or of the wrong type.
    #[error("{0}; delete the file, or restore it, and tune again")]
    Malformed(String),
    /// Well-formed, but it cannot be true.
    #[error("{0}; delete the file, or restore it, and tune again")]
    Invalid(&'static str),
}

/// What is read first, so that newer files are told from mangled ones.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

impl Record {
    /// The record as text; equal records give equal text.
    #[expect(clippy::missing_panics_doc, reason = "no value of a record is without a TOML form")]
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a record has string keys and finite numbers only")
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
        let Version { schema } = toml::from_str(text).map_err(malformed)?;
        if schema > SCHEMA {
            return Err(RecordError::Newer { found: schema });
        }
        let record: Record = toml::from_str(text).map_err(malformed)?;
        record.check().map_err(RecordError::Invalid)?;
        Ok(record)
    }

    /// What types do not say.
    fn check(&self) -> Result<(), &'static str> {
        let is_hex = |it: &str| it.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if self.workload.len() != 64 || !is_hex(&self.workload) {
            return Err("`workload` is not 64 hexadecimal digits");
        }
        if self.name.is_empty() || !self.name.chars().all(|it| it.is_alphanumeric() || it == '_') {
            return Err("`name` is not the name of a function");
        }
        let entries = self.buckets.iter().flat_map(|it| &it.schedules);
        for entry in entries {
            let it = &entry.measured;
            let sorted = [0.0, it.min_ns, it.p10_ns, it.median_ns, it.p90_ns, f64::INFINITY];
            if !sorted.is_sorted_by(|a, b| a <= b && a.is_finite()) || it.min_ns <= 0.0 {
                return Err("timings are not in order, 0 < min <= p10 <= median <= p90");
            }
            if !is_hex(&entry.artifact) || entry.artifact.is_empty() {
                return Err("`artifact` is not a hexadecimal number");
            }
        }
        Ok(())
    }
}
