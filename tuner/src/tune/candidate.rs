//! Candidates of a task, before and after measurement.

use tvmtune_plan::record::Source;
use tvmtune_schedule::Instruction;

use crate::measure::Job;
use crate::outcome::Timing;
use crate::space::Point;

/// A candidate before it has code.
#[derive(Clone, Debug)]
pub(super) struct Proposed {
    pub(super) source: Source,
    pub(super) point: Option<Point>,
    pub(super) parent: Option<Point>,
    pub(super) trace: Vec<Instruction>,
    /// The wall time of building its code.
    pub(super) generate_ms: f64,
}

/// A candidate that works.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its point in the space, if it has one.
    pub(super) point: Option<Point>,
    pub(super) trace: Vec<Instruction>,
    pub(super) artifact: String,
    pub(super) source: Source,
    /// Threads of the host that run it.
    pub(super) threads: u32,
    pub(super) job: Job,
    pub(super) timing: Timing,
}

/// The origin of a measured point.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) median_ns: f64,
    pub(super) parent: Option<Point>,
}

impl Proposed {
    /// Creates a candidate of a trace that need not be a point of the space.
    pub(super) fn new(source: Source, trace: Vec<Instruction>) -> Self {
        Self { source, point: None, parent: None, trace, generate_ms: 0.0 }
    }
}

/// Formats a trace as records have it.
pub(super) fn lines(trace: &[Instruction]) -> Vec<String> {
    trace.iter().map(ToString::to_string).collect()
}

/// Rounds to a tenth, as records have times.
pub(super) fn tenths(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}
