//! The study of the executor: several tuning jobs on one machine under each policy, and what became of
//! the latency of their kernels, of the machine's use, and of the time.
//!
//! `executor [--jobs 1,2,4] [--trials 256] [--seeds 1,2,3] [--one-thread] [--train-every 16,64,256]
//! [--mix unequal] [--policies interleaved,predictive]` prints
//! a line of JSON for each policy, set of jobs and number of jobs. With `--one-thread`, kernels have one
//! thread; a policy without isolation then is tried with workers on a core of their own, too (by `taskset`).
//! `--mix` and `--policies` name what is tried. With `--train-every`, interleaved jobs are also run with cost
//! models that are trained after so many samples.
//!
//! Latencies count as measured side by side, when all jobs have ended and the machine is idle. The
//! disturbance of measurements shows in latencies that were measured while jobs ran, beside those of the same
//! code on the idle machine: in their rank correlation, and in the scatter of their ratios.
//!
//! The stages of the sequential jobs then run in simulations, as if their kernels were of GPUs, on larger
//! machines with more jobs.

mod arms;
mod idle;
mod jobs;
mod simulated;

use std::env;
use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use tvmtune_ir::target::CpuTarget;
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_schedule::Instruction;
use tvmtune_tuner::executor::{Capacity, Executor, MachineLock, Stage, Timeline};
use tvmtune_tuner::measure::worker;
use tvmtune_tuner::statistics::{median, ratio};

use arms::{Arm, Mix};
use idle::{Agreement, Idle};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Long enough for any job.
const HOUR: Duration = Duration::from_secs(3600);

/// The options of the study.
struct Study {
    n_jobs: Vec<usize>,
    trials: u64,
    seeds: Vec<u64>,
    train_every: Vec<u32>,
    mixes: Vec<Mix>,
    /// The names of the policies that are tried, beside the baseline; all, if there are none.
    policies: Vec<String>,
    target: CpuTarget,
}

/// The sequential jobs, with which others are compared, of one seed.
struct Baseline {
    bests: Vec<Vec<Instruction>>,
    timeline: Timeline,
    /// Trials per second, of all jobs together.
    rate: f64,
}

/// Some jobs under one policy, from all seeds.
#[derive(Default)]
struct Cell {
    /// The latency of what each job found, relative to that of the baseline: by seed, by job.
    latencies: Vec<Vec<f64>>,
    /// Of all jobs.
    agreements: Vec<Agreement>,
    timelines: Vec<Timeline>,
    /// Trials of all jobs together, by seed.
    trials: Vec<f64>,
    /// Trials per second, relative to the baseline.
    speedups: Vec<f64>,
}

fn main() -> Result<()> {
    worker::maybe_run();
    let study = Study::from_arguments(env::args().skip(1))?;
    let cache = Cache::discover().ok_or("set `TVMTUNE_CACHE` to a folder for locks")?;
    let lock = MachineLock::of_device(&cache, &study.target.into(), HOUR)?;
    let idle = Idle { target: study.target, lock: &lock };
    for mix in study.mixes.clone() {
        for n_jobs in &study.n_jobs {
            let mut baselines = Vec::new();
            for arm in study.arms() {
                let cell = study.cell(&arm, mix, *n_jobs, &mut baselines, &idle)?;
                println!("{}", cell.line(&arm, mix, *n_jobs));
            }
            let is_last = Some(n_jobs) == study.n_jobs.last();
            if let Some(baseline) = baselines.first().filter(|_| is_last) {
                simulated::run(mix, &baseline.timeline);
            }
        }
    }
    Ok(())
}

impl Study {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut study = Self {
            n_jobs: vec![1, 2, 4],
            trials: 256,
            seeds: vec![1, 2, 3],
            train_every: Vec::new(),
            mixes: vec![Mix::Equal, Mix::Unequal],
            policies: Vec::new(),
            target: device::detect().ok_or("this machine runs no generated kernels")?,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
            match argument.as_str() {
                "--jobs" => study.n_jobs = list(&value()?)?,
                "--trials" => study.trials = value()?.parse()?,
                "--seeds" => study.seeds = list(&value()?)?,
                "--train-every" => study.train_every = list(&value()?)?,
                "--mix" => {
                    let name = value()?;
                    study.mixes.retain(|it| it.name() == name);
                }
                "--policies" => study.policies = list(&value()?)?,
                "--one-thread" => study.target.threads = 1,
                _ => return Err(format!("`{argument}` is no option").into()),
            }
        }
        Ok(study)
    }

    fn arms(&self) -> Vec<Arm> {
        let mut arms = Arm::policies();
        arms.extend((self.target.threads == 1).then(Arm::pinned));
        let is_tried = |it: &Arm| {
            it.name == Arm::BASELINE || self.policies.is_empty() || self.policies.contains(&it.name)
        };
        arms.retain(is_tried);
        arms.extend(self.train_every.iter().map(|it| Arm::trained_every(*it)));
        arms
    }

    /// Runs jobs from every seed, and measures again what came of them. The first arm makes the baselines.
    fn cell(
        &self,
        arm: &Arm,
        mix: Mix,
        n_jobs: usize,
        baselines: &mut Vec<Baseline>,
        idle: &Idle<'_>,
    ) -> Result<Cell> {
        let capacity = Capacity { cores: 2, memory: u64::MAX };
        let workloads = mix.workloads(n_jobs)?;
        let mut cell = Cell::default();
        for (n, seed) in self.seeds.iter().enumerate() {
            let executor = Executor::new((arm.policy)(), capacity, None);
            let ended = jobs::run(self, arm, *seed, &workloads, &executor)?;
            let timeline = executor.timeline();
            let trials = ended.iter().map(|it| it.trials.len()).sum::<usize>() as f64;
            let rate = trials / timeline.makespan().as_secs_f64();
            if n == baselines.len() {
                let bests = ended.iter().map(|it| it.best.clone()).collect();
                baselines.push(Baseline { bests, timeline: timeline.clone(), rate });
            }
            let baseline = &baselines[n];
            let mut latencies = Vec::new();
            for (it, best_of_baseline) in ended.iter().zip(&baseline.bests) {
                let traces = [it.best.clone(), best_of_baseline.clone()];
                if let [Some(own), Some(other)] = &idle.timings(&it.workload, &traces)?[..] {
                    latencies.push(own.typical_ns() / other.typical_ns());
                }
                cell.agreements.extend(idle.agreement(it)?);
            }
            cell.latencies.push(latencies);
            cell.trials.push(trials);
            cell.speedups.push(rate / baseline.rate);
            cell.timelines.push(timeline);
        }
        Ok(cell)
    }
}

impl Cell {
    fn line(&self, arm: &Arm, mix: Mix, n_jobs: usize) -> Value {
        let latency = ratio(&self.latencies).map(|it| [it.mean, it.low, it.high]);
        let worst = self.latencies.iter().flatten().copied().fold(0.0, f64::max);
        let middle = |of: &dyn Fn(&Timeline) -> f64| {
            median(&self.timelines.iter().map(of).collect::<Vec<_>>())
        };
        let agreement = |of: &dyn Fn(&Agreement) -> f64| {
            median(&self.agreements.iter().map(of).collect::<Vec<_>>())
        };
        json!({
            "jobs": n_jobs,
            "mix": mix.name(),
            "arm": arm.name,
            "latency": latency,
            "latencies": self.latencies,
            "worst_latency": worst,
            "rank_correlation": agreement(&|it| it.correlation),
            "scatter": agreement(&|it| it.scatter),
            "trials": median(&self.trials),
            "disturbed": middle(&Timeline::disturbed),
            "core_use": middle(&|it| it.core_use(2)),
            "device_use": middle(&Timeline::device_use),
            "learning": middle(&|it| it.share_of(Stage::Learn)),
            "makespan": middle(&|it| it.makespan().as_secs_f64()),
            "speedup": median(&self.speedups),
            "mean_completion": middle(&|it| it.mean_completion().as_secs_f64()),
        })
    }
}

fn list<T: FromStr>(text: &str) -> std::result::Result<Vec<T>, T::Err> {
    text.split(',').map(str::parse).collect()
}
