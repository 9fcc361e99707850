//! The load-aware executor: many tuning jobs share a machine, a stage at a time.
//!
//! ```text
//!   job 1   propose -> build -> measure -> learn -> propose -> ..
//!   job 2              judge -> measure -> propose -> ..
//!              |          |        |
//!              v          v        v       each asks before a stage, and gives back after it
//!        waiting requests -- policy -- ledger of cores, memory and devices
//!                              |
//!                              v
//!                   locks between processes, stage by stage
//! ```
//!
//! A job knows its stages and their order; the executor knows which job wants which resources next, and
//! which of them are free. It grants all that a stage needs or nothing, in one place, so that no job
//! waits for another with something in hand: there are no deadlocks. Measurements are exclusive: the
//! latency of tuned kernels comes first, the use of the machine second, the time of tuning third.
//!
//! `decide.rs` is the decision loop and knows no clock: [`Executor`] feeds it with threads and locks,
//! [`simulate`] with recorded or made-up times, so that machines can be studied that are not there.
//!
//! # Invariants
//!
//! - No policy but [`NaiveParallel`] lets two stages have the same exclusive resource, and none but that
//!   and [`Interleaved::without_isolation`] lets anything run beside a measurement on a CPU.
//! - The results of a job depend on its own stages, never on those of others or on who comes first.
//!
//! # Source
//!
//! Stiller (HPE, 2019): stages as the unit, a scheduler that knows resources and not their purpose,
//! interleaving instead of parallel jobs. Reservations for what cannot start yet are EASY backfilling
//! (Lifka, JSSPP 1995).

mod decide;
mod job;
mod ledger;
mod machine;
mod policy;
mod simulate;
mod stage;
mod times;
mod timeline;

#[cfg(test)]
mod tests;

pub use decide::{JobId, Request, View};
pub use job::{Executor, Permit, TuningJob};
pub use ledger::{Capacity, Ledger};
pub use machine::{MachineLock, MachineLockError, MachineLocks};
pub use policy::{Interleaved, NaiveParallel, Policy, Predictive, Sequential};
pub use simulate::{SimulatedJob, SimulatedStage, simulate};
pub use stage::{Needs, Stage};
pub use timeline::{Span, Timeline};
