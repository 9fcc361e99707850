//! The tuning loop: steps 3 to 9 for many candidates, of many tasks, within a budget.
//!
//! In: [`Workload`]s. Out: records in the user's cache, and a [`Summary`]. Next: the build plan
//! finds them there.
//!
//! `tuner.rs` runs the loop, and `scheduler.rs` allocates the budget to tasks. Of one task, `session.rs`
//! is the state, `open.rs` the beginning, `round.rs` a batch of trials, `measurement.rs` one trial,
//! `final_ranking.rs` the end, `accuracy.rs` the errors of the winner, `former.rs` the comparison with code of earlier releases, `save.rs` the
//! record. `code.rs` builds candidates, `oracle.rs` computes
//! what they must return, `shared.rs` is what tasks share: a cost model, transfer sources, the oracle.
//! `spent.rs` counts the time of all that.
//!
//! # Invariants
//!
//! - The default schedule is measured first, and is among the candidates to the end: a recorded
//!   schedule is never slower, within measurement error.
//! - Every recorded schedule was verified on non-divisible shapes, and on two sets of arguments.
//! - Results are on disk after every round, and trials after every batch: a kill loses the batch in
//!   flight.

mod accuracy;
mod batch;
mod bench;
mod budget;
mod code;
#[cfg(feature = "cuda")]
mod gpu_code;
#[cfg(not(feature = "cuda"))]
#[path = "no_gpu_code.rs"]
mod gpu_code;
mod drift;
mod event;
mod final_ranking;
mod former;
mod log;
mod inner_extents;
mod lower_bound;
mod measurement;
mod open;
mod options;
mod oracle;
mod progress;
mod recipe;
mod round;
pub mod sample;
mod save;
mod scheduler;
mod session;
mod shared;
mod spent;
mod stage;
mod task;
mod transfer;
mod tuner;

pub use bench::{Bench, accuracy, bench, verify};
pub use budget::Budget;
pub use code::BuilderError;
pub use event::{Event, FormerCode, Reason, TaskName, TaskResult};
pub use log::{Stage, Trial, add_trials, log_file, replay, trials};
pub use options::{Hardware, Options, Reuse};
pub use progress::{Phase, Progress, ProgressFile, running, who_measures};
pub use recipe::{Recipe, Rules, Search, When};
pub use spent::TimeSpent;
pub use task::{Bucket, Tolerance, Workload};
pub use tuner::{Summary, TuneError, run};
