//! The one test binary.

mod database;
mod elements;
mod replay;
mod search;
mod semantics;
mod workers;
