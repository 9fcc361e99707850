//! A profile of an application: one event for each launch, in a file that `TVMTUNE_TRACE` names.
//!
//! In: launches, as the queues make them. Out: the file, in Chrome's trace event format. Next: a viewer
//! of such files, or `cargo tvmtune profile`. The format is described in `docs/profile.md`.
//!
//! [`event`] is the text of a launch, [`sink`] the file. Here is how a launch is timed.
//!
//! # Invariants
//!
//! - Where the variable is not set, a launch pays for one relaxed load and a branch.
//! - Tracing makes no launch fail, and an event is one write of a whole line, after the launch.

mod event;
mod sink;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::raw::Traced;
use crate::{Error, Isa, Tier};

use event::Event;
use sink::Sink;

/// The code that a launch ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchedCode {
    pub(crate) isa: Isa,
    pub(crate) tier: Tier,
    /// Threads of the CPU that may have run it; `None` on a device.
    pub(crate) threads: Option<usize>,
    /// SHA-256 of the code, in hex; empty for portable code.
    pub(crate) artifact: &'static str,
}

/// The clock that a launch is timed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Clock {
    /// That of the CPU: the launch has just ended.
    Host,
    /// That of the device, where it took so many nanoseconds.
    #[cfg(feature = "cuda")]
    Device { ns: f64 },
    /// None: the launch became a part of a graph, and runs whenever that does.
    #[cfg(feature = "cuda")]
    Captured,
}

/// A launch that is traced, from its begin on.
pub(crate) struct Launch {
    sink: &'static Sink,
    traced: &'static Traced,
    begin: Instant,
}

/// The end of this thread's former launch.
#[derive(Clone, Copy)]
struct Former {
    /// The process: one that was forked has the memory of another, and has launched nothing.
    process: u32,
    /// The end of tracing it.
    end: Instant,
}

thread_local! {
    static FORMER: Cell<Option<Former>> = const { Cell::new(None) };
    /// The number of this thread, in the order in which threads first launched.
    static THREAD: u32 = {
        static N_THREADS: AtomicU32 = AtomicU32::new(0);
        N_THREADS.fetch_add(1, Ordering::Relaxed) + 1
    };
}

/// Makes a launch on the CPU, and traces it. `code` says what ran.
#[inline(always)]
pub(crate) fn launch(
    traced: Option<&'static Traced>,
    dims: &[i64],
    run: impl FnOnce() -> Result<(), Error>,
    code: impl FnOnce() -> LaunchedCode,
) -> Result<(), Error> {
    if sink::is_off() { run() } else { launch_and_trace(traced, dims, run, code) }
}

/// As [`launch`], apart from it: the path without a trace stays as short as it can be.
#[cold]
#[inline(never)]
fn launch_and_trace(
    traced: Option<&'static Traced>,
    dims: &[i64],
    run: impl FnOnce() -> Result<(), Error>,
    code: impl FnOnce() -> LaunchedCode,
) -> Result<(), Error> {
    let launch = begin(traced);
    run()?;
    if let Some(launch) = launch {
        launch.end(dims, &code(), Clock::Host);
    }
    Ok(())
}

/// Begins a launch; `None` if it is not traced.
#[inline]
pub(crate) fn begin(traced: Option<&'static Traced>) -> Option<Launch> {
    // Whoever traces nothing, such as a worker of the tuner, leaves the file alone.
    let traced = traced?;
    Some(Launch { sink: sink::get()?, traced, begin: Instant::now() })
}

impl Launch {
    /// Writes the event of the launch, which has succeeded.
    #[cold]
    pub(crate) fn end(self, dims: &[i64], code: &LaunchedCode, clock: Clock) {
        let Self { sink, traced, begin: entered } = self;
        let now = Instant::now();
        let process = std::process::id();
        // A thread that is about to end has no values of its own any more.
        let former = FORMER.try_with(Cell::get).ok().flatten().filter(|it| it.process == process);
        let (begin, duration_ns) = match clock {
            Clock::Host => (entered, Some(nanoseconds(now.saturating_duration_since(entered)))),
            // The device was waited for, so that it has ended just now.
            #[cfg(feature = "cuda")]
            Clock::Device { ns } => {
                let taken = std::time::Duration::from_nanos(ns as u64);
                (now.checked_sub(taken).map_or(entered, |it| it.max(entered)), Some(ns))
            }
            #[cfg(feature = "cuda")]
            Clock::Captured => (entered, None),
        };
        let event = Event {
            traced,
            dims,
            code,
            process,
            thread: THREAD.try_with(|it| *it).unwrap_or(0),
            begin_us: sink.microseconds(begin),
            duration_ns,
            idle_ns: former.map(|it| nanoseconds(entered.saturating_duration_since(it.end))),
        };
        sink.write(&event.to_string());
        // The time of tracing itself is nobody's idle time.
        let _ = FORMER.try_with(|it| it.set(Some(Former { process, end: Instant::now() })));
    }
}

fn nanoseconds(span: std::time::Duration) -> f64 {
    span.as_nanos() as f64
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
