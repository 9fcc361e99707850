//! Tunes one cell: one network, in one way, from one seed, with nothing known but what its donor
//! knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tvmtune_build::tune::session::provenance;
use tvmtune_ir::target::CpuTarget;
use tvmtune_plan::database::{Cache, Database, Layer as Folder, LayerKind};
use tvmtune_tuner::measure::{Exclusive, WorkerCommand};
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{self, Event, Hardware, Options, Recipe, Summary};

use super::cell::{Cell, Layer, Missing};
use super::plan::{Budget, Key, Study};
use super::subject::Subject;
use super::watch::{self, Watch};

/// This machine, while nobody else measures on it.
pub(crate) struct Machine {
    pub(crate) target: CpuTarget,
    exclusive: Exclusive,
}

/// Where the cells of a study keep what they found.
fn dir(out: &Path, key: &Key) -> PathBuf {
    let donor = key.donor.as_ref().map(|it| format!("-from-{it}")).unwrap_or_default();
    out.join("cells").join(format!("{}{donor}-{}-{}", key.target, key.arm, key.seed))
}

/// The records that a cell may transfer: those that its donor left.
fn donor_dir(out: &Path, study: &Study, key: &Key) -> Option<PathBuf> {
    let donor = key.donor.as_ref()?;
    let cell = study.donors().into_iter().find(|it| it.target == *donor)?;
    Some(Cache::new(&dir(out, &cell)).records())
}

impl Machine {
    /// Waits until nobody else measures here.
    ///
    /// # Errors
    ///
    /// If that takes too long, or there is no place for the lock.
    pub(crate) fn acquire(target: CpuTarget, patience: Duration) -> Result<Self> {
        let Some(cache) = Cache::discover() else {
            bail!("there is no folder for locks; set `TVMTUNE_CACHE` to one");
        };
        let exclusive = Exclusive::acquire(&cache, &target.key(), patience)?;
        Ok(Self { target, exclusive })
    }

    /// Tunes a cell. What an earlier attempt at it left is removed first.
    ///
    /// # Errors
    ///
    /// If nothing can be measured, or nothing can be written.
    pub(crate) fn run_cell(
        &self,
        (out, study, key): (&Path, &Study, &Key),
        subject: &Subject,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Cell> {
        let (recipe, budget) = study.terms(key).context("a cell of another study")?;
        let own = dir(out, key);
        if own.exists() {
            fs::remove_dir_all(&own)
                .with_context(|| format!("cannot empty `{}`", own.display()))?;
        }
        let cache = Cache::new(&own);
        let mut folders = vec![Folder { kind: LayerKind::Cache, dir: cache.records() }];
        let donor = donor_dir(out, study, key);
        folders.extend(donor.map(|dir| Folder { kind: LayerKind::Overlay, dir }));
        let database = Database::new(folders, Some(cache));

        let mut watch = Watch::new(tasks(subject));
        let options = self.options(recipe, budget, key.seed)?;
        let mut see = |event: Event<'_>| {
            watch.see(&event);
            on_event(&event);
        };
        let summary =
            tune::run(&subject.workloads, &options, &database, &self.exclusive, &mut see)?;
        watch.close();
        let (layers, missing) = layers(subject, &summary, recipe, &watch);
        Ok(Cell {
            key: key.clone(),
            device: self.target.key().0,
            tool: options.provenance.tool,
            recipe,
            budget,
            seconds: summary.seconds,
            unix_ms: SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64,
            layers,
            missing,
            curve: watch.curve,
        })
    }

    fn options(&self, recipe: Recipe, budget: Budget, seed: u64) -> Result<Options> {
        let total = Duration::try_from_secs_f64(budget.seconds).context("`seconds`")?;
        Ok(Options {
            targets: vec![self.target.into()],
            nvrtc: None,
            budget: tune::Budget { trials: budget.trials, per_task: total, total },
            seed,
            hardware: Hardware::Worker(WorkerCommand::this_executable()?),
            n_threads: n_cores(),
            recipe,
            refines: false,
            afresh: false,
            provenance: provenance(),
        })
    }
}

/// The tasks of a subject, each with how often it runs.
fn tasks(subject: &Subject) -> impl Iterator<Item = (String, f64)> {
    subject.workloads.iter().flat_map(|workload| {
        let name = |bucket: &Vec<_>| {
            let dims = workload.dag.dims.iter().zip(bucket);
            let dims = dims.map(|(dim, range)| (dim.name.clone(), *range)).collect();
            watch::name(&workload.dag.name, dims)
        };
        workload.buckets.iter().map(move |it| (name(it), workload.weight))
    })
}

/// The layers that were tuned, and those that were not.
fn layers(
    subject: &Subject,
    summary: &Summary,
    recipe: Recipe,
    watch: &Watch,
) -> (Vec<Layer>, Vec<Missing>) {
    let mut layers = Vec::new();
    for (name, weight) in tasks(subject) {
        let Some(result) = summary.results.iter().find(|it| watch::task(&it.task) == name) else {
            continue;
        };
        layers.push(Layer {
            curve: watch.layer(&name),
            name,
            multiplicity: weight as u32,
            default_ns: result.default_ns,
            // What search found, where analysis is not to help it; the default if that was nothing.
            best_ns: match (recipe.analytic, result.found_ns) {
                (false, Some(found_ns)) => found_ns,
                (true, _) | (false, None) => result.best_ns,
            },
            trials: result.trials,
            seconds: result.seconds,
            source: result.source.name().to_owned(),
        });
    }
    let skipped = summary.skipped.iter().map(|(task, why)| (task, why.as_str()));
    let unreached = summary.unreached.iter().map(|task| (task, "the budget did not reach it"));
    let missing = skipped.chain(unreached);
    let missing =
        missing.map(|(task, why)| Missing { name: watch::task(task), why: why.to_owned() });
    (layers, missing.collect())
}
