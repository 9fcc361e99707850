//! The one test binary.

mod database;
mod replay;
mod search;
mod semantics;
mod workers;
