//! The state that all tasks of a run share: a cost model, transfer sources, and the oracle.

use std::path::PathBuf;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_plan::database::{Cache, Database};

use super::options::{Options, Reuse};
use super::oracle::Oracle;
use super::recipe::{Recipe, When};
use crate::cost::features::Features;
use crate::cost::learned::{Analytic, Learned};
use crate::cost::model::{CostModel, ModelError};
use crate::measure::KeptCode;
use crate::transfer::{TransferSource, TransferSources};
use tvmtune_plan::printable::shown;

/// The shared state of a run.
pub(super) struct Shared {
    recipe: Recipe,
    model: CostModel,
    /// The file of the model, if it is stored.
    file: Option<PathBuf>,
    /// The error of reading that file.
    load_error: Option<ModelError>,
    pub(super) sources: TransferSources,
    pub(super) oracle: Oracle,
    /// The code of earlier records, if there is a cache.
    pub(super) kept: Option<KeptCode>,
    /// The user's cache, where runs tell what they do.
    pub(super) cache: Option<Cache>,
    n_tasks: usize,
    /// Threads that search.
    pub(super) n_threads: usize,
}

impl Shared {
    /// Loads the model and the transfer sources that earlier runs on this device stored.
    pub(super) fn load(options: &Options, database: &Database) -> Self {
        let (recipe, n_threads) = (options.recipe, options.n_threads);
        let target = options.device;
        let name = format!("{}.json", target.key().file_stem());
        let file = database.cache().filter(|_| recipe.learned_model);
        let file = file.map(|it| it.models().join(name));
        let stored = file.as_ref().filter(|it| options.reuse != Reuse::Ignore && it.exists());
        let (model, load_error) = match stored.map(|it| CostModel::load(it, n_threads)) {
            Some(Ok(model)) => (model, None),
            Some(Err(error)) => (CostModel::new(n_threads), Some(error)),
            None => (CostModel::new(n_threads), None),
        };
        let sources = match recipe.transfer {
            When::Never => TransferSources::default(),
            When::Once | When::Interleaved => TransferSources::from_database(database, &target),
        };
        Self {
            recipe,
            model,
            file,
            load_error,
            sources,
            oracle: Oracle::new(),
            kept: database.cache().map(KeptCode::new),
            cache: database.cache().cloned(),
            n_tasks: 0,
            n_threads,
        }
    }

    /// Stores the model for the next run; returns a warning if that fails.
    pub(super) fn save_model(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        let error = self.model.save(file).err()?;
        Some(format!("cannot keep what was learned in `{}`: {error}", shown(file)))
    }

    /// Returns a warning if the stored model could not be read.
    pub(super) fn load_warning(&mut self) -> Option<String> {
        let (error, file) = (self.load_error.take()?, self.file.as_ref()?);
        Some(format!("search starts without `{}`: {error}", shown(file)))
    }

    /// Numbers a new task.
    pub(super) fn add_task(&mut self) -> usize {
        self.n_tasks += 1;
        self.n_tasks - 1
    }

    /// Returns the learned cost model for a program, if it is trained.
    pub(super) fn learned<'a>(&'a self, dag: &'a Dag, target: &'a Target) -> Option<Learned<'a>> {
        let is_used = self.recipe.learned_model && self.model.is_trained();
        let analytic = match self.recipe.analytic_model {
            true => Analytic::Included,
            false => Analytic::Excluded,
        };
        let (model, n_threads) = (&self.model, self.n_threads);
        is_used.then_some(Learned { model, dag, target, analytic, n_threads })
    }

    /// Adds a sample to the model; `features` is called only if the model is used.
    pub(super) fn add_sample(
        &mut self,
        task: usize,
        features: impl FnOnce() -> Option<Features>,
        latency_ns: Option<f64>,
    ) {
        if self.recipe.learned_model
            && let Some(features) = features()
        {
            self.model.add(task, features, latency_ns);
        }
    }

    /// Trains the model on new samples.
    pub(super) fn train(&mut self) {
        if self.recipe.learned_model {
            match self.recipe.train_every {
                Some(n) => self.model.train_after(n as usize),
                None => self.model.train(),
            };
        }
    }

    /// Adds a schedule of a task of this run to the transfer sources.
    pub(super) fn add_source(&mut self, source: TransferSource) {
        if self.recipe.transfer == When::Interleaved {
            self.sources.add(source);
        }
    }
}
