//! Identity: what is computed, whoever wrote it, in whatever words.
//!
//! A [`WorkloadId`] is the SHA-256 of the canonical text of a dag, ranges of dimensions included.
//! A [`ClassId`] is that of a text with less in it, extents in any case: where schedules transfer.
//! How much less is the [`Strength`] of the class.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::dag::{Dag, print, signature};

/// The identity of a workload: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkloadId(pub String);

/// The identity of a class of workloads, for one strength: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub String);

/// How much the workloads of a class have in common, the most first; who shares a stronger class
/// need not share a weaker one where another compute has most of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// All but extents.
    Shape,
    /// Operations in order, and the patterns in which reductions read.
    Access,
    /// The pattern in which the compute with most of the work reads.
    Anchor,
}

impl Strength {
    /// All of them, the strongest first.
    pub const ALL: [Strength; 3] = [Strength::Shape, Strength::Access, Strength::Anchor];

    /// The spelling in reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            Strength::Shape => "shape",
            Strength::Access => "access",
            Strength::Anchor => "anchor",
        }
    }
}

/// The identity of what `dag` computes, for the ranges of its dimensions.
pub fn id(dag: &Dag) -> WorkloadId {
    WorkloadId(sha256(&print::canonical(dag)))
}

/// The class of what `dag` computes.
pub fn class(dag: &Dag, strength: Strength) -> ClassId {
    ClassId(sha256(&match strength {
        Strength::Shape => print::class(dag),
        Strength::Access => signature::access(dag),
        Strength::Anchor => signature::anchor(dag),
    }))
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

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
