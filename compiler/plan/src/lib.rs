//! Steps 9 and 10 of 12: what is remembered of a workload, and what a crate embeds of it.
//!
//! In: a workload. Out: its [records](record), read from the layers of a [database]; and the
//! [Rust text](embed) that a build script writes and `#[autotune]` expands to. Next: the macro.
//!
//! # Invariants
//!
//! - A record that cannot be used is a miss and one warning, never an error of a build.
//! - [`record`] and [`embed`] are pure; [`database`], [`source`], [`of_crate`] and [`handoff`] alone read and
//!   write files, what others may have written through [`read`], [`process`] reads `/proc`, and [`request`]
//!   standard input.

#![forbid(unsafe_code)]

pub mod read; // files of others
pub mod printable; // texts of others
pub mod process; // other processes
pub mod record; // what is remembered
pub mod database; // records in files
pub mod migrate; // records of earlier releases
pub mod device; // the machine a build runs on
pub mod embed; // what a crate embeds
pub mod source; // the ops and constants of a package
pub mod contain; // panics of the compiler
pub mod of_crate; // the numerics of a crate
pub mod mode; // the treatment of kernels without a record
pub mod handoff; // between a build script and the macro
pub mod request; // between processes of which one may be killed
