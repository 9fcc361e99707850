//! What a build script asks of the process that tunes for it, and what that answers.

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
    /// What to tune.
    pub(super) wanted: Vec<Wanted>,
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

/// What became of a [`Job`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Kernels that have a record now.
    pub(super) n_tuned: usize,
    /// Ops that can't be tuned, whatever the budget.
    pub(super) failures: Vec<Failure>,
}

/// An op that can't be tuned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The function's name.
    pub(super) name: String,
    /// Why.
    pub(super) why: String,
}

impl Job {
    /// A request for some ops of a package.
    pub(super) fn new(
        package: &Path,
        workspace: Option<&Path>,
        budget: Budget,
        wanted: Vec<Wanted>,
    ) -> Self {
        Self {
            package: package.to_owned(),
            workspace: workspace.map(Path::to_owned),
            trials: budget.trials,
            per_kernel_seconds: budget.per_kernel.as_secs_f64(),
            total_seconds: budget.total.as_secs_f64(),
            wanted,
        }
    }

    /// What it may spend.
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
    /// Those buckets of an op.
    pub(super) fn new(op: &Op, buckets: Vec<usize>) -> Self {
        Self { file: op.file.clone(), source: op.source.clone(), buckets }
    }

    /// The op; `None` if this process reads the function otherwise than the one that asked.
    #[cfg(feature = "tune")]
    pub(super) fn op(&self) -> Option<Op> {
        Op::from_source(&self.source, &self.file)
    }
}
