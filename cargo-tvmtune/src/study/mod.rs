//! Studies: what a way to search is worth, found out by taking it away.
//!
//! In: a file that says which networks are tuned, in which ways, how often, and at what cost. Out:
//! a folder with a line for each *cell*, which is one network tuned once in one way, and a report
//! of what the cells say together.
//!
//! ```text
//! plan -> subject -> session -> cell -> analysis -> report, plot
//! ```
//!
//! # Invariants
//!
//! - A cell is on disk as soon as it is finished; one that is there is not run again.
//! - Cells that are compared have the same seed, network, budget and donor records, and run one
//!   after the other: what the machine does meanwhile hits all alike.
//! - Nothing that was left out goes unsaid: the report lists it.

mod analysis;
mod cell;
mod plan;
mod plot;
mod report;
mod session;
mod subject;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use cell::Cells;
pub(crate) use plan::{Key, Study};
pub(crate) use report::write as report;
pub(crate) use session::Machine;
pub(crate) use subject::Subject;
