//! The progress of a run, for `cargo tvmtune watch`: a file in the user's cache, replaced about once a
//! second.
//!
//! `<cache>/v1/progress/<process>.json` is replaced atomically; one whose process is gone, or that was not replaced for long, is removed.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tvmtune_plan::database::{Cache, Holder, atomic};
use tvmtune_plan::process;
use tvmtune_plan::read::{self, limit};

use super::event::Event;

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The process that tunes.
    pub process: u32,
    /// The package that it tunes.
    pub package: String,
    /// The phase of the run.
    pub phase: Phase,
    /// The time when it began, in ms since 1970.
    pub started_unix_ms: u64,
    /// The time of this state.
    pub updated_unix_ms: u64,
    /// The budget of the run.
    pub budget_seconds: f64,
    /// Tasks of the run.
    pub n_tasks: usize,
    /// Tasks that it has opened, those that cannot be tuned included.
    pub n_begun: usize,
    /// Tasks that it is done with.
    pub n_finished: usize,
    /// Candidates measured.
    pub n_trials: u64,
    /// The last improvement, or the last task that was opened.
    pub latest: String,
    /// The task of this round, and why it was chosen.
    #[serde(default)]
    pub now: String,
}

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits for other runs on the same device.
    Waiting,
    /// It searches.
    Tuning,
}

/// The file of a run's progress, which goes when the run ends.
#[derive(Debug)]
pub struct ProgressFile {
    /// The content of the file.
    pub progress: Progress,
    path: PathBuf,
    written: Option<Instant>,
}

/// The time between two states.
const PAUSE: Duration = Duration::from_secs(1);
/// The age from which a state is that of a run that hangs, or of a process that took its number.
const STALE: Duration = Duration::from_secs(600);

impl ProgressFile {
    /// Creates the file of a run in this process that waits for its device.
    pub fn new(cache: &Cache, package: &str, budget: Duration) -> Self {
        let (process, now) = (std::process::id(), unix_ms());
        let progress = Progress {
            process,
            package: package.to_owned(),
            phase: Phase::Waiting,
            started_unix_ms: now,
            updated_unix_ms: now,
            budget_seconds: budget.as_secs_f64(),
            n_tasks: 0,
            n_begun: 0,
            n_finished: 0,
            n_trials: 0,
            latest: String::new(),
            now: String::new(),
        };
        let path = cache.progress().join(format!("{process}.json"));
        let mut file = Self { progress, path, written: None };
        file.write();
        file
    }

    /// Takes an event into account.
    pub fn on_event(&mut self, event: &Event<'_>) {
        let before = self.progress.phase;
        self.progress.on_event(event);
        // Others that wait look for the run that measures.
        if self.progress.phase != before || self.written.is_none_or(|it| it.elapsed() >= PAUSE) {
            self.write();
        }
    }

    /// Replaces the file. A run goes on if nobody can see how far it got.
    fn write(&mut self) {
        self.written = Some(Instant::now());
        self.progress.updated_unix_ms = unix_ms();
        if let Ok(text) = serde_json::to_vec(&self.progress) {
            let _ = atomic::write_output(&self.path, &text);
        }
    }
}

impl Drop for ProgressFile {
    fn drop(&mut self) {
        // The next reader removes what cannot be removed now.
        let _ = fs::remove_file(&self.path);
    }
}

impl Progress {
    fn on_event(&mut self, event: &Event<'_>) {
        let us = |ns: f64| format!("{:.1} us", ns / 1e3);
        match event {
            Event::Started { n_tasks } => {
                (self.phase, self.n_tasks) = (Phase::Tuning, self.n_tasks + n_tasks);
            }
            Event::Chosen { task, reason } => self.now = format!("{task}: {reason}"),
            Event::Default { task, ns } => {
                self.n_begun += 1;
                self.latest = format!("{task}: {} by default", us(*ns));
            }
            // One whose default schedule was measured had begun before.
            Event::Skipped { .. } => {
                self.n_finished += 1;
                self.n_begun = self.n_begun.max(self.n_finished);
            }
            Event::Trial { .. } => self.n_trials += 1,
            Event::Improved { task, from_ns, to_ns, .. } => {
                self.latest = format!("{task}: {} -> {}", us(*from_ns), us(*to_ns));
            }
            Event::Finished { .. } => self.n_finished += 1,
            Event::Waiting { .. } | Event::Saved { .. } | Event::Warning { .. } => {}
        }
    }

    /// Returns the time since the run began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(unix_ms().saturating_sub(self.started_unix_ms))
    }

    /// Tells if its process is gone, or has said nothing for long.
    fn is_stale(&self) -> bool {
        let age = Duration::from_millis(unix_ms().saturating_sub(self.updated_unix_ms));
        process::is_gone(self.process) || age > STALE
    }
}

/// Returns who holds the lock of a device, with the package that is tuned.
pub fn who_measures(cache: &Cache, holder: &Holder) -> String {
    let runs = running(cache).into_iter();
    let is_holder = |it: &Progress| {
        it.phase == Phase::Tuning && holder.process().is_none_or(|process| it.process == process)
    };
    match runs.filter(is_holder).map(|it| it.package).next() {
        Some(package) => format!("{holder}, which tunes `{package}`"),
        None => format!("{holder}, which measures on this device"),
    }
}

/// Returns the progress of all runs, the oldest first; removes files that runs left behind.
pub fn running(cache: &Cache) -> Vec<Progress> {
    let mut running = Vec::new();
    for entry in fs::read_dir(cache.progress()).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|it| it != "json") {
            continue;
        }
        let read = read::bytes(&path, limit::SMALL).ok();
        match read.and_then(|it| serde_json::from_slice::<Progress>(&it).ok()) {
            Some(progress) if !progress.is_stale() => running.push(progress),
            // Another reader may have removed it.
            _ => drop(fs::remove_file(&path)),
        }
    }
    running.sort_by_key(|it| (it.started_unix_ms, it.process));
    running
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_can_be_seen_until_it_ends_and_what_others_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        assert!(running(&cache).is_empty());
        let mut file = ProgressFile::new(&cache, "model", Duration::from_secs(60));
        assert_eq!(running(&cache), [file.progress.clone()]);
        file.on_event(&Event::Started { n_tasks: 7 });
        let seen = running(&cache);
        assert_eq!((seen[0].phase, seen[0].n_tasks), (Phase::Tuning, 7));
        // No process has this number, and this one has not said anything since 1970.
        let gone = Progress { process: u32::MAX, ..file.progress.clone() };
        let silent = Progress { updated_unix_ms: 0, ..file.progress.clone() };
        for (name, progress) in [("gone.json", &gone), ("silent.json", &silent)] {
            let text = serde_json::to_vec(progress).unwrap();
            fs::write(cache.progress().join(name), text).unwrap();
        }
        fs::write(cache.progress().join("cut.json"), "{\"process\":").unwrap();
        assert_eq!(running(&cache).len(), 1);
        drop(file);
        assert!(running(&cache).is_empty());
        assert_eq!(fs::read_dir(cache.progress()).unwrap().count(), 0);
    }
}
