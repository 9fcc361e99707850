//! A schedule that was measured for one workload and may be transferred to others.

use std::sync::Arc;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, Platform};
use tvmtune_ir::workload::WorkloadId;

/// A schedule that was measured, with the program it was made for.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferSource {
    /// The identity of the program, for all extents that it allows.
    pub workload: WorkloadId,
    /// The program, specialized to the ranges of the bucket.
    pub dag: Arc<Dag>,
    /// The ranges of the dynamic dimensions that it was made for.
    pub bucket: Vec<Interval>,
    /// The primitives that make it, one a line, as records keep them.
    pub trace: Vec<String>,
    /// The device it was measured on.
    pub device: DeviceKey,
    /// The instruction set or GPU architecture of its code.
    pub platform: Platform,
    /// Its median latency on that device.
    pub median_ns: f64,
    /// The median latency of the default schedule there, if it was measured.
    pub default_ns: Option<f64>,
}
