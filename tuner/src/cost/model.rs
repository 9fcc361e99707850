//! The learned cost model: a GBDT trained on the measurements of all tasks of a device.
//!
//! In: [`Features`] of schedules with their latencies. Out: predictions for other schedules. Next:
//! search measures those that score best.
//!
//! The label is the share of the best speed measured for the task, 0 for failures: tasks of any size
//! count alike, and what is learned from one applies to the next.
//!
//! # Source
//!
//! Ansor's model (`xgb_model.py` of TVM 0.16). There, failures have weight 0; here, a small one.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::features::{FEATURES, Features, WIDTH};
use super::gbdt::{Gbdt, Objective, Program};
use tvmtune_plan::database::{DatabaseError, atomic};
use tvmtune_plan::read::{self, limit};

/// The version of the file.
const VERSION: u32 = 1;
/// The number of samples from which on the model is trained.
const MIN_SAMPLES: usize = 16;
/// The weight of a sample of a failed schedule; others add their label.
const MIN_WEIGHT: f64 = 0.05;
/// The newest samples, which are trained on and stored: more improve little and take long.
const MAX_SAMPLES: usize = 2000;

/// Samples, and the model trained on them.
#[derive(Debug)]
pub struct CostModel {
    samples: Vec<Sample>,
    /// The numbers in `samples` of the tasks of this run: those of earlier runs have other ones.
    tasks: BTreeMap<usize, u32>,
    n_tasks: u32,
    /// The trained ensemble.
    trained: Option<Trained>,
    n_threads: usize,
}

/// An ensemble, and the number of samples when it was trained.
#[derive(Debug)]
struct Trained {
    n_samples: usize,
    ensemble: Gbdt,
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

/// The error of reading or writing a model file.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] DatabaseError),
    /// The text is not a model.
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

impl CostModel {
    /// Creates a model without samples; predictions do not depend on the number of threads.
    pub fn new(n_threads: usize) -> Self {
        Self { samples: Vec::new(), tasks: BTreeMap::new(), n_tasks: 0, trained: None, n_threads }
    }

    /// Adds the latency of a schedule of a task of this run; `None` if it failed.
    pub fn add(&mut self, task: usize, features: Features, latency_ns: Option<f64>) {
        let next = self.n_tasks;
        let task = *self.tasks.entry(task).or_insert(next);
        self.n_tasks = next.max(task + 1);
        let latency_ns = latency_ns.filter(|it| it.is_finite() && *it > 0.0);
        self.samples.push(Sample { task, latency_ns, features });
    }

    /// Returns the number of samples.
    pub fn n_samples(&self) -> usize {
        self.samples.len()
    }

    /// Trains on all samples anew, if there are enough, and a fifth more than the last time; tells
    /// if it did.
    pub fn train(&mut self) -> bool {
        let last = self.n_trained();
        self.train_after(last.min(MAX_SAMPLES).div_ceil(5))
    }

    /// Trains on all samples anew, if there are enough, and so many more than the last time; tells if it
    /// did.
    pub fn train_after(&mut self, n_new: usize) -> bool {
        let n = self.samples.len();
        if n < MIN_SAMPLES || n - self.n_trained() < n_new.max(1) {
            return false;
        }
        let ensemble = Gbdt::train(&self.programs(), WIDTH, Objective::Mean, self.n_threads);
        self.trained = Some(Trained { n_samples: n, ensemble });
        true
    }

    /// Returns the number of samples that it was trained on the last time.
    fn n_trained(&self) -> usize {
        self.trained.as_ref().map_or(0, |it| it.n_samples)
    }

    /// Tells if it was trained.
    pub fn is_trained(&self) -> bool {
        self.trained.is_some()
    }

    /// Predicts the share of the best speed of their task that schedules reach: higher is better. All
    /// are 0 before training.
    pub fn predict(&self, schedules: &[Features]) -> Vec<f64> {
        let predict = |it: &Features| match &self.trained {
            Some(trained) => trained.ensemble.predict(it.numbers()),
            None => 0.0,
        };
        schedules.iter().map(predict).collect()
    }

    /// Labels the newest samples with their share of the best speed measured so far.
    fn programs(&self) -> Vec<Program<'_>> {
        let mut best = vec![f64::INFINITY; self.n_tasks as usize];
        for it in &self.samples {
            let best = &mut best[it.task as usize];
            *best = best.min(it.latency_ns.unwrap_or(f64::INFINITY));
        }
        let label = |it: &Sample| it.latency_ns.map_or(0.0, |ns| best[it.task as usize] / ns);
        let newest = self.samples.len().saturating_sub(MAX_SAMPLES);
        let labelled = self.samples[newest..].iter().map(|it| (it.features.numbers(), label(it)));
        labelled.map(|(rows, label)| Program { rows, label, weight: label + MIN_WEIGHT }).collect()
    }

    /// Writes its samples to a file: a model that is loaded is trained on them again.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        let newest = self.samples.len().saturating_sub(MAX_SAMPLES);
        let head = Head { version: VERSION, features: FEATURES };
        let stored = Stored { head, samples: self.samples[newest..].to_vec() };
        let text = serde_json::to_vec(&stored).map_err(|it| ModelError::Mangled(it.to_string()))?;
        Ok(atomic::write(path, &text)?)
    }

    /// Reads and trains the model of a file; tasks that are added later get other numbers.
    ///
    /// # Errors
    ///
    /// If there is no such file, or no model of this version in it.
    pub fn load(path: &Path, n_threads: usize) -> Result<Self, ModelError> {
        let text =
            read::bytes(path, limit::CACHED).map_err(|it| DatabaseError::io("read", path, it))?;
        let mangled = |it: serde_json::Error| ModelError::Mangled(it.to_string());
        let Head { version, features } = serde_json::from_slice(&text).map_err(mangled)?;
        if (version, features) != (VERSION, FEATURES) {
            return Err(ModelError::Version { version, features });
        }
        let stored: Stored = serde_json::from_slice(&text).map_err(mangled)?;
        let mut model = Self::new(n_threads);
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

    /// Features with only two numbers that differ.
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
        let mut model = CostModel::new(1);
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
        let mut model = CostModel::new(1);
        assert!(!model.train());
        assert_eq!(model.predict(&[features(1.0, 0.0)]), [0.0]);
        add(&mut model, 0, MIN_SAMPLES);
        assert!(model.train() && !model.train());
        add(&mut model, 0, MIN_SAMPLES / 5);
        assert!(!model.train());
        add(&mut model, 0, 1);
        assert!(model.train());
        add(&mut model, 0, 40);
        assert!(!model.train_after(41) && model.train_after(40) && !model.train_after(0));
    }

    #[test]
    fn labels_follow_the_best_of_their_task() {
        let mut model = CostModel::new(1);
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
    fn a_file_restores_the_model() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("models/cost.json");
        let model = trained();
        model.save(&path).unwrap();
        let mut loaded = CostModel::load(&path, 1).unwrap();
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
            std::fs::write(&path, text).unwrap();
            CostModel::load(&path, 1)
        };
        assert!(matches!(CostModel::load(&path, 1), Err(ModelError::File(_))));
        let other = load(&format!(r#"{{"version":1,"features":{},"x":[]}}"#, FEATURES + 1));
        assert!(matches!(other, Err(ModelError::Version { version: 1, .. })), "{other:?}");
        let newer = load(r#"{"version":2,"features":1}"#);
        assert!(matches!(newer, Err(ModelError::Version { version: 2, .. })), "{newer:?}");
        trained().save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
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
