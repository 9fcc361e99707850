//! Steps 7 to 9 of 12: search, measurement and records.
//!
//! ```text
//! ... -> codegen -> [compile -> measure -> record] -> plan -> expand -> launch
//! ```
//!
//! In: workloads. Out: records in a database. The modules are declared in the order of a tuning
//! session.

#![forbid(unsafe_code)]

// The search space.
pub mod device; // the GPU of this machine
pub mod parallel; // parallel maps, in order
pub mod random; // seeded generators
pub mod space; // sketches and points

// The choice of candidates.
pub mod cost; // cost models
pub mod outcome; // outcomes and timings
pub mod search; // strategies
pub mod transfer; // schedules of other workloads
pub mod value; // of partial schedules
pub mod statistics; // of samples

// Their code, for GPUs.
#[cfg(feature = "cuda")]
pub mod compile; // 7 by NVRTC

// The machine that they share.
pub mod executor; // stages of many jobs

// The task of the next slot.
pub mod allocation; // schedulers of tasks

// The results that are right.
pub mod definition; // interpreted, or compiled

// Their latency.
pub mod measure; // 8 in a worker

// The loop over many candidates.
pub mod tune; // within a budget
