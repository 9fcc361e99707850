//! Steps 7 to 9 of 12: searches, measures and remembers.
//!
//! ```text
//! ... -> codegen -> [compile -> measure -> record] -> plan -> expand -> launch
//! ```
//!
//! In: workloads. Out: records in a database. The modules are declared in the order in which a
//! tuning session walks through them.
//!
//! Without the feature `engine`, what is left is what reads databases: that is all a build needs
//! that measures nothing.

#![forbid(unsafe_code)]

// What every build needs.
pub mod database; // 9 records in files
pub mod device; // which machine this is

// What may be measured.
#[cfg(feature = "engine")]
pub mod parallel; // in order, whoever does it
#[cfg(feature = "engine")]
pub mod random; // seeded
#[cfg(feature = "engine")]
pub mod space; // which schedules there are

// What to measure.
#[cfg(feature = "engine")]
pub mod cost; // how schedules rank, unmeasured
#[cfg(feature = "engine")]
pub mod outcome; // what became of a candidate
#[cfg(feature = "engine")]
pub mod search; // strategies
#[cfg(feature = "engine")]
pub mod transfer; // schedules of other workloads
#[cfg(feature = "engine")]
pub mod statistics; // what samples say

// How it becomes code, for GPUs.
#[cfg(feature = "engine")]
pub mod compile; // 7 by NVRTC

// How to measure it.
#[cfg(feature = "engine")]
pub mod measure; // 8 in a worker

// All of it, for many candidates.
#[cfg(feature = "engine")]
pub mod tune; // within a budget
