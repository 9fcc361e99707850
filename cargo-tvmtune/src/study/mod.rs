//! Studies: experiments that compare recipes of search, such as ablations.
//!
//! In: a file with networks, arms (recipes), seeds and a budget. Out: a folder with a line for each
//! *cell*, which is one network tuned once by one arm, and a report that compares the arms.
//!
//! ```text
//! plan -> network -> session -> cell -> analysis -> report, plot
//! ```
//!
//! # Invariants
//!
//! - A cell is on disk as soon as it is finished; one that is there is not run again, unless the study
//!   has changed, or the records of its sources are to be transferred and are gone.
//! - Cells that are compared have the same seed, network, budget and transfer sources, and run
//!   one after the other: drift of the machine affects all alike.
//! - The report lists everything that was left out.

mod analysis;
mod cell;
mod convergence;
mod load;
mod network;
mod plan;
mod plot;
mod report;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use cell::Cells;
pub(crate) use network::Network;
pub(crate) use plan::{Key, Study};
pub(crate) use report::write as report;
pub(crate) use session::{Machine, has_records};
