//! Progress of a session that a build asked for: for its user, and for the script that waits for it.

use std::io::Write;
use std::time::{Duration, Instant};

use tvmtune_tuner::tune::Event;

use super::job::{MEASURING, WAITING};

/// Shows progress on the terminal of a build, since cargo prints the output of a build script only after
/// it has ended; and tells the script on standard output when this process waits for others.
pub(super) struct Heartbeat {
    terminal: Option<std::fs::File>,
    /// The time of waiting for devices that were locked before, and for the present one.
    waited_before: Duration,
    waiting: Duration,
    is_waiting: bool,
    /// The package that it waited for.
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
    /// The time within which the first message about waiting is shown.
    const SOON: Duration = Duration::from_millis(50);

    pub(super) fn new(budget: Duration) -> Self {
        let terminal = std::fs::File::options().write(true).open("/dev/tty").ok();
        let started = Instant::now();
        Self {
            terminal,
            waited_before: Duration::ZERO,
            waiting: Duration::ZERO,
            is_waiting: false,
            waited_for: None,
            started,
            last: started,
            budget,
            n_tasks: 0,
            n_begun: 0,
            n_trials: 0,
        }
    }

    /// Returns the time of waiting for other processes.
    pub(super) fn waited(&self) -> Duration {
        self.waited_before + self.waiting
    }

    /// Returns the time of waiting in seconds, and the package that it waited for.
    pub(super) fn into_waited(self) -> (f64, Option<String>) {
        (self.waited().as_secs_f64(), self.waited_for)
    }

    /// Takes another state of waiting into account.
    fn wait(&mut self, waited: Duration, others: &[String]) {
        if !self.is_waiting {
            self.is_waiting = true;
            self.tell(WAITING);
        }
        self.waiting = waited;
        let first = self.waited_for.is_none().then(|| others.first().cloned()).flatten();
        self.waited_for = self.waited_for.take().or(first);
        if self.last.elapsed() >= Self::PAUSE || waited < Self::SOON {
            self.last = Instant::now();
            let whom =
                self.waited_for.as_ref().map_or("another build".to_owned(), |it| format!("`{it}`"));
            let seconds = waited.as_secs();
            self.print(&format!(
                "Waiting for {whom}, which is being tuned: {seconds} s, not counted"
            ));
        }
    }

    /// Tells the script that the time of waiting begins or ends.
    fn tell(&mut self, line: &str) {
        let mut stdout = std::io::stdout();
        // The script may be gone.
        let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
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
            Event::Waiting { waited, others } => return self.wait(*waited, others),
            Event::Started { n_tasks } => {
                if std::mem::take(&mut self.is_waiting) {
                    self.tell(MEASURING);
                }
                self.waited_before += std::mem::take(&mut self.waiting);
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
        let spent = self.started.elapsed().saturating_sub(self.waited()).as_secs();
        let budget = self.budget.as_secs();
        self.print(&format!(
            "Tuning {n_begun} of {n_tasks} {kernels}: {n_trials} schedules measured, {spent} s of at \
             most {budget} s; `cargo tvmtune watch` says more"
        ));
    }
}
