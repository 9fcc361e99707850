//! Steps 7 to 9 of 12: searches, measures and remembers.
//!
//! ```text
//! ... -> codegen -> [compile -> measure -> record] -> plan -> expand -> launch
//! ```
//!
//! In: workloads. Out: records in a database. The modules are declared in the order in which a
//! tuning session walks through them.

#![forbid(unsafe_code)]

// What may be measured.
pub mod device; // the GPU of this machine
pub mod parallel; // in order, whoever does it
pub mod random; // seeded
pub mod space; // which schedules there are

// What to measure.
pub mod cost; // how schedules rank, unmeasured
pub mod outcome; // what became of a candidate
pub mod search; // strategies
pub mod transfer; // schedules of other workloads
pub mod statistics; // what samples say

// How it becomes code, for GPUs.
pub mod compile; // 7 by NVRTC

// How to measure it.
pub mod measure; // 8 in a worker

// All of it, for many candidates.
pub mod tune; // within a budget
