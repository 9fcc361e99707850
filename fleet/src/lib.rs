//! Tuning on other machines.
//!
//! ```text
//! task -> (another machine: execute) -> outcome -> accept
//! ```
//!
//! In: a bucket of a workload, and the device to tune it for. Out: records and trials in the user's
//! cache, as if this machine had measured them. Next: the build plan finds them there.
//!
//! # Invariants
//!
//! - What travels is data: a program as canonical text, records, trials. Code is generated where it runs.
//! - A [`Task`] and a [`TaskOutcome`] that were read hold what their fields say. What an outcome claims is
//!   believed after [`accept`](accept::accept) alone.
//! - Taking an outcome twice changes nothing, so a transport may deliver it more than once.

#![forbid(unsafe_code)]

pub mod wire; // what the formats have in common
pub mod task; // what is shipped
pub mod outcome; // what comes back
pub mod execute; // from one to the other, there
pub mod accept; // into the user's cache, here
#[cfg(feature = "nats")]
pub mod nats; // many machines, around a queue
pub mod ssh; // one other machine
#[cfg(test)]
mod tests;

pub use accept::{AcceptError, Accepted, accept};
pub use execute::{Machine, Progress, execute};
pub use outcome::{Failure, FailureKind, Finding, Found, TaskOutcome, Tuned};
pub use task::{Task, TaskBudget, TaskId};
pub use wire::{VERSION, WireError};
