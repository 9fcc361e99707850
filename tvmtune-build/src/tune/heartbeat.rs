//! Progress of a session that a build asked for, for its user.

use std::io::Write;
use std::time::{Duration, Instant};

use tvmtune_tuner::tune::Event;

/// Shows progress on the terminal of a build, since cargo prints the output of a build script only after
/// it has ended.
pub(super) struct Heartbeat {
    terminal: Option<std::fs::File>,
    /// The time of waiting for locks that were held before, and for the present one.
    waited_before: Duration,
    waiting: Duration,
    /// The first process that it waited for, and its business.
    waited_for: Option<String>,
    started: Instant,
    last: Instant,
    budget: Duration,
    n_tasks: usize,
    n_begun: usize,
    n_trials: u64,
}

impl Heartbeat {
    /// The time between two messages.
    const PAUSE: Duration = Duration::from_secs(10);

    pub(super) fn new(budget: Duration) -> Self {
        let terminal = std::fs::File::options().write(true).open("/dev/tty").ok();
        let started = Instant::now();
        Self {
            terminal,
            waited_before: Duration::ZERO,
            waiting: Duration::ZERO,
            waited_for: None,
            started,
            last: started,
            budget,
            n_tasks: 0,
            n_begun: 0,
            n_trials: 0,
        }
    }

    /// Returns the time of waiting in seconds, and the first process that it waited for.
    pub(super) fn into_waited(self) -> (f64, Option<String>) {
        ((self.waited_before + self.waiting).as_secs_f64(), self.waited_for)
    }

    /// Takes another state of waiting into account.
    fn wait(&mut self, waited: Duration, whom: &str) {
        let is_first = self.waiting == Duration::ZERO;
        if waited < self.waiting {
            // For another lock.
            self.end_waiting();
        }
        self.waiting = waited;
        self.waited_for.get_or_insert_with(|| whom.to_owned());
        if is_first || self.last.elapsed() >= Self::PAUSE {
            self.last = Instant::now();
            let (seconds, budget) = (waited.as_secs(), self.budget.as_secs());
            self.print(&format!("Waiting for {whom}: {seconds} s of at most {budget} s"));
        }
    }

    fn end_waiting(&mut self) {
        self.waited_before += std::mem::take(&mut self.waiting);
    }

    /// Replaces the last line of the terminal.
    fn print(&mut self, line: &str) {
        let Some(terminal) = &mut self.terminal else { return };
        // The terminal may be gone.
        let _ = writeln!(terminal, "\r\x1b[K      {line}");
    }

    /// Counts an event, and shows the progress now and then.
    pub(super) fn on_event(&mut self, event: &Event<'_>) {
        match event {
            Event::Waiting { waited, whom } => return self.wait(*waited, whom),
            Event::Started { n_tasks } => {
                self.end_waiting();
                self.n_tasks += *n_tasks;
                self.show();
            }
            Event::Default { .. } | Event::Skipped { .. } => self.n_begun += 1,
            Event::Trial { .. } => self.n_trials += 1,
            _ => {}
        }
        if self.last.elapsed() >= Self::PAUSE {
            self.show();
        }
    }

    /// Shows the progress.
    fn show(&mut self) {
        self.last = Instant::now();
        let Self { n_tasks, n_begun, n_trials, .. } = *self;
        let kernels = if n_tasks == 1 { "kernel" } else { "kernels" };
        let spent = self.started.elapsed().as_secs();
        let budget = self.budget.as_secs();
        self.print(&format!(
            "Tuning {n_begun} of {n_tasks} {kernels}: {n_trials} schedules measured, {spent} s of at \
             most {budget} s; `cargo tvmtune watch` says more"
        ));
    }
}
