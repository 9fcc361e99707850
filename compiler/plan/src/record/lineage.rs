//! The lineage of a schedule: its ancestors, and the change that each descendant made.
//!
//! A lineage is a list of ancestors, the oldest first. The first may be of another workload or
//! device: a schedule that was carried over. Each later one was made from the one before it.

use serde::{Deserialize, Serialize};

use super::Source;
use tvmtune_ir::target::DeviceKey;
use tvmtune_ir::workload::WorkloadId;

/// A schedule that another one was derived from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ancestor {
    /// The strategy that proposed it; `transfer` for one of another workload or device.
    pub source: Source,
    /// Its latency: taken in the same session as its descendant's, or else over there.
    pub median_ns: f64,
    /// The workload it was measured for, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadId>,
    /// The device it was measured on, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceKey>,
    /// The changes that made its descendant, if they are known: `c rows 8 -> 6`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<String>,
}

impl Ancestor {
    /// A schedule of the same workload, measured in the same session.
    pub fn new(source: Source, median_ns: f64) -> Self {
        Self { source, median_ns, workload: None, device: None, moves: Vec::new() }
    }

    /// A schedule of another workload, as fast as it was there.
    pub fn transferred(workload: WorkloadId, median_ns: f64) -> Self {
        Self { workload: Some(workload), ..Self::new(Source::Transfer, median_ns) }
    }

    /// The same, measured on another device.
    #[must_use]
    pub fn on(self, device: DeviceKey) -> Self {
        Self { device: Some(device), ..self }
    }

    /// The same, with what was changed to make its descendant.
    #[must_use]
    pub fn moved(self, moves: Vec<String>) -> Self {
        Self { moves, ..self }
    }

    /// Returns whether it says what records of schema 2 can't.
    pub(super) fn is_of_schema_3(&self) -> bool {
        self.workload.is_some() || self.device.is_some() || !self.moves.is_empty()
    }
}
