//! The one test binary.

mod database;
mod search;
