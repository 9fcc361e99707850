//! The one test binary.

mod database;
