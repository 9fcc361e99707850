//! Steps 1 and 2 of 12: the program a user wrote, what it computes, and its identity.
//!
//! In: the tokens of an annotated function. Out: a [`Dag`](dag::Dag), its
//! [`WorkloadId`](workload::WorkloadId), and what the program computes by definition ([`interp`]).
//! Next: `tvmtune-schedule` decides how it runs.
//!
//! # Invariants
//!
//! - No file, clock, thread, process or environment variable is touched: the same input gives the
//!   same output in the macro, in a build script and in the tuner.
//! - Devices are data ([`target`]): nothing here depends on one.

#![forbid(unsafe_code)]

pub mod poly; // symbolic integers
pub mod span; // symbolic intervals
pub mod dag; // what is computed
pub mod dsl; // the text of programs, and what it means
pub mod workload; // the identity of what is computed
pub mod artifact; // the identity of generated code
pub mod target; // devices as data
pub mod interp; // evaluates programs by definition
