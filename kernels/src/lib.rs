//! A library of tuned kernels, and the database that ships with it.
//!
//! Layers of well-known networks at batch 1, in single precision. Each is one annotated function;
//! what stands in `tvmtune/` are the schedules that were found for them. Parameters that a network
//! keeps constant are `Weight`s: a schedule may rearrange them once.

pub mod conv;
pub mod matmul;
pub mod rows;
