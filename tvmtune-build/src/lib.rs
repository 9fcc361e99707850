//! Step 10 of 12: plans a build.

#![forbid(unsafe_code)]

pub mod scan;
