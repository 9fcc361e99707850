//! The evaluation of a candidate, as results store it.

use std::fmt;

use serde::{Deserialize, Serialize};
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::statistics::quantile;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evaluation {
    /// Its results are right, in so many launches.
    Right(usize),
    /// Its results are right, and it was timed.
    Timed(Times),
    /// Its results are wrong.
    Wrong(String),
    /// It crashed its process's context, or did not end.
    Failed(String),
    /// It has no code for this device.
    Skipped(String),
}

/// The times of launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// One launch, in ns.
    pub samples_ns: Vec<f64>,
    /// The reference, before and after: a copy within memory, in bytes read and written a ns.
    pub copy_gbps: Vec<f64>,
}

impl Times {
    /// Half of the samples are faster.
    pub fn median_ns(&self) -> f64 {
        quantile(&self.samples_ns, 0.5)
    }

    /// A quarter of the samples are faster; a quarter slower.
    pub fn quartiles_ns(&self) -> (f64, f64) {
        (quantile(&self.samples_ns, 0.25), quantile(&self.samples_ns, 0.75))
    }
}

impl Evaluation {
    /// Returns whether nothing is wrong with the candidate.
    pub fn is_fine(&self) -> bool {
        matches!(self, Self::Right(_) | Self::Timed(_) | Self::Skipped(_))
    }

    /// Returns the times of a candidate that is right.
    pub fn times(&self) -> Option<&Times> {
        match self {
            Self::Timed(times) => Some(times),
            _ => None,
        }
    }
}

impl From<Outcome> for Evaluation {
    /// Converts the outcome of a trial that is not right.
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Wrong(what) => Self::Wrong(what),
            Outcome::Invalid(why) => Self::Skipped(why),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right(n) => write!(f, "right, {n} launches"),
            Self::Timed(times) => write!(f, "{:.2} us", times.median_ns() / 1e3),
            Self::Wrong(what) => write!(f, "WRONG: {what}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}
