//! The protocol between a build script and the process that tunes for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Budget;
use crate::op::{Op, OpSource};

/// A request to tune. Travels as TOML; both ends are of the same version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    /// The folder of the package.
    pub(super) package: PathBuf,
    /// The folder of its workspace.
    pub(super) workspace: Option<PathBuf>,
    /// Candidates for each kernel.
    trials: u64,
    per_kernel_seconds: f64,
    total_seconds: f64,
    /// Asks for the GPU of this machine.
    pub(super) asks_for_gpu: bool,
    /// The ops to tune on the CPU.
    pub(super) cpu: Vec<Wanted>,
    /// The ops to tune on the GPU, after that.
    pub(super) gpu: Vec<Wanted>,
}

/// One op, and which of its buckets to tune.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Wanted {
    /// The file it stands in.
    file: PathBuf,
    /// The text of the function.
    source: OpSource,
    /// Positions among the op's buckets.
    pub(super) buckets: Vec<usize>,
}

/// The ops to tune, by device.
#[derive(Debug, Default)]
pub(super) struct WantedByDevice {
    pub(super) cpu: Vec<Wanted>,
    pub(super) gpu: Vec<Wanted>,
}

/// The answer to a [`Job`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Kernels that have a record now.
    pub(super) n_tuned: usize,
    /// Ops that can't be tuned, with any budget.
    pub(super) failures: Vec<Failure>,
    /// The error that stopped tuning.
    pub(super) trouble: Option<String>,
    /// The key of this machine's GPU, if that was asked for.
    pub(super) gpu: Option<String>,
    /// The reason why there is none.
    pub(super) no_gpu: Option<String>,
}

/// An op that can't be tuned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The function's name.
    pub(super) name: String,
    /// The reason.
    pub(super) why: String,
}

impl Job {
    /// Creates a request for some ops of a package.
    pub(super) fn new(
        package: &Path,
        workspace: Option<&Path>,
        budget: Budget,
        WantedByDevice { cpu, gpu }: WantedByDevice,
    ) -> Self {
        Self {
            package: package.to_owned(),
            workspace: workspace.map(Path::to_owned),
            trials: budget.trials,
            per_kernel_seconds: budget.per_kernel.as_secs_f64(),
            total_seconds: budget.total.as_secs_f64(),
            asks_for_gpu: false,
            cpu,
            gpu,
        }
    }

    /// Creates a request for the GPU of this machine.
    pub(super) fn about_gpu() -> Self {
        let nothing = WantedByDevice::default();
        let budget = Budget { total: Duration::ZERO, ..Budget::BUILD };
        Self { asks_for_gpu: true, ..Self::new(Path::new(""), None, budget, nothing) }
    }

    /// Returns the budget.
    pub(super) fn budget(&self) -> Budget {
        let span = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Budget {
            trials: self.trials,
            per_kernel: span(self.per_kernel_seconds),
            total: span(self.total_seconds),
        }
    }
}

impl Wanted {
    /// Creates a request for some buckets of an op.
    pub(super) fn new(op: &Op, buckets: Vec<usize>) -> Self {
        Self { file: op.file.clone(), source: op.source.clone(), buckets }
    }

    /// Returns the op; `None` if this process can't parse the function.
    #[cfg(feature = "tune")]
    pub(super) fn op(&self) -> Option<Op> {
        Op::from_source(&self.source, &self.file)
    }
}
