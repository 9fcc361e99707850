//! Evolution that begins with the schedule a value function chose, beside evolution that does not.

use std::time::Duration;

use serde_json::json;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::target::Target;
use tvmtune_plan::database::{Cache, Database, Files, Store, StoreKind};
use tvmtune_plan::record::{Bucket, End, Entry, GENERATOR, Provenance, Record, Source, schema};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::executor::{MachineLock, TuningJob};
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::statistics::ratio;
use tvmtune_tuner::tune::{self, Budget, Hardware, Options, Recipe, Reuse, When};
use tvmtune_tuner::value::{Analysis, Policy, ValueFunction};

use crate::Result;
use crate::data::Layer;
use crate::{improve, lock};

/// Prefixes that are followed at once.
const WIDTH: usize = 16;
/// The final quality that is to be reached, and the share of the trials after which it is asked for.
const QUALITY: f64 = 0.99;
/// Long enough for any layer.
const HOUR: Duration = Duration::from_secs(3600);

/// Compares searches of the layers of a network, with a function that was trained on all others.
pub(crate) fn run(
    layers: &[Layer],
    network: &str,
    n_schedules: usize,
    trials: u64,
    seeds: &[u64],
) -> Result<()> {
    let others: Vec<&Layer> = layers.iter().filter(|it| it.network != network).collect();
    let lock = lock()?;
    let functions = improve::functions(&others, n_schedules, Analysis::Factor, &lock)?;
    let value = functions.last().ok_or("a function")?;
    let comparison = Comparison { value, trials, seeds, lock: &lock };
    comparison.run(layers.iter().filter(|it| it.network == network), network)
}

/// The searches that are compared.
struct Comparison<'a> {
    value: &'a ValueFunction,
    trials: u64,
    seeds: &'a [u64],
    lock: &'a MachineLock,
}

impl Comparison<'_> {
    /// Prints for the layers of a network how many trials each search takes to 99 % of the final quality of
    /// the one that is not seeded, and its latency by then.
    fn run<'b>(&self, layers: impl Iterator<Item = &'b Layer>, network: &str) -> Result<()> {
        let (mut trials, mut at_half, mut at_end) = (Vec::new(), Vec::new(), Vec::new());
        for layer in layers {
            let policy = Policy { width: WIDTH, margin: 0.0 };
            let chosen = policy.choose(self.value, &layer.features(), n_cores());
            let Some(chosen) = chosen else { continue };
            let trace = layer.space.instructions(&chosen.point);
            let (mut of_trials, mut of_half, mut of_end) = (Vec::new(), Vec::new(), Vec::new());
            for seed in self.seeds {
                let plain = self.search(layer, None, *seed)?;
                let seeded = self.search(layer, Some(&trace), *seed)?;
                let (Some(last), Some(seeded_last)) = (plain.last(), seeded.last()) else {
                    continue;
                };
                let wanted_ns = last / QUALITY;
                let n_until = |it: &[f64]| {
                    it.iter().position(|ns| *ns <= wanted_ns).map_or(it.len(), |n| n + 1) as f64
                };
                let half = &seeded[..seeded.len().div_ceil(2)];
                of_trials.push(n_until(&seeded) / n_until(&plain));
                of_half.extend(half.last().map(|ns| ns / last));
                of_end.push(seeded_last / last);
                println!(
                    "{}",
                    json!({
                        "layer": layer.workload.dag.name,
                        "seed": seed,
                        "plain_until": n_until(&plain),
                        "seeded_until": n_until(&seeded),
                        "first_of_last": seeded.first().map(|it| it / last),
                        "half_of_last": of_half.last(),
                    })
                );
            }
            trials.push(of_trials);
            at_half.push(of_half);
            at_end.push(of_end);
        }
        let interval = |it: &[Vec<f64>]| ratio(it).map(|it| [it.mean, it.low, it.high]);
        println!(
            "{}",
            json!({
                "network": network,
                "trials_to_99_percent": interval(&trials),
                "latency_at_half_of_plain_at_end": interval(&at_half),
                "latency_at_end_of_plain": interval(&at_end),
            })
        );
        Ok(())
    }

    /// Searches a layer; returns the best latency after each trial.
    fn search(
        &self,
        layer: &Layer,
        seed_trace: Option<&[Instruction]>,
        seed: u64,
    ) -> Result<Vec<f64>> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::new(folder.path());
        let store = Store { kind: StoreKind::Cache, dir: cache.records() };
        let database = Database::new(vec![store], Some(cache.clone()));
        if let Some(trace) = seed_trace {
            database.put(&prediction(layer, trace)?, &Files::default())?;
        }
        let options = self.options(layer, seed)?;
        let job = TuningJob::holding(self.lock);
        let workloads = std::slice::from_ref(&layer.workload);
        tune::run(workloads, &options, &database, &job, &mut |_| ())?;
        let name = ProgramName::of(&layer.workload.dag.name);
        let log = tune::log_file(&cache, name.as_str(), &layer.workload.id, &layer.target.key());
        let mut best = f64::INFINITY;
        let searched = tune::trials(&log).into_iter().filter(|it| it.source != Source::Default);
        let best_so_far = searched.map(|it| {
            best = it.outcome.timing().map_or(best, |it| it.min_ns().min(best));
            best
        });
        Ok(best_so_far.collect())
    }

    fn options(&self, layer: &Layer, seed: u64) -> Result<Options> {
        let recipe = Recipe {
            analytic: false,
            transfer: When::Never,
            space: layer.rules,
            ..Recipe::default()
        };
        Ok(Options {
            device: layer.target,
            targets: vec![layer.target],
            nvrtc: None,
            budget: Budget { trials: self.trials, per_task: HOUR, total: HOUR },
            seed,
            hardware: Hardware::Worker(WorkerCommand::this_executable()?),
            n_threads: n_cores(),
            recipe,
            scheduler: Scheduler::default(),
            reuse: Reuse::Compete,
            provenance: Provenance::default(),
        })
    }
}

/// Returns the record of a schedule that was chosen for a layer.
fn prediction(layer: &Layer, trace: &[Instruction]) -> Result<Record> {
    let (workload, device) = (&layer.workload, layer.target.key());
    let schedule = Schedule::replay(&workload.dag, trace).map_err(|it| it.to_string())?;
    let Target::Cpu(cpu) = layer.target else {
        return Err("it is of a GPU".into());
    };
    let generated = tvmtune_cpu::generate(&schedule, cpu.isa)?;
    let platform = cpu.isa.into();
    let entry = Entry::unmeasured(platform, generated.artifact, Source::Predicted, trace);
    Ok(Record {
        schema: schema(&device),
        workload: workload.id,
        name: ProgramName::of(&workload.dag.name),
        device,
        generator: GENERATOR,
        dag: workload.text.clone(),
        provenance: Provenance::default(),
        buckets: vec![Bucket { schedules: vec![entry], ..Bucket::default() }],
        end: End {},
    })
}
