//! Progress of tuning for people: a status line on a terminal, lines now and then elsewhere, since CI
//! systems kill jobs without output.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tvmtune_tuner::tune::Event;

use crate::output::eprintln;
use crate::render::{count, latency};

/// Progress of one session.
pub(crate) struct Progress {
    bar: ProgressBar,
    last: Instant,
    n_tasks: usize,
    n_finished: usize,
    n_trials: u64,
    latest: String,
    now: String,
}

/// The time between lines without a terminal.
const HEARTBEAT: Duration = Duration::from_secs(10);

impl Progress {
    pub(crate) fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
        let style = style.expect("the template is well-formed");
        let bar = ProgressBar::new_spinner().with_style(style);
        Self {
            bar,
            last: Instant::now(),
            n_tasks: 0,
            n_finished: 0,
            n_trials: 0,
            latest: String::new(),
            now: String::new(),
        }
    }

    /// Shows an event.
    pub(crate) fn on_event(&mut self, event: &Event<'_>) {
        match event {
            Event::Waiting { waited, whom } => return self.wait(*waited, whom),
            Event::Started { n_tasks } => {
                (self.n_tasks, self.latest) = (*n_tasks, String::new());
                self.line(&format!("tuning {}", count(*n_tasks, "kernel")));
            }
            Event::Chosen { task, reason } => self.now = format!("{task}: {reason}"),
            Event::Default { task, ns } => self.latest = format!("{task}: {}", latency(*ns)),
            Event::Trial { .. } => self.n_trials += 1,
            Event::Improved { task, from_ns, to_ns, .. } => {
                self.latest = format!("{task}: {} -> {}", latency(*from_ns), latency(*to_ns));
            }
            Event::Finished { task, result } => {
                self.n_finished += 1;
                let (default, best) = (latency(result.default_ns), latency(result.best_ns));
                let trials = count(result.trials as usize, "trial");
                self.line(&format!("{task}: {default} -> {best} ({trials})"));
            }
            Event::Skipped { task, why } => {
                self.n_finished += 1;
                self.line(&format!("{task}: not tuned: {why}"));
            }
            Event::Warning { what } => self.line(&format!("warning: {what}")),
            Event::Saved { .. } => {}
        }
        let Self { n_tasks, n_finished, n_trials, latest, now, .. } = self;
        let mut state = format!("{n_finished}/{n_tasks} kernels, {n_trials} trials");
        for it in [now, latest].into_iter().filter(|it| !it.is_empty()) {
            state += &format!("; {it}");
        }
        if self.bar.is_hidden() && self.last.elapsed() >= HEARTBEAT {
            self.line(&state);
        }
        self.bar.set_message(state);
        self.bar.tick();
    }

    /// Shows that another process holds a lock.
    fn wait(&mut self, waited: Duration, whom: &str) {
        let state = format!("waiting for {whom}: {} s", waited.as_secs());
        let is_first = self.latest != whom;
        if self.bar.is_hidden() && (is_first || self.last.elapsed() >= HEARTBEAT) {
            self.line(&state);
        }
        self.latest = whom.to_owned();
        self.bar.set_message(state);
        self.bar.tick();
    }

    /// Prints a line that stays.
    fn line(&mut self, text: &str) {
        self.last = Instant::now();
        if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
