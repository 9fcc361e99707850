//! Transfer-tuning: schedules of other workloads and devices as candidates for this one.
//!
//! In: a pool of [`TransferSource`]s, from records and from tasks of this run, and a program. Out:
//! [`Transfer`]s: traces that apply to the program and fit the target, those of the nearest sources
//! first. Next: the tuning loop ranks them by its cost model, measures the best few, and reports
//! their results to the pool.
//!
//! # Invariants
//!
//! - The same pool with the same reported results gives the same transfers in the same order.
//! - A transfer replays on the program it was made for, and fits the target.
//! - A record whose text can't be read is left out, and no error.
//!
//! # Source
//!
//! Gibson and Cano, "Transfer-Tuning", 2022: schedules of the same class of kernels, factors as they
//! are. Classes of several strengths, other policies, and ranking by kernel are ours.

mod history;
mod pool;
#[cfg(test)]
mod tests;

pub use self::history::TransferResult;
pub use self::pool::{Transfer, TransferSource, TransferSources};
