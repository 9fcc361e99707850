//! Allocation: which task gets the next slot of a budget.
//!
//! In: the tasks of a run, each with its [`History`]. Out: the task of the next slot, or none if no task is
//! expected to gain. Next: the tuning loop gives that task a round, or a replay gives it the next trials of
//! a recorded curve.
//!
//! ```text
//!          histories ----> Allocator::next ----> task ----> a slot: trials, seconds
//!              ^                                                   |
//!              +---------------------------------------------------+
//! ```
//!
//! [`Scheduler`] names all of them: published ones, their variants, and ours. [`hindsight`] computes the
//! best that any could have done on recorded curves, and [`replay`] runs them on these without hardware.
//!
//! # Invariants
//!
//! - A task that is over is not chosen, nor is one with a weight that is not positive.
//! - Choices are a function of the seed and of the histories: no clock, no threads.
//! - Rewards have no unit: scaling all latencies or all weights by a factor changes no choice.
//!
//! # Source
//!
//! Zhang et al., "DynaTune: Dynamic Tensor Program Optimization in Deep Neural Network Compilation" (ICLR
//! 2021), and the baselines that it is compared with.

pub mod belief; // the future of a curve
pub mod hindsight; // the best in hindsight
pub mod replay; // on recorded curves

mod allocator;
mod dynatune;
mod fixed;
mod gradient;
mod greedy;
mod history;
mod mean_curve;
mod scheduler;

#[cfg(test)]
mod tests;

pub use allocator::{Allocator, Choice, TaskState, similarity_group};
pub use dynatune::{Pace, Rule, Settings};
pub use history::{History, Slot};
pub(crate) use mean_curve::expected_saving;
pub use scheduler::Scheduler;
