//! The one test binary.

mod database;
mod elements;
mod kernels;
mod replay;
mod search;
mod semantics;
mod workers;
