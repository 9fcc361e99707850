//! The results of a study in an append-only file: one JSON object a line for each finished cell, which
//! is a network tuned by one search strategy with one seed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::tune::Recipe;

use super::plan::{Budget, Key, Study, Terms};

/// The result of tuning one network with one arm of the study and one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// The network, the arm and the seed.
    #[serde(flatten)]
    pub(crate) key: Key,
    /// The device it was measured on.
    pub(crate) device: String,
    /// The version of the tool.
    pub(crate) tool: String,
    /// The arm's search strategy and its options.
    pub(crate) recipe: Recipe,
    /// The choice of the layer of each round; cells without one are older than any other.
    #[serde(default = "recent_gain")]
    pub(crate) scheduler: Scheduler,
    /// Trials and seconds that the arm might spend.
    pub(crate) budget: Budget,
    /// The cells whose records it was given.
    #[serde(default, rename = "donors")]
    pub(crate) sources: Vec<Key>,
    /// The share of the machine's processor time that other programs used; unknown of older cells.
    #[serde(default)]
    pub(crate) other_load: Option<f64>,
    /// Seconds that it took.
    pub(crate) seconds: f64,
    /// When it was finished, in ms since 1970.
    pub(crate) unix_ms: u64,
    /// The layers that were tuned.
    pub(crate) layers: Vec<Layer>,
    /// The layers that were not tuned.
    pub(crate) missing: Vec<Missing>,
    /// The convergence curve of the network: all tuned layers together.
    pub(crate) curve: Vec<Step>,
}

fn recent_gain() -> Scheduler {
    Scheduler::RecentGain
}

/// A layer that was tuned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Layer {
    pub(crate) name: String,
    /// Its number of runs in the network.
    pub(crate) multiplicity: u32,
    /// The latency of the default schedule.
    pub(crate) default_ns: f64,
    /// The latency of the best schedule that the arm found, timed side by side with the default one.
    pub(crate) best_ns: f64,
    pub(crate) trials: u64,
    pub(crate) seconds: f64,
    /// The strategy that proposed the best schedule.
    pub(crate) source: String,
    /// Its convergence curve.
    pub(crate) curve: Vec<Step>,
}

/// A layer that was not tuned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// A step of a convergence curve: the best latency after a number of trials and seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, f64, f64)", into = "(u64, f64, f64)")]
pub(crate) struct Step {
    pub(crate) trials: u64,
    pub(crate) seconds: f64,
    pub(crate) ns: f64,
}

impl From<(u64, f64, f64)> for Step {
    fn from((trials, seconds, ns): (u64, f64, f64)) -> Self {
        Self { trials, seconds, ns }
    }
}

impl From<Step> for (u64, f64, f64) {
    fn from(step: Step) -> Self {
        (step.trials, step.seconds, step.ns)
    }
}

impl Cell {
    /// Returns the latency of the network with the best schedules; `None` if a layer is missing.
    pub(crate) fn best_ns(&self) -> Option<f64> {
        self.total(|it| it.best_ns)
    }

    /// Returns the latency of the network with the default schedules; `None` if a layer is missing.
    pub(crate) fn default_ns(&self) -> Option<f64> {
        self.total(|it| it.default_ns)
    }

    /// Returns the layer of that name.
    pub(super) fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.iter().find(|it| it.name == name)
    }

    fn total(&self, latency_ns: impl Fn(&Layer) -> f64) -> Option<f64> {
        let sum = self.layers.iter().map(|it| f64::from(it.multiplicity) * latency_ns(it)).sum();
        (self.missing.is_empty() && !self.layers.is_empty()).then_some(sum)
    }

    /// Tells if it was made by that study, by the terms that the study has now.
    fn belongs_to(&self, study: &Study) -> bool {
        let Self { recipe, scheduler, budget, .. } = *self;
        study.terms(&self.key) == Some(Terms { recipe, scheduler, budget })
            && study.sources_of_cell(&self.key) == self.sources
    }
}

/// The cells of a study that are finished.
pub(crate) struct Cells {
    path: PathBuf,
    pub(crate) cells: Vec<Cell>,
}

impl Cells {
    /// Reads what a folder has of a study. Lines that were cut off, and cells of a study that has
    /// since changed, are passed over; if a cell occurs more than once, the last line wins.
    ///
    /// # Errors
    ///
    /// If there is a file that can't be read.
    pub(crate) fn read(out: &Path, study: &Study) -> Result<Self> {
        let path = out.join("cells.jsonl");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("cannot read `{}`", path.display()))?,
        };
        let mut cells: Vec<Cell> = Vec::new();
        let read = text.lines().filter_map(|it| serde_json::from_str::<Cell>(it).ok());
        for cell in read.filter(|it| it.belongs_to(study)) {
            cells.retain(|it| (&it.key, &it.device) != (&cell.key, &cell.device));
            cells.push(cell);
        }
        Ok(Self { path, cells })
    }

    /// Tells if a cell is finished on that device.
    pub(crate) fn has(&self, key: &Key, device: &str) -> bool {
        self.cells.iter().any(|it| it.key == *key && it.device == device)
    }

    /// Adds a cell.
    ///
    /// # Errors
    ///
    /// If it can't be written.
    pub(crate) fn push(&mut self, cell: Cell) -> Result<()> {
        let failed = || format!("cannot write `{}`", self.path.display());
        // A truncated last line must not merge with the next one.
        let end = fs::read(&self.path).ok().and_then(|it| it.last().copied());
        let is_whole = end.is_none_or(|it| it == b'\n');
        let mut line = if is_whole { Vec::new() } else { b"\n".to_vec() };
        serde_json::to_writer(&mut line, &cell)?;
        line.push(b'\n');
        let file = File::options().create(true).append(true).open(&self.path);
        file.and_then(|mut it| it.write_all(&line)).with_context(failed)?;
        self.cells.push(cell);
        Ok(())
    }
}
