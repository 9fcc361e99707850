//! The pure part of tvmtune: from an annotated function to machine code.
//!
//! Nothing in this crate touches a file, a clock, a thread, a process or an environment variable.
//! The modules are declared in the order in which a program walks through them; each one's first
//! line says which of the twelve steps from attribute to launch it is.

#![forbid(unsafe_code)]

// Shared vocabulary.
pub mod mode; // whether a build may measure
pub mod poly;
pub mod span;

// The walk.
pub mod dsl; // 1 the program's text
pub mod dag; // 2 what is computed
pub mod workload; // its identity
pub mod target; // limits of a device, and its identity
pub mod schedule; // 3 how it runs
pub mod nest; // 4 loops and indices, written out
pub mod kernel; // 5 placed on a CPU
pub mod grid; // 5 placed on a GPU
pub mod codegen; // 6 printed
pub mod record; // 9 what is remembered

// The judge.
pub mod interp;

// Random programs and schedules, for tests.
#[cfg(feature = "arbitrary")]
pub mod arbitrary;
