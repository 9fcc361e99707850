//! Networks tuned as a whole, live, under several schedulers, beside replays of their recorded curves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::device;
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::allocation::replay::{ReplayStep, Replayed, SlotLength};
use tvmtune_tuner::executor::{MachineLock, TuningJob};
use tvmtune_tuner::tune::{self, Budget, Event, Workload};

use crate::Result;
use crate::arm::{Arm, Case};
use crate::curves;
use crate::record::{HOUR, Recording};

/// The options of live runs.
pub(crate) struct Live {
    pub(crate) recording: Recording,
    pub(crate) schedulers: Vec<Scheduler>,
    pub(crate) seconds: u64,
}

/// A run of a network.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    network: String,
    seed: u64,
    scheduler: Scheduler,
    budget_seconds: u64,
    device: String,
    /// The seconds since the run began, and the weighted latency of all layers in ns, after each trial that
    /// lowered it, from when each layer has a candidate that works.
    steps: Vec<(f64, f64)>,
    /// The order of rounds, by the number of the layer.
    rounds: Vec<usize>,
}

const FILE: &str = "live.jsonl";

impl Live {
    /// Runs what a folder has not yet, scheduler by scheduler in each network and seed, so that the machine's
    /// drift spares none.
    pub(crate) fn run(&self, folder: &Path) -> Result<()> {
        let known = read(folder)?;
        let cache = Cache::discover().ok_or("set `TVMTUNE_CACHE` to a folder for locks")?;
        let target = device::detect().ok_or("this machine runs no generated kernels")?;
        let lock = MachineLock::of_device(&cache, &target.into(), HOUR)?;
        for seed in &self.recording.seeds {
            for network in &self.recording.networks {
                for scheduler in &self.schedulers {
                    let is_known = |it: &Run| {
                        (it.network.as_str(), it.seed, it.scheduler, it.budget_seconds)
                            == (network, *seed, *scheduler, self.seconds)
                    };
                    if known.iter().any(is_known) {
                        continue;
                    }
                    let run = self.tune(network, *seed, *scheduler, &lock)?;
                    let last = run.steps.last().map_or(f64::NAN, |it| it.1 / 1e3);
                    eprintln!("{network} {seed} {scheduler}: {last:.1} us");
                    let mut file =
                        File::options().create(true).append(true).open(folder.join(FILE))?;
                    writeln!(file, "{}", serde_json::to_string(&run)?)?;
                }
            }
        }
        Ok(())
    }

    fn tune(&self, name: &str, seed: u64, scheduler: Scheduler, lock: &MachineLock) -> Result<Run> {
        let network = tvmtune_zoo::network(name).ok_or(format!("no network `{name}`"))?;
        let workloads: Vec<Workload> = network.layers.iter().map(curves::workload).collect();
        let mut options = self.recording.options(seed)?;
        options.scheduler = scheduler;
        options.budget = Budget { total: Duration::from_secs(self.seconds), ..options.budget };
        let folder = tempfile::tempdir()?;
        let cache = Cache::new(folder.path());
        let store = Store { kind: StoreKind::Cache, dir: cache.records() };
        let database = Database::new(vec![store], Some(cache));
        let number = |program: &str| workloads.iter().position(|it| it.dag.name == program);
        let mut best = vec![f64::INFINITY; workloads.len()];
        let (clock, mut steps, mut rounds) = (Instant::now(), Vec::new(), Vec::new());
        let mut observe = |event: Event<'_>| match event {
            Event::Chosen { task, .. } => rounds.extend(number(&task.program)),
            Event::Trial { task, outcome, .. } => {
                let (Some(n), Some(timing)) = (number(&task.program), outcome.timing()) else {
                    return;
                };
                if timing.min_ns() < best[n] {
                    best[n] = timing.min_ns();
                    let total = workloads.iter().zip(&best).map(|(it, ns)| it.weight * ns).sum();
                    if f64::is_finite(total) {
                        steps.push((clock.elapsed().as_secs_f64(), total));
                    }
                }
            }
            _ => {}
        };
        tune::run(&workloads, &options, &database, &TuningJob::holding(lock), &mut observe)?;
        Ok(Run {
            network: name.to_owned(),
            seed,
            scheduler,
            budget_seconds: self.seconds,
            device: options.device.key().to_string(),
            steps,
            rounds,
        })
    }
}

/// Returns the runs of a folder.
fn read(folder: &Path) -> Result<Vec<Run>> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path)?;
    Ok(text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect())
}

/// Prints, for each live run, its mean latency from the time at which all runs of that network and seed have
/// one, relative to that of the run under round-robin, and the same for replays.
pub(crate) fn compare(folder: &Path, cases: &[Case], slot: SlotLength) -> Result<()> {
    let runs = read(folder)?;
    let mut groups: BTreeMap<(String, u64, u64), Vec<&Run>> = BTreeMap::new();
    for run in &runs {
        let key = (run.network.clone(), run.seed, run.budget_seconds);
        groups.entry(key).or_default().push(run);
    }
    for ((network, seed, seconds), runs) in groups {
        let begin = |it: &&Run| it.steps.first().map_or(f64::INFINITY, |it| it.0);
        let from = runs.iter().map(begin).fold(0.0, f64::max);
        let live = |it: &Run| {
            let step = |(seconds, total_ns): &(f64, f64)| ReplayStep {
                task: 0,
                seconds: *seconds,
                total_ns: *total_ns,
            };
            let steps = it.steps.iter().map(step).collect();
            let run = Replayed { steps, ..Replayed::default() };
            (run.mean_between(from, seconds as f64, 1.0), run.last_ns())
        };
        let case = cases
            .iter()
            .find(|it| it.network.starts_with(&format!("{network},")) && it.seed == seed);
        let replayed = |it: &Run| {
            let run = Arm::Scheduler(it.scheduler).replay(case?, slot)?;
            let tasks = case?.tasks.len();
            let first = run.steps.get(tasks - 1)?.seconds;
            let end = first + seconds as f64 - from;
            Some((run.mean_between(first, end, 1.0), run.total_after(end)))
        };
        let Some(base) = runs.iter().find(|it| it.scheduler == Scheduler::RoundRobin) else {
            continue;
        };
        for run in &runs {
            let (area, last) = live(run);
            let (base_area, base_last) = live(base);
            let replays = replayed(run).zip(replayed(base));
            println!(
                "{}",
                json!({
                    "live": network, "seed": seed, "seconds": seconds,
                    "arm": run.scheduler.to_string(),
                    "area_of_round_robin": area / base_area,
                    "last_of_round_robin": last / base_last,
                    "replayed_area": replays.map(|(a, b)| a.0 / b.0),
                    "replayed_last": replays.map(|(a, b)| a.1 / b.1),
                })
            );
        }
    }
    Ok(())
}
