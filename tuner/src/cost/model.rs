//! A model that learns from measurements which schedules are fast, for all tasks of a device together.
//!
//! In: [`Features`] of schedules, with how long they took. Out: for others, how good they are to be
//! expected. Next: search measures the best.
//!
//! What is learned is the share of the best speed known for the task, 0 for what failed: so tasks of
//! any size count alike, and what holds for one is tried for the next.
//!
//! # Source
//!
//! Ansor's model (`xgb_model.py` of TVM 0.16). There, what failed counts nothing; here, little.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::boost::{Forest, Options, Program};
use super::features::{FEATURES, Features, WIDTH};
use crate::parallel::n_cores;
use tvmtune_plan::database::{DatabaseError, atomic};

/// The version of the file.
const VERSION: u32 = 1;
/// Fewer samples say nothing.
const FEWEST: usize = 16;
/// What also counts of a sample, however bad it is.
const FLOOR: f64 = 0.05;
/// Samples that are learned from, and kept in a file: the newest. More teach little and take long.
const MOST: usize = 2000;

/// What was measured, and what was learned from it.
#[derive(Debug)]
pub struct CostModel {
    samples: Vec<Sample>,
    /// What tasks of this run are called in `samples`: those of earlier runs are others.
    tasks: BTreeMap<usize, u32>,
    n_tasks: u32,
    /// How many samples the forest has seen, and the forest.
    trained: Option<(usize, Forest)>,
    n_threads: usize,
}

/// One schedule that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    task: u32,
    /// `None` if it failed.
    latency_ns: Option<f64>,
    features: Features,
}

/// The head of the file; newer versions may have other fields.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    features: u32,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    head: Head,
    samples: Vec<Sample>,
}

/// Why there is no model in a file, or could not be put there.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] DatabaseError),
    /// The text is no model.
    #[error("no cost model: {0}")]
    Mangled(String),
    /// Another version wrote it, or one that saw other features.
    #[error(
        "a cost model of version {version} with features {features}, expected {VERSION} and {FEATURES}"
    )]
    Version {
        /// The version of the file.
        version: u32,
        /// The version of the features.
        features: u32,
    },
}

impl Default for CostModel {
    fn default() -> Self {
        Self::new()
    }
}

impl CostModel {
    /// A model that has seen nothing.
    pub fn new() -> Self {
        Self {
            samples: Vec::new(),
            tasks: BTreeMap::new(),
            n_tasks: 0,
            trained: None,
            n_threads: n_cores(),
        }
    }

    /// The same, to be trained on that many threads; its predictions do not depend on how many.
    pub fn with_threads(mut self, n_threads: usize) -> Self {
        self.n_threads = n_threads;
        self
    }

    /// Notes how long a schedule of a task took; `None` if it failed. Tasks are those of this run.
    pub fn add(&mut self, task: usize, features: Features, latency_ns: Option<f64>) {
        let next = self.n_tasks;
        let task = *self.tasks.entry(task).or_insert(next);
        self.n_tasks = next.max(task + 1);
        let latency_ns = latency_ns.filter(|it| it.is_finite() && *it > 0.0);
        self.samples.push(Sample { task, latency_ns, features });
    }

    /// How many schedules it knows of.
    pub fn n_samples(&self) -> usize {
        self.samples.len()
    }

    /// Learns from all samples anew, if there are enough, and a fifth more than the last time. Whether
    /// it did.
    pub fn train(&mut self) -> bool {
        let n = self.samples.len();
        let known = self.trained.as_ref().map_or(0, |it| it.0);
        if n < FEWEST || (n - known) * 5 < known.min(MOST) || n == known {
            return false;
        }
        let options = Options::new(WIDTH, self.n_threads);
        self.trained = Some((n, Forest::grow(&self.programs(), &options)));
        true
    }

    /// Whether it has learned anything.
    pub fn is_trained(&self) -> bool {
        self.trained.is_some()
    }

    /// What share of the best speed known of their task schedules may reach: higher is better. All
    /// the same before anything was learned.
    pub fn predict(&self, schedules: &[Features]) -> Vec<f64> {
        let predict = |it: &Features| match &self.trained {
            Some((_, forest)) => forest.predict(it.numbers()),
            None => 0.0,
        };
        schedules.iter().map(predict).collect()
    }

    /// Samples as what is learned: the share of the best speed known by now.
    fn programs(&self) -> Vec<Program<'_>> {
        let mut best = vec![f64::INFINITY; self.n_tasks as usize];
        for it in &self.samples {
            let best = &mut best[it.task as usize];
            *best = best.min(it.latency_ns.unwrap_or(f64::INFINITY));
        }
        let label = |it: &Sample| it.latency_ns.map_or(0.0, |ns| best[it.task as usize] / ns);
        let newest = self.samples.len().saturating_sub(MOST);
        let labelled = self.samples[newest..].iter().map(|it| (it.features.numbers(), label(it)));
        labelled.map(|(rows, label)| Program { rows, label, weight: label + FLOOR }).collect()
    }

    /// Writes what it has seen to a file: a model that is loaded learns it again.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        let newest = self.samples.len().saturating_sub(MOST);
        let head = Head { version: VERSION, features: FEATURES };
        let stored = Stored { head, samples: self.samples[newest..].to_vec() };
        let text = serde_json::to_vec(&stored).map_err(|it| ModelError::Mangled(it.to_string()))?;
        Ok(atomic::write(path, &text)?)
    }

    /// The model of a file, trained; its tasks are others than those that will be added.
    ///
    /// # Errors
    ///
    /// If there is no such file, or no model of this version in it.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let text = fs::read(path).map_err(|it| DatabaseError::io("read", path, it))?;
        let mangled = |it: serde_json::Error| ModelError::Mangled(it.to_string());
        let Head { version, features } = serde_json::from_slice(&text).map_err(mangled)?;
        if (version, features) != (VERSION, FEATURES) {
            return Err(ModelError::Version { version, features });
        }
        let stored: Stored = serde_json::from_slice(&text).map_err(mangled)?;
        let mut model = Self::new();
        for sample in stored.samples {
            if !sample.features.is_sound() {
                return Err(ModelError::Mangled("a row that is not whole".to_owned()));
            }
            model.add(sample.task as usize, sample.features, sample.latency_ns);
        }
        model.tasks.clear();
        model.train();
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::super::features::slog;
    use super::*;

    /// Features that say only two numbers.
    fn features(x: f64, y: f64) -> Features {
        let mut numbers = vec![0.0; 2 * WIDTH];
        (numbers[3], numbers[WIDTH + 5]) = (slog(x), slog(y));
        Features::from_numbers(numbers)
    }

    /// A task whose schedules take longer by the first number; every seventh fails.
    fn add(model: &mut CostModel, task: usize, n: usize) {
        for it in 0..n {
            let x = (it * 37 % 101) as f64;
            let latency_ns = (it % 7 != 0).then_some((task + 1) as f64 * 1e3 * (10.0 + x));
            model.add(task, features(x, if it % 7 == 0 { 9.0 } else { 0.0 }), latency_ns);
        }
    }

    fn trained() -> CostModel {
        let mut model = CostModel::new().with_threads(1);
        add(&mut model, 0, 150);
        add(&mut model, 3, 150);
        assert!(!model.is_trained() && model.train() && model.is_trained());
        model
    }

    #[test]
    fn fast_schedules_are_told_from_slow_ones_and_from_those_that_fail() {
        let asked = [1.0, 30.0, 90.0].map(|it| features(it, 0.0));
        let model = trained();
        let predicted = model.predict(&asked);
        assert!(predicted.is_sorted_by(|a, b| a > b), "{predicted:?}");
        let failing = model.predict(&[features(1.0, 9.0)])[0];
        assert!(failing < predicted[0] * 0.8, "{failing} {predicted:?}");
        assert!((predicted[0] - 1.0).abs() < 0.2, "{predicted:?}");
    }

    #[test]
    fn nothing_is_learned_from_little_or_anew_from_little_more() {
        let mut model = CostModel::new();
        assert!(!model.train());
        assert_eq!(model.predict(&[features(1.0, 0.0)]), [0.0]);
        add(&mut model, 0, FEWEST);
        assert!(model.train() && !model.train());
        add(&mut model, 0, FEWEST / 5);
        assert!(!model.train());
        add(&mut model, 0, 1);
        assert!(model.train());
    }

    #[test]
    fn labels_follow_the_best_of_their_task() {
        let mut model = CostModel::new();
        model.add(7, features(1.0, 0.0), Some(100.0));
        model.add(7, features(1.0, 0.0), None);
        model.add(2, features(1.0, 0.0), Some(7.0));
        model.add(7, features(1.0, 0.0), Some(f64::NAN));
        let labels = |it: &CostModel| it.programs().iter().map(|it| it.label).collect::<Vec<_>>();
        assert_eq!(labels(&model), [1.0, 0.0, 1.0, 0.0]);
        model.add(7, features(1.0, 0.0), Some(25.0));
        assert_eq!(labels(&model), [0.25, 0.0, 1.0, 0.0, 1.0]);
        assert!((model.programs()[0].weight - 0.3).abs() < 1e-12);
    }

    #[test]
    fn a_file_holds_all_that_was_learned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("models/cost.json");
        let model = trained();
        model.save(&path).unwrap();
        let mut loaded = CostModel::load(&path).unwrap();
        let asked = [1.0, 30.0, 90.0].map(|it| features(it, 0.0));
        assert_eq!(loaded.predict(&asked), model.predict(&asked));
        assert_eq!(loaded.samples, model.samples);
        // A new task with an old number is another task.
        loaded.add(0, features(1.0, 0.0), Some(1.0));
        assert_eq!(loaded.programs().last().map(|it| it.label), Some(1.0));
        assert_eq!(loaded.programs()[1].label, model.programs()[1].label);
    }

    #[test]
    fn files_of_others_and_mangled_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cost.json");
        let load = |text: &str| {
            fs::write(&path, text).unwrap();
            CostModel::load(&path)
        };
        assert!(matches!(CostModel::load(&path), Err(ModelError::File(_))));
        let other = load(&format!(r#"{{"version":1,"features":{},"x":[]}}"#, FEATURES + 1));
        assert!(matches!(other, Err(ModelError::Version { version: 1, .. })), "{other:?}");
        let newer = load(r#"{"version":2,"features":1}"#);
        assert!(matches!(newer, Err(ModelError::Version { version: 2, .. })), "{newer:?}");
        trained().save(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for mangled in [
            text[..text.len() / 2].to_owned(),
            text.replace("\"features\":[0,", "\"features\":["),
            text.replace("\"latency_ns\":", "\"latency\":"),
            text.replacen('0', "\"", 1),
            String::new(),
        ] {
            let loaded = load(&mangled);
            assert!(matches!(loaded, Err(ModelError::Mangled(_))), "{loaded:?}");
        }
        assert!(load(&text).is_ok());
    }
}
