//! Step 3 of 12, where nobody says how: which schedules exist, and which is best unmeasured.
//!
//! In: a [`Dag`](tvmtune_ir::dag::Dag) and a [`Target`](tvmtune_ir::target::Target). Out:
//! [`Sketch`](sketch::Sketch)es, traces of primitives with open arguments; a [default](default)
//! schedule; and why a schedule [does not fit](fits) a device. Next: `tvmtune-tuner` searches.
//!
//! # Invariants
//!
//! - Pure: the same program and target give the same sketches, in the same order.
//! - Every point of a sketch keeps the meaning of the program: sketches apply primitives only.

#![forbid(unsafe_code)]

pub mod cost; // how schedules for CPUs compare, unmeasured
pub mod default; // the schedule used where nothing was measured
pub mod fits; // what a device can run
pub mod lower_bound; // what a program takes a device at least
pub mod operands; // which parameters a launch finds in memory, and not in a cache
pub mod sketch; // traces with open arguments
pub mod work; // arithmetic and memory traffic of a program
