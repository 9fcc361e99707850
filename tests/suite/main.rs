//! The one test binary.

mod backends;
mod database;
mod elements;
mod kernels;
mod macros;
mod replay;
mod search;
mod semantics;
mod workers;
#[cfg(target_arch = "x86_64")]
mod x86;
