//! The study of the executor: several tuning jobs on one machine under each policy, and what became of
//! the latency of their kernels, of the machine's use, and of the time.
//!
//! `executor [--jobs 1,2,4] [--trials 48] [--seed 1] [--one-thread]` prints a line of JSON for each
//! policy, set of jobs and number of jobs. With `--one-thread`, kernels have one thread; a policy
//! without isolation then is tried with workers on a core of their own, too (by `taskset`).
//!
//! Latencies count as measured side by side, when all jobs have ended and the machine is idle. How far
//! measurements were disturbed shows in the rank correlation of latencies that were measured while jobs
//! ran with those of the same code on the idle machine.
//!
//! The stages of the sequential jobs then run in simulations, as if their kernels were of GPUs, on larger
//! machines with more jobs.

use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tvmtune_ir::dsl;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::target::{CpuTarget, DeviceKey, Isa};
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::device;
use tvmtune_plan::record::Provenance;
use tvmtune_schedule::Instruction;
use tvmtune_tuner::executor::{
    Capacity, Executor, Interleaved, MachineLock, NaiveParallel, Needs, Policy, Predictive,
    Sequential, SimulatedJob, SimulatedStage, Span, Timeline, simulate,
};
use tvmtune_tuner::measure::{WorkerCommand, worker};
use tvmtune_tuner::statistics::{geometric_mean, median};
use tvmtune_tuner::tune::{
    self, Bench, Bucket, Budget, Hardware, Options, Recipe, Reuse, Tolerance, Trial, Workload,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Trials of each job whose code is measured again on the idle machine.
const N_COMPARED: usize = 16;
/// Timings of each, side by side.
const ROUNDS: usize = 9;
/// Long enough for any job.
const HOUR: Duration = Duration::from_secs(3600);

/// A way to run jobs.
struct Arm {
    name: &'static str,
    policy: fn() -> Box<dyn Policy>,
    /// True if workers have a core of their own, and all else the others.
    is_pinned: bool,
}

const ARMS: [Arm; 6] = [
    Arm { name: "sequential", policy: || Box::new(Sequential), is_pinned: false },
    Arm { name: "naive", policy: || Box::new(NaiveParallel), is_pinned: false },
    Arm { name: "interleaved", policy: || Box::new(Interleaved::new()), is_pinned: false },
    Arm { name: "predictive", policy: || Box::new(Predictive), is_pinned: false },
    Arm {
        name: "not isolated",
        policy: || Box::new(Interleaved::without_isolation()),
        is_pinned: false,
    },
    Arm { name: "pinned", policy: || Box::new(Interleaved::without_isolation()), is_pinned: true },
];

/// The jobs of one size, or of sizes a hundred times apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    Equal,
    Unequal,
}

/// Some jobs under one policy.
struct Cell<'a> {
    arm: &'a Arm,
    mix: Mix,
    n_jobs: usize,
}

/// The options of the study.
struct Study {
    jobs: Vec<usize>,
    trials: u64,
    seed: u64,
    is_one_thread: bool,
}

/// A job that has ended.
struct Ended {
    workload: Workload,
    /// The schedule that its record names first.
    best: Vec<Instruction>,
    trials: Vec<Trial>,
}

fn main() -> Result<()> {
    worker::maybe_run();
    let study = Study::from_arguments(env::args().skip(1))?;
    let mut target = device::detect().ok_or("this machine runs no generated kernels")?;
    if study.is_one_thread {
        target.threads = 1;
    }
    let cache = Cache::discover().ok_or("set `TVMTUNE_CACHE` to a folder for locks")?;
    let lock = MachineLock::of_device(&cache, &target.into(), HOUR)?;
    for mix in [Mix::Equal, Mix::Unequal] {
        for n_jobs in &study.jobs {
            let mut baseline = None;
            for arm in &ARMS {
                if !arm.is_pinned || study.is_one_thread {
                    let cell = Cell { arm, mix, n_jobs: *n_jobs };
                    run_cell(&study, &cell, target, &lock, &mut baseline)?;
                }
            }
            if let Some(baseline) = baseline.filter(|_| Some(n_jobs) == study.jobs.last()) {
                simulate_cells(mix, &baseline.timeline);
            }
        }
    }
    Ok(())
}

/// Machines of simulations: cores and GPUs, and the number of jobs.
const MACHINES: [(usize, usize, usize); 5] =
    [(2, 1, 8), (16, 1, 8), (16, 8, 100), (128, 64, 1000), (8, 8, 100)];

/// Runs the stages of recorded jobs on machines with GPUs; prints a line for each machine and policy.
fn simulate_cells(mix: Mix, recorded: &Timeline) {
    for (cores, n_gpus, n_jobs) in MACHINES {
        let jobs: Vec<SimulatedJob> =
            (0..n_jobs).map(|n| on_gpu(recorded, n as u64, n_gpus as u64)).collect();
        let capacity = Capacity { cores, memory: u64::MAX };
        let mut of_baseline = None;
        for arm in ARMS.iter().filter(|it| !it.is_pinned) {
            let timeline = simulate((arm.policy)().as_ref(), capacity, &jobs);
            let makespan = timeline.makespan().as_secs_f64();
            let line = json!({
                "simulated": format!("{cores} cores, {n_gpus} GPUs, {n_jobs} jobs"),
                "mix": mix.name(),
                "arm": arm.name,
                "disturbed": timeline.disturbed(),
                "device_use": timeline.device_use(),
                "speedup": *of_baseline.get_or_insert(makespan) / makespan,
                "mean_completion": timeline.mean_completion().as_secs_f64(),
            });
            println!("{line}");
        }
    }
}

/// Returns a recorded job with its timed stages on a GPU and the others on one core.
fn on_gpu(recorded: &Timeline, n: u64, n_gpus: u64) -> SimulatedJob {
    let n_recorded = recorded.spans.iter().map(|it| it.job + 1).max().unwrap_or(1);
    let spans = recorded.spans.iter().filter(|it| it.job == n % n_recorded);
    let stage = |it: &Span| SimulatedStage {
        stage: it.stage,
        needs: match it.stage.is_timed() {
            true => Needs { cores: 0, ..Needs::gpu(gpu((n / n_recorded) % n_gpus)) },
            false => Needs::cores(1),
        },
        time: it.end - it.start,
    };
    SimulatedJob { priority: 0, stages: spans.map(stage).collect() }
}

/// Returns the key of a device that stands for a GPU.
fn gpu(n: u64) -> DeviceKey {
    CpuTarget { threads: n as u32 + 1, ..CpuTarget::generic(Isa::Avx2) }.key()
}

impl Mix {
    fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Unequal => "unequal",
        }
    }
}

/// The jobs that others are compared with.
struct Baseline {
    bests: Vec<Vec<Instruction>>,
    timeline: Timeline,
}

impl Study {
    fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut study = Self { jobs: vec![1, 2, 4], trials: 48, seed: 1, is_one_thread: false };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
            match argument.as_str() {
                "--jobs" => {
                    let numbers = value()?;
                    study.jobs = numbers
                        .split(',')
                        .map(str::parse)
                        .collect::<std::result::Result<_, _>>()?;
                }
                "--trials" => study.trials = value()?.parse()?,
                "--seed" => study.seed = value()?.parse()?,
                "--one-thread" => study.is_one_thread = true,
                _ => return Err(format!("`{argument}` is no option").into()),
            }
        }
        Ok(study)
    }

    /// Returns the programs of some jobs: products of nearly the same size, or these beside small and
    /// large ones.
    fn workloads(&self, mix: Mix, n_jobs: usize) -> Result<Vec<Workload>> {
        (0..n_jobs).map(|n| workload(mix, n)).collect()
    }

    fn options(&self, arm: &Arm, target: CpuTarget) -> Result<Options> {
        let mut worker = WorkerCommand::this_executable()?;
        if arm.is_pinned {
            worker =
                WorkerCommand::new("taskset".into()).arg("-c").arg("1").arg(env::current_exe()?);
        }
        Ok(Options {
            device: target.into(),
            targets: vec![target.into()],
            nvrtc: None,
            budget: Budget { trials: self.trials, per_task: HOUR, total: HOUR },
            seed: self.seed,
            hardware: Hardware::Worker(worker),
            n_threads: 2,
            recipe: Recipe::default(),
            reuse: Reuse::Compete,
            provenance: Provenance { tool: "executor".to_owned(), ..Provenance::default() },
        })
    }
}

fn workload(mix: Mix, n: usize) -> Result<Workload> {
    let (m, k) = match (mix, n % 4) {
        (Mix::Equal, _) => (192 + 8 * n, 256),
        (Mix::Unequal, 0) => (384 + 8 * n, 512),
        (Mix::Unequal, 1) => (16 + n, 128),
        (Mix::Unequal, 2) => (96 + 8 * n, 256),
        (Mix::Unequal, _) => (40 + n, 64),
    };
    let text = format!(
        "#[autotune(dims(M = {m}, N = 256, K = {k}))]
        fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }}"
    );
    let dag = dsl::program(&text).map_err(|it| it.to_string())?;
    Ok(Workload::new(dag, vec![Vec::new()], Tolerance { rel: 1e-4, abs: 1e-4 }))
}

/// Runs the jobs of a cell, and measures again what came of them; prints a line.
fn run_cell(
    study: &Study,
    cell: &Cell<'_>,
    target: CpuTarget,
    lock: &MachineLock,
    baseline: &mut Option<Baseline>,
) -> Result<()> {
    let Cell { arm, mix, n_jobs } = *cell;
    let capacity = Capacity { cores: 2, memory: u64::MAX };
    let executor = Executor::new((arm.policy)(), capacity, None);
    let workloads = study.workloads(mix, n_jobs)?;
    let ended = run_jobs(study, arm, &workloads, target, &executor)?;
    let timeline = executor.timeline();
    let makespan = timeline.makespan().as_secs_f64();
    let bests: Vec<Vec<Instruction>> = ended.iter().map(|it| it.best.clone()).collect();
    let baseline = baseline.get_or_insert_with(|| Baseline { bests, timeline: timeline.clone() });
    let of_baseline = baseline.timeline.makespan().as_secs_f64();
    let mut ratios = Vec::new();
    let mut correlations = Vec::new();
    for (it, best_of_baseline) in ended.iter().zip(&baseline.bests) {
        let times = idle(&it.workload, &[it.best.clone(), best_of_baseline.clone()], target, lock)?;
        if let [Some(own), Some(other)] = times[..] {
            ratios.push(own / other);
        }
        correlations.extend(correlation(it, target, lock)?);
    }
    let line = json!({
        "jobs": n_jobs,
        "mix": mix.name(),
        "arm": arm.name,
        "latency": geometric_mean(&ratios),
        "worst_latency": ratios.iter().copied().fold(0.0, f64::max),
        "rank_correlation": median(&correlations),
        "disturbed": timeline.disturbed(),
        "core_use": timeline.core_use(2),
        "device_use": timeline.device_use(),
        "makespan": makespan,
        "speedup": of_baseline / makespan,
        "mean_completion": timeline.mean_completion().as_secs_f64(),
    });
    println!("{line}");
    Ok(())
}

/// Runs a job for each workload, on threads of this process.
fn run_jobs(
    study: &Study,
    arm: &Arm,
    workloads: &[Workload],
    target: CpuTarget,
    executor: &Arc<Executor>,
) -> Result<Vec<Ended>> {
    let options = study.options(arm, target)?;
    let folders: Vec<tempfile::TempDir> =
        workloads.iter().map(|_| tempfile::tempdir()).collect::<std::io::Result<_>>()?;
    let jobs: Vec<_> = workloads.iter().map(|_| executor.job(0)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = workloads
            .iter()
            .zip(&folders)
            .zip(jobs)
            .map(|((workload, folder), job)| {
                let options = &options;
                scope.spawn(move || {
                    let database = database(folder.path());
                    let workloads = std::slice::from_ref(workload);
                    tune::run(workloads, options, &database, &job, &mut |_| ())
                        .map_err(|it| it.to_string())?;
                    ended(workload, folder.path())
                })
            })
            .collect();
        let join = |it: std::thread::ScopedJoinHandle<'_, std::result::Result<Ended, String>>| {
            it.join().map_err(|_| "a job panicked".to_owned())?
        };
        Ok(threads.into_iter().map(join).collect::<std::result::Result<_, String>>()?)
    })
}

fn database(folder: &Path) -> Database {
    let cache = Cache::new(folder);
    Database::new(vec![Store { kind: StoreKind::Cache, dir: cache.records() }], Some(cache))
}

/// Reads what a job left in its cache.
fn ended(workload: &Workload, folder: &Path) -> std::result::Result<Ended, String> {
    let name = ProgramName::of(&workload.dag.name);
    let lookup = database(folder).get(&workload.id, &name, &workload.text);
    let record = lookup.records.first().ok_or("no record")?;
    let entry = record.record.buckets.first().and_then(|it| it.schedules.first());
    let lines = &entry.ok_or("an empty record")?.trace;
    let best = lines.iter().map(|it| it.parse()).collect::<std::result::Result<_, _>>();
    let only = |dir: &Path| std::fs::read_dir(dir).ok()?.next()?.ok().map(|it| it.path());
    let log = only(&Cache::new(folder).trials()).and_then(|it| only(&it)).ok_or("no log")?;
    Ok(Ended {
        workload: workload.clone(),
        best: best.map_err(|_| "a trace that cannot be read")?,
        trials: tune::trials(&log),
    })
}

/// Times schedules side by side on the idle machine; `None` for one that fails.
fn idle(
    workload: &Workload,
    traces: &[Vec<Instruction>],
    target: CpuTarget,
    lock: &MachineLock,
) -> Result<Vec<Option<f64>>> {
    let bucket = Bucket { workload, ranges: &[] };
    let bench = Bench { bucket, dims: None, target: target.into(), rounds: ROUNDS };
    let outcomes = tune::bench(&bench, traces, WorkerCommand::this_executable()?, lock)??;
    Ok(outcomes.iter().map(|it| Some(it.timing()?.typical_ns())).collect())
}

/// Returns the rank correlation of latencies of a job with those on the idle machine, over some of its
/// trials; `None` for too few.
fn correlation(job: &Ended, target: CpuTarget, lock: &MachineLock) -> Result<Option<f64>> {
    let timed = |it: &Trial| -> Option<(f64, Vec<Instruction>)> {
        let trace = it.trace.iter().map(|line| line.parse().ok()).collect::<Option<_>>()?;
        Some((it.outcome.timing()?.min_ns(), trace))
    };
    let all: Vec<(f64, Vec<Instruction>)> = job.trials.iter().filter_map(timed).collect();
    let step = all.len().div_ceil(N_COMPARED).max(1);
    let (in_run, traces): (Vec<f64>, Vec<_>) = all.into_iter().step_by(step).unzip();
    let on_idle = idle(&job.workload, &traces, target, lock)?;
    let pairs = in_run.iter().zip(on_idle).filter_map(|(run, idle)| Some((*run, idle?)));
    let (in_run, on_idle): (Vec<f64>, Vec<f64>) = pairs.unzip();
    Ok((in_run.len() >= 4).then(|| spearman(&in_run, &on_idle)))
}

/// Returns Spearman's rank correlation.
fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        values.iter().map(|it| values.iter().filter(|other| *other < it).count() as f64).collect()
    };
    let (a, b) = (ranks(a), ranks(b));
    let mean = |it: &[f64]| it.iter().sum::<f64>() / it.len() as f64;
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let product = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    let (ab, aa) = (product(&a, mean_a, &b, mean_b), product(&a, mean_a, &a, mean_a));
    ab / (aa * product(&b, mean_b, &b, mean_b)).sqrt()
}
