//! The protocol between a build script and the process that tunes for it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::handoff::OpSource;

use crate::config::Budget;
use crate::op::Op;

/// A request to tune. Travels as TOML; both ends are of the same version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    /// The name of the package.
    pub(super) name: String,
    /// The folder of the package.
    pub(super) package: PathBuf,
    /// The folder of its workspace.
    pub(super) workspace: Option<PathBuf>,
    /// Asks for the GPU of this machine.
    pub(super) asks_for_gpu: bool,
    pub(super) budget: Budget,
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
    /// The number of its runs, relative to other ops, if it is not what the function says.
    #[serde(default)]
    weight: Option<f64>,
}

/// The answer to a [`Job`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Kernels that have a record now.
    pub(super) n_tuned: usize,
    /// Ops that can't be tuned, with any budget.
    pub(super) failures: Vec<Failure>,
    /// Ops whose shipped schedules are slower than the default ones on this machine.
    #[serde(default)]
    pub(super) slower: Vec<SlowerRecord>,
    /// The error that stopped tuning.
    pub(super) trouble: Option<String>,
    /// Set if that was another process, which held a lock until the budget was spent.
    #[serde(default)]
    pub(super) is_busy: bool,
    /// The time of waiting for other processes, and one of them with its business.
    #[serde(default)]
    pub(super) waited_seconds: f64,
    #[serde(default)]
    pub(super) waited_for: Option<String>,
    /// The key of this machine's GPU, if that was asked for.
    pub(super) gpu: Option<DeviceKey>,
    /// The reason why there is none.
    pub(super) no_gpu: Option<String>,
}

/// An op whose shipped schedule is slower than the default one on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SlowerRecord {
    /// The function's name.
    pub(super) name: String,
    /// Its latency relative to that of the default schedule.
    pub(super) ratio: f64,
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
    /// Creates a request for the GPU of this machine.
    pub(super) fn about_gpu() -> Self {
        let budget = Budget { total: Duration::ZERO, ..Budget::BUILD };
        Self {
            name: String::new(),
            package: PathBuf::new(),
            workspace: None,
            asks_for_gpu: true,
            budget,
            cpu: Vec::new(),
            gpu: Vec::new(),
        }
    }
}

impl Wanted {
    /// Creates a request for some buckets of an op.
    pub(super) fn new(op: &Op, buckets: Vec<usize>) -> Self {
        Self { file: op.file.clone(), source: op.source.clone(), buckets, weight: Some(op.weight) }
    }

    /// Returns the op; `None` if this process can't parse the function.
    #[cfg(feature = "tune")]
    pub(super) fn op(&self) -> Option<Op> {
        let op = Op::from_source(&self.source, &self.file)?;
        Some(Op { weight: self.weight.unwrap_or(op.weight), ..op })
    }
}
