//! Cost models: how schedules rank, without generating code for them.
//!
//! In: nests of schedules. Out: scores. Next: search measures the schedules that score best.
//!
//! The [`analytic`] models, that of CPUs in [`tvmtune_space::cost`] and that of GPUs in [`gpu`], need no
//! measurement. [`model`] is trained on
//! measurements, by [`gbdt`] on [`features`]; [`learned`] combines it with the analytic ones.

pub mod analytic;
pub mod features;
pub mod gbdt;
#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(not(feature = "cuda"))]
#[path = "no_gpu.rs"]
pub mod gpu;
pub mod learned;
pub mod model;
pub mod rank;
