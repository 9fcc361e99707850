//! The options of a run.

use tvmtune_ir::target::Target;
use tvmtune_plan::record::Provenance;
use tvmtune_runtime::cuda::nvrtc::Nvrtc;

use super::budget::Budget;
use super::recipe::Recipe;
use crate::allocation::Scheduler;
use crate::measure::{Replay, WorkerCommand};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The device of this machine that is measured.
    pub device: Target,
    /// The targets of generated code: the device, or CPUs of older instruction sets that it can run.
    /// The first has the whole budget of a task, others a fifth: instruction sets differ mostly in the
    /// number of registers, to which the default schedule adapts.
    pub targets: Vec<Target>,
    /// The compiler for GPUs; `None` stands for the NVRTC of this machine.
    pub nvrtc: Option<&'static Nvrtc>,
    /// The limits on trials and time.
    pub budget: Budget,
    /// The use of records of this and other devices.
    pub reuse: Reuse,
    /// The seed of all random choices.
    pub seed: u64,
    /// The source of timings.
    pub hardware: Hardware,
    /// Threads that search; results do not depend on their number.
    pub n_threads: usize,
    /// The search of a task.
    pub recipe: Recipe,
    /// The choice of the task of the next round.
    pub scheduler: Scheduler,
    /// The provenance in records.
    pub provenance: Provenance,
}

/// The use of earlier results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Recorded schedules compete with those of the search.
    #[default]
    Compete,
    /// Recorded schedules of similar devices or other ranges are refined, with a small share of the
    /// budget, instead of a search.
    Refine,
    /// Recorded schedules compete. A search follows only if the code that an earlier release made of
    /// them is faster, and it ends once that is caught up with.
    CatchUp,
    /// Records, trials and cost models of earlier sessions are ignored.
    Ignore,
}

/// The source of timings.
#[derive(Clone, Debug)]
pub enum Hardware {
    /// This machine, in a worker process.
    Worker(WorkerCommand),
    /// A log of earlier trials.
    Log(Replay),
}
