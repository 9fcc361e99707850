//! The stages of a tuning job, and the resources that they need.

use std::fmt;

use serde::{Deserialize, Serialize};
use tvmtune_ir::target::DeviceKey;

/// A stage of a tuning job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Computing expected results, or comparing results with the definition.
    Judge,
    /// Choosing candidates.
    Propose,
    /// Generating their code.
    Build,
    /// Verifying and timing a batch of them.
    Measure,
    /// Training the cost model.
    Learn,
    /// Timing the best candidates side by side at the end.
    Rank,
}

impl Stage {
    /// All stages, in the order of a job.
    pub const ALL: [Self; 6] =
        [Self::Judge, Self::Propose, Self::Build, Self::Measure, Self::Learn, Self::Rank];

    /// Tells if it times kernels.
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Measure | Self::Rank)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Judge => "judge",
            Self::Propose => "propose",
            Self::Build => "build",
            Self::Measure => "measure",
            Self::Learn => "learn",
            Self::Rank => "rank",
        })
    }
}

/// The resources that a stage needs, all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Cores that it keeps busy.
    pub cores: usize,
    /// True if nothing else may run meanwhile: it times code on the CPU.
    pub is_alone: bool,
    /// The device that it has for itself.
    pub device: Option<DeviceKey>,
    /// Memory, in bytes.
    pub memory: u64,
}

impl Needs {
    /// Needs of a computation on a number of cores.
    pub fn cores(cores: usize) -> Self {
        Self { cores, ..Self::default() }
    }

    /// Needs of timing kernels on all cores of a CPU, and nothing beside them.
    pub fn whole_cpu(cores: usize, device: DeviceKey) -> Self {
        Self { cores, is_alone: true, device: Some(device), memory: 0 }
    }

    /// Needs of timing kernels on a GPU: who launches them waits for them most of the time.
    pub fn gpu(device: DeviceKey) -> Self {
        Self { cores: 0, is_alone: false, device: Some(device), memory: 0 }
    }

    /// Tells if it runs on the cores at all, so that it disturbs timings on them.
    pub(super) fn disturbs(&self) -> bool {
        self.cores > 0 || self.device.is_some()
    }
}
