//! Identity: what is computed, whoever wrote it, in whatever words.
//!
//! A [`WorkloadId`] is the SHA-256 of the canonical text of a dag, ranges of dimensions included.
//! A [`ClassId`] is that of the text without extents: where schedules transfer.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::dag::{Dag, print};

/// The identity of a workload: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkloadId(pub String);

/// The identity of a class of workloads that differ in extents only: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub String);

/// The identity of what `dag` computes, for the ranges of its dimensions.
pub fn id(dag: &Dag) -> WorkloadId {
    WorkloadId(sha256(&print::canonical(dag)))
}

/// The class of what `dag` computes.
pub fn class(dag: &Dag) -> ClassId {
    ClassId(sha256(&print::class(dag)))
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|it| format!("{it:02x}")).collect()
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
