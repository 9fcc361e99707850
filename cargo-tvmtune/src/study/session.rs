//! Tunes one cell: one network by one arm from one seed, with the records of its transfer source only.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tvmtune_build::tune::session::provenance;
use tvmtune_ir::target::CpuTarget;
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_tuner::executor::{MachineLock, TuningJob};
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{self, Event, Hardware, Options, Recipe, Reuse, Summary};

use super::cell::{Cell, Layer, Missing};
use super::convergence::{self, Convergence};
use super::load::{self, ProcessorTime};
use super::network::Network;
use super::plan::{Key, Study, Terms};

/// This machine, locked.
pub(crate) struct Machine {
    pub(crate) target: CpuTarget,
    lock: MachineLock,
    /// The time that each cell waits for other programs to leave the machine alone, at most.
    wait: Duration,
}

/// Returns the folder of a cell.
fn dir(out: &Path, key: &Key) -> PathBuf {
    let source = key.source.as_ref().map(|it| format!("-from-{it}")).unwrap_or_default();
    out.join("cells").join(format!("{}{source}-{}-{}", key.target, key.arm, key.seed))
}

/// Returns the folder of the records of a cell.
fn records(out: &Path, key: &Key) -> PathBuf {
    Cache::new(&dir(out, key)).records()
}

/// Tells if the records of a cell are there, for others to transfer.
pub(crate) fn has_records(out: &Path, key: &Key) -> bool {
    fs::read_dir(records(out, key)).is_ok_and(|mut it| it.next().is_some())
}

impl Machine {
    /// Takes the lock of the device.
    ///
    /// # Errors
    ///
    /// If that takes too long, or there is no place for the lock.
    pub(crate) fn acquire(target: CpuTarget, patience: Duration, wait: Duration) -> Result<Self> {
        let Some(cache) = Cache::discover() else {
            bail!("there is no folder for locks; set `TVMTUNE_CACHE` to one");
        };
        let lock = MachineLock::of_device(&cache, &target.into(), patience)?;
        Ok(Self { target, lock, wait })
    }

    /// Tunes a cell of the study in folder `out`. What an earlier attempt at it left is removed first.
    ///
    /// # Errors
    ///
    /// If nothing can be measured, or nothing can be written.
    pub(crate) fn run_cell(
        &self,
        out: &Path,
        study: &Study,
        key: &Key,
        network: &Network,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Cell> {
        let terms = study.terms(key).context("a cell of another study")?;
        let Terms { recipe, scheduler, budget } = terms;
        let own = dir(out, key);
        if own.exists() {
            fs::remove_dir_all(&own)
                .with_context(|| format!("cannot empty `{}`", own.display()))?;
        }
        let cache = Cache::new(&own);
        let mut folders = vec![Store { kind: StoreKind::Cache, dir: cache.records() }];
        let sources = study.sources_of_cell(key);
        let overlay = |it| Store { kind: StoreKind::Overlay, dir: records(out, it) };
        folders.extend(sources.iter().map(overlay));
        let database = Database::new(folders, Some(cache));

        load::wait(self.wait);
        let start = ProcessorTime::now();
        let mut convergence = Convergence::new(tasks(network));
        let options = self.options(terms, key.seed)?;
        let mut observe = |event: Event<'_>| {
            convergence.on_event(&event);
            on_event(&event);
        };
        let job = TuningJob::holding(&self.lock);
        let summary = tune::run(&network.workloads, &options, &database, &job, &mut observe)?;
        convergence.close();
        let others = |start: ProcessorTime| Some(ProcessorTime::now()?.others_since(&start));
        let (layers, missing) = layers(network, &summary, recipe, &convergence);
        Ok(Cell {
            key: key.clone(),
            device: self.target.key().to_string(),
            tool: options.provenance.tool,
            recipe,
            scheduler,
            budget,
            sources,
            other_load: start.and_then(others),
            seconds: summary.times.total.as_secs_f64(),
            unix_ms: SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64,
            layers,
            missing,
            curve: convergence.curve,
        })
    }

    fn options(&self, terms: Terms, seed: u64) -> Result<Options> {
        let Terms { recipe, scheduler, budget } = terms;
        let total = Duration::try_from_secs_f64(budget.seconds).context("`seconds`")?;
        Ok(Options {
            device: self.target.into(),
            targets: vec![self.target.into()],
            nvrtc: None,
            budget: tune::Budget { trials: budget.trials, per_task: total, total },
            seed,
            hardware: Hardware::Worker(WorkerCommand::this_executable()?),
            n_threads: n_cores(),
            recipe,
            scheduler,
            reuse: Reuse::Compete,
            provenance: provenance(),
        })
    }
}

/// Returns the names of a network's tasks, each with its weight.
fn tasks(network: &Network) -> impl Iterator<Item = (String, f64)> {
    network.workloads.iter().flat_map(|workload| {
        let name = |bucket: &Vec<_>| {
            let dims = workload.dag.dims.iter().zip(bucket);
            let dims = dims.map(|(dim, range)| (dim.name.clone(), *range)).collect();
            convergence::name(&workload.dag.name, dims)
        };
        workload.buckets.iter().map(move |it| (name(it), workload.weight))
    })
}

/// Returns the layers that were tuned, and those that were not.
fn layers(
    network: &Network,
    summary: &Summary,
    recipe: Recipe,
    convergence: &Convergence,
) -> (Vec<Layer>, Vec<Missing>) {
    let mut layers = Vec::new();
    for (name, weight) in tasks(network) {
        let Some(result) = summary.results.iter().find(|it| convergence::task(&it.task) == name)
        else {
            continue;
        };
        layers.push(Layer {
            curve: convergence.layer(&name),
            name,
            multiplicity: weight as u32,
            default_ns: result.default_ns,
            // Without default points, the default schedule counts only if the search found none.
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
        missing.map(|(task, why)| Missing { name: convergence::task(task), why: why.to_owned() });
    (layers, missing.collect())
}
