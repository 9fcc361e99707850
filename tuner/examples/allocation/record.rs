//! Tunes each layer of networks by itself, with a cost model of its own, so that its curve does not depend on
//! what others get.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tvmtune_ir::name::ProgramName;
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::device;
use tvmtune_plan::record::{Provenance, Source};
use tvmtune_space::lower_bound::lower_bound_ns;
use tvmtune_space::work::Work;
use tvmtune_tuner::allocation::replay::{RecordedTask, RecordedTrial};
use tvmtune_tuner::allocation::{Scheduler, similarity_group};
use tvmtune_tuner::executor::{MachineLock, TuningJob};
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{self, Budget, Hardware, Options, Recipe, Reuse, Rules, Trial, When};
use tvmtune_zoo::Layer;

use crate::Result;
use crate::curves::{Curve, Curves, Schedule, workload};

/// The options of a recording.
pub(crate) struct Recording {
    pub(crate) networks: Vec<String>,
    pub(crate) seeds: Vec<u64>,
    pub(crate) trials: u64,
    pub(crate) space: Rules,
    pub(crate) is_analytic: bool,
}

/// Long enough for any layer.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

impl Recording {
    /// Records what a folder has not yet, seed by seed.
    pub(crate) fn run(&self, folder: &Path) -> Result<()> {
        let target = device::detect().ok_or("this machine runs no generated kernels")?;
        let cache = Cache::discover().ok_or("set `TVMTUNE_CACHE` to a folder for locks")?;
        let lock = MachineLock::of_device(&cache, &target.into(), HOUR)?;
        let mut curves = Curves::read(folder)?;
        for seed in &self.seeds {
            for name in &self.networks {
                let network = tvmtune_zoo::network(name).ok_or(format!("no network `{name}`"))?;
                for layer in &network.layers {
                    let options = self.options(*seed)?;
                    let recipe = options.recipe;
                    if curves.has(name, *seed, &recipe, &layer.name) {
                        continue;
                    }
                    let (task, schedules) = record(layer, &options, &lock)?;
                    let best =
                        task.trials.iter().filter_map(|it| it.ns).fold(f64::INFINITY, f64::min);
                    let seconds: f64 = task.trials.iter().map(|it| it.seconds).sum();
                    eprintln!(
                        "{name} {seed} {}: {} trials, {seconds:.0} s, {:.1} us",
                        layer.name,
                        task.trials.len(),
                        best / 1e3
                    );
                    let device = target.key().to_string();
                    let (network, seed) = (name.clone(), *seed);
                    curves.push(Curve { network, seed, device, recipe, task, schedules })?;
                }
            }
        }
        Ok(())
    }

    /// Returns the options of runs from a seed.
    pub(crate) fn options(&self, seed: u64) -> Result<Options> {
        let target = device::detect().ok_or("this machine runs no generated kernels")?;
        // The schedulers decide from nothing: no transfer, and no start by analysis if not asked for.
        let recipe = Recipe {
            analytic: self.is_analytic,
            transfer: When::Never,
            space: self.space,
            ..Recipe::default()
        };
        Ok(Options {
            device: target.into(),
            targets: vec![target.into()],
            nvrtc: None,
            budget: Budget { trials: self.trials, per_task: HOUR, total: HOUR },
            seed,
            hardware: Hardware::Worker(WorkerCommand::this_executable()?),
            n_threads: n_cores(),
            recipe,
            scheduler: Scheduler::default(),
            reuse: Reuse::Compete,
            provenance: Provenance { tool: "allocation".to_owned(), ..Provenance::default() },
        })
    }
}

/// Tunes a layer; returns its trials, and the schedule of each.
fn record(
    layer: &Layer,
    options: &Options,
    lock: &MachineLock,
) -> Result<(RecordedTask, Vec<Schedule>)> {
    let workload = workload(layer);
    let target = options.device;
    let folder = tempfile::tempdir()?;
    let cache = Cache::new(folder.path());
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    let database = Database::new(vec![store], Some(cache.clone()));
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    let job = TuningJob::holding(lock);
    tune::run(std::slice::from_ref(&workload), options, &database, &job, &mut |_| ())?;
    let name = ProgramName::of(&workload.dag.name);
    let log = tune::log_file(&cache, name.as_str(), &workload.id, &target.key());
    let trials: Vec<Trial> =
        tune::trials(&log).into_iter().filter(|it| it.source != Source::Default).collect();
    let at = |it: &Trial| it.unix_ms as f64 / 1e3;
    let mut last = trials.first().map_or(began, at);
    let opening_seconds = (last - began).max(0.0);
    // Choosing and building a batch is time of its first trial.
    let recorded = trials.iter().map(|it| {
        let seconds = (at(it) - last).max(0.0);
        last = at(it);
        RecordedTrial { ns: it.outcome.timing().map(|it| it.min_ns()), seconds }
    });
    let flops = Work::of(&workload.dag, &[]).flops;
    let task = RecordedTask {
        name: layer.name.clone(),
        weight: f64::from(layer.multiplicity),
        flops,
        bound_ns: lower_bound_ns(&workload.dag, &[], &target),
        group: Some(similarity_group(&workload.dag, flops)),
        opening_seconds,
        trials: recorded.collect(),
    };
    let schedules = trials.into_iter().map(|it| (it.sketch, it.choices)).collect();
    Ok((task, schedules))
}
