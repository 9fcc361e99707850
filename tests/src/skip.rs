//! Tests that this machine cannot run, reported as skipped.
//!
//! The test harness knows no test that finds out by itself that it can't run: such a test returns
//! and counts as passed. So that nobody takes it for one, a line on the standard error stream, past
//! the harness's capture of output, says `skipped: TEST: REASON`.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// Lines that were printed: a test is reported once for each reason.
static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Reports that the running test skips something, and why.
#[track_caller]
pub fn report(reason: &str) {
    let thread = std::thread::current();
    // The harness names the thread of a test after it; threads that a test starts have no name.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    };
    let line = format!("skipped: {test}: {}\n", reason.lines().next().unwrap_or_default());
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.insert(line.clone()) {
        // One call, so that lines of other processes don't come between.
        std::io::stderr().write_all(line.as_bytes()).ok();
    }
}
