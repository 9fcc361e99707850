//! Tensor programs: the language of `#[autotune]`, the dags that programs mean, and their identity.
//!
//! ```text
//! [dsl -> dag] -> schedule -> nest -> cpu or cuda -> compile -> measure -> ...
//! ```
//!
//! In: the tokens of an annotated function ([`dsl`]). Out: a [`Dag`](dag::Dag) of tensors and the
//! computes that define them, and its [`WorkloadId`](workload::WorkloadId). Next: `tvmtune-schedule`
//! decides how it runs.
//!
//! - [`poly`] and [`span`]: symbolic integers and intervals, the arithmetic of all indices.
//! - [`size`]: products of extents, for estimates.
//! - [`interp`]: the reference interpreter, which evaluates programs by definition.
//! - [`target`]: the limits and the identity of devices, as data.
//! - [`half`]: the 16-bit floats.
//! - [`similar`]: which name was meant by a misspelt one.
//!
//! # Invariants
//!
//! - No file, clock, thread, process or environment variable is touched: the same input gives the
//!   same output in the macro, in a build script and in the tuner.
//! - No module but [`target`] knows a device.

#![forbid(unsafe_code)]

pub mod similar; // suggestions for misspelt names
pub mod half; // the 16-bit floats
pub mod poly; // symbolic integers
pub mod span; // symbolic intervals
pub mod size; // sizes of iteration spaces
pub mod dag; // programs as dags of computes
pub mod dsl; // the language of programs
pub mod digest; // hashes
pub mod name; // names of programs
pub mod workload; // the identity of programs
pub mod artifact; // the identity of generated code
pub mod target; // devices as data
pub mod interp; // the reference interpreter
