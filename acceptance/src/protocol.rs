//! What a run and its worker say to each other: JSON, an order a line, and a reply a line.

use serde::{Deserialize, Serialize};
use tvmtune_tuner::statistics::quantile;

use crate::item::Item;

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Say what the device is.
    Device,
    /// Check or time a candidate. It is given up after one launch if that takes longer than this.
    Try(Box<Item>, Option<f64>),
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The device.
    Device(Device),
    /// What became of a candidate.
    Tried(Outcome),
}

/// A device, as its driver describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `NVIDIA H200`.
    pub name: String,
    /// `sm_90a`.
    pub arch: String,
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Shared memory that a block may have.
    pub shared_bytes: usize,
    /// The second-level cache.
    pub l2_bytes: usize,
    /// Memory, and how much of it nobody uses.
    pub memory_bytes: usize,
    /// See `memory_bytes`.
    pub free_bytes: usize,
    /// The clock of multiprocessors at most.
    pub clock_khz: usize,
    /// The clock of memory at most.
    pub memory_clock_khz: usize,
    /// The latest PTX that the driver compiles.
    pub ptx: (u8, u8),
}

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It computes what it should; so many launches were compared.
    Right(usize),
    /// As `Right`, and it takes this long.
    Timed(Times),
    /// It computes what it should, so slowly that it was given up; nanoseconds of one launch.
    Slow(f64),
    /// It computes something else.
    Wrong(String),
    /// The driver reported an error.
    Failed(String),
    /// Its worker died or did not answer.
    Lost(String),
    /// It is not for this device.
    Skipped(String),
}

/// How long launches take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// One launch, in ns, by samples of `launches` each.
    pub samples_ns: Vec<f64>,
    /// The reference in each of these rounds: a copy within memory, in bytes read and written a ns.
    pub copy_gbps: Vec<f64>,
    /// Launches of a sample.
    pub launches: usize,
    /// Copies of all arguments that launches go through.
    pub sets: usize,
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

impl Outcome {
    /// Whether nothing is wrong with the candidate.
    pub fn is_fine(&self) -> bool {
        matches!(self, Self::Right(_) | Self::Timed(_) | Self::Slow(_) | Self::Skipped(_))
    }

    /// The times of a candidate that works.
    pub fn times(&self) -> Option<&Times> {
        match self {
            Self::Timed(times) => Some(times),
            _ => None,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Right(n) => write!(f, "right, {n} launches"),
            Self::Timed(times) => write!(f, "{:.2} us", times.median_ns() / 1e3),
            Self::Slow(ns) => write!(f, "given up at {:.2} us", ns / 1e3),
            Self::Wrong(what) => write!(f, "WRONG: {what}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::Lost(why) => write!(f, "LOST: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}
