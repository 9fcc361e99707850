//! A tuning session in this process: of a build's child, and of `cargo tvmtune tune`.
//!
//! In: a [`Request`]. Out: records in the user's cache, and the tuner's summary. Next: the caller
//! looks the records up.
//!
//! Others may tune on this machine at the same time: each stage waits for what it needs, for seconds.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tvmtune_ir::target::{GpuTarget, Target};
use tvmtune_plan::database::{Cache, CacheUse, Database, DatabaseError, Holder, SearchDirs, Wait};
use tvmtune_plan::device;
use tvmtune_plan::handoff::ROLE;
use tvmtune_plan::printable::one_line;
use tvmtune_plan::record::{Peaks, Provenance};
use tvmtune_plan::request;
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::executor::{Executor, MachineLock, MachineLockError, MachineLocks, Needs};
use tvmtune_tuner::measure::{MeasureError, Measurer, WorkerCommand, peaks, worker};
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{
    self, Event, Hardware, Options, ProgressFile, Recipe, Reuse, Summary, TuneError, Workload,
};

use super::child::ROLE_TUNE;
use super::heartbeat::Heartbeat;
use super::job::{Answer, Failure, Job, SlowerRecord, Wanted};
use super::jobserver::{self, HeldTokens};
use crate::config::Budget;
use crate::op::Op;

/// The kernels to tune, and the budget.
pub struct Request<'a> {
    /// The package, for those who watch.
    pub package: &'a str,
    /// The ops with their buckets.
    pub ops: Vec<OpBuckets<'a>>,
    /// The device of this machine that is measured.
    pub device: Target,
    /// The targets of generated code: the device, or others that it can run code for; most of the
    /// budget is for the first.
    pub targets: Vec<Target>,
    /// The limits on trials and time. Waiting for other processes counts.
    pub budget: Budget,
    /// The use of earlier results.
    pub reuse: Reuse,
    /// A latency that is good enough: a kernel that is as fast is not searched on.
    pub good_enough: Option<Duration>,
}

/// The error of a session that tuned nothing.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no folder for records.
    #[error("there is no cache folder to write to; set `TVMTUNE_CACHE` to one")]
    NoCache,
    /// Results can't be kept.
    #[error(transparent)]
    Cache(#[from] DatabaseError),
    /// The machine can't be locked.
    #[error(transparent)]
    Machine(#[from] MachineLockError),
    /// No worker can be started.
    #[error("this program does not know its own file: {0}")]
    Worker(#[from] std::io::Error),
    /// The tuner stopped.
    #[error(transparent)]
    Tune(#[from] TuneError),
}

/// The latency of a shipped schedule, relative to the default one, from which it is said to be slower:
/// beyond what measurements of seconds differ by.
const SLOWER: f64 = 1.1;

/// The time of waiting for tokens of cargo, and its share of what is left of a budget.
const TOKEN_PATIENCE: Duration = Duration::from_secs(10);
const TOKEN_SHARE: f64 = 0.25;

/// The seed of all random choices.
const SEED: u64 = 1;

impl SessionError {
    /// Tells if another process was in the way: a later run may find it gone.
    pub fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Machine(MachineLockError::Busy { .. })
                | Self::Tune(TuneError::Measure(MeasureError::Machine(
                    MachineLockError::Busy { .. }
                )))
                | Self::Cache(DatabaseError::Busy { .. })
                | Self::Tune(TuneError::Database(DatabaseError::Busy { .. }))
        )
    }
}

/// Measures schedules and records the best. While a stage of it measures, no other process that tunes
/// computes on this machine, nor, under cargo, compiles.
///
/// # Errors
///
/// If a lock can't be taken within the budget, nothing can be measured, or no record can be written.
pub fn run(
    request: &Request<'_>,
    database: &Database,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, SessionError> {
    let cache = database.cache().ok_or(SessionError::NoCache)?;
    let clock = Instant::now();
    let time_left = || request.budget.total.saturating_sub(clock.elapsed());
    cache.check_writable()?;
    let mut progress = ProgressFile::new(cache, request.package, request.budget.total);
    let mut observe = |event: Event<'_>| {
        progress.on_event(&event);
        on_event(event);
    };
    let lock = wait_for_locks(request.device, cache, time_left(), &mut observe)?;
    // The parent holds the token of this process. Cores that do not measure compile candidates for
    // the GPU.
    let patience = TOKEN_PATIENCE.min(time_left().mul_f64(TOKEN_SHARE));
    let _tokens = HeldTokens::acquire(n_cores() - 1, patience);
    let peaks = peaks(cache, request.device, &lock)?;
    drop(lock);
    let waited = clock.elapsed();
    let options = Options {
        device: request.device,
        targets: request.targets.clone(),
        nvrtc: None,
        budget: tune::Budget {
            trials: request.budget.trials,
            per_task: request.budget.per_kernel,
            total: request.budget.total.saturating_sub(waited),
        },
        reuse: request.reuse,
        seed: SEED,
        hardware: Hardware::Worker(WorkerCommand::this_executable()?),
        n_threads: n_cores(),
        recipe: Recipe::default(),
        scheduler: Scheduler::default(),
        provenance: Provenance { peaks, ..provenance() },
    };
    let good_enough_ns = request.good_enough.map(|it| it.as_secs_f64() * 1e9);
    let workload = |it: &OpBuckets<'_>| Workload { good_enough_ns, ..it.workload() };
    let workloads: Vec<Workload> = request.ops.iter().map(workload).collect();
    let job = Executor::of_this_machine(MachineLocks::new(cache)).job(0);
    let mut summary = tune::run(&workloads, &options, database, &job, &mut observe)?;
    summary.times.waiting += waited;
    summary.times.total += waited;
    Ok(summary)
}

/// Locks the machine once, and sees the lock of the records free; tells those who watch for whom it
/// waits.
fn wait_for_locks(
    device: Target,
    cache: &Cache,
    patience: Duration,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<MachineLock, SessionError> {
    let clock = Instant::now();
    let mut known: Option<(Holder, String)> = None;
    let mut on_wait = |Wait { waited, holder }: Wait<'_>| {
        if known.as_ref().is_none_or(|(it, _)| it != holder) {
            known = Some((holder.clone(), tune::who_measures(cache, holder)));
        }
        let whom = known.as_ref().map_or("", |(_, whom)| whom);
        on_event(Event::Waiting { waited, whom });
    };
    let needs = Needs::timing(&device, n_cores());
    let lock = MachineLocks::new(cache).acquire(&needs, patience, &mut on_wait)?;
    let mut on_wait = |Wait { waited, holder }: Wait<'_>| {
        let whom = format!("{holder}, which writes records");
        on_event(Event::Waiting { waited, whom: &whom });
    };
    // What can't be written at the end need not be searched for.
    drop(cache.lock_records(patience.saturating_sub(clock.elapsed()), &mut on_wait)?);
    Ok(lock)
}

/// Detects the first GPU of this machine, by a worker.
///
/// # Errors
///
/// The reason why there is none.
pub fn gpu() -> Result<GpuTarget, String> {
    let worker = WorkerCommand::this_executable().map_err(|it| it.to_string())?;
    let gpu = Measurer::on_gpu(worker).gpu().map_err(|it| it.to_string())??;
    tvmtune_tuner::device::gpu_target(&gpu)
        .ok_or_else(|| format!("{} is too old: no code is made for it", gpu.name))
}

/// An op, and the positions of some of its buckets.
pub struct OpBuckets<'a> {
    /// The op.
    pub op: &'a Op,
    /// Positions among its buckets.
    pub buckets: Vec<usize>,
    /// The number of its runs, relative to other ops.
    pub weight: f64,
    /// The share of its runs that each of these has.
    pub shares: Vec<f64>,
}

impl<'a> OpBuckets<'a> {
    /// Creates a choice of buckets that run alike: they share the op's weight with those that are not chosen.
    pub fn new(op: &'a Op, buckets: Vec<usize>) -> Self {
        let shares = vec![1.0 / op.buckets.len().max(1) as f64; buckets.len()];
        Self { op, buckets, weight: op.weight, shares }
    }

    /// Returns the workload of these buckets.
    pub fn workload(&self) -> Workload {
        let Self { op, buckets, weight, shares } = self;
        let bucket = |it: &usize| op.buckets.get(*it).cloned();
        Workload {
            dag: op.dag.clone(),
            id: op.id,
            text: op.text.clone(),
            buckets: buckets.iter().filter_map(bucket).collect(),
            definition: Arc::default(),
            tolerance: tune::Tolerance { rel: op.tolerance.rel, abs: op.tolerance.abs },
            residence: op.residence.clone(),
            weight: *weight,
            bucket_shares: shares.clone(),
            good_enough_ns: None,
        }
    }
}

/// Returns the provenance for records of this machine.
pub fn provenance() -> Provenance {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|it| it.strip_prefix("model name")?.split_once(':'));
    Provenance {
        tool: concat!("tvmtune ", env!("CARGO_PKG_VERSION")).to_owned(),
        host: one_line(model.map_or(std::env::consts::ARCH, |(_, it)| it.trim())),
        peaks: None,
    }
}

/// Returns what the CPU of this machine does at most.
fn peaks(cache: &Cache, device: Target, lock: &MachineLock) -> Result<Option<Peaks>, SessionError> {
    let Target::Cpu(cpu) = device else { return Ok(None) };
    let worker = WorkerCommand::this_executable()?;
    let peaks = peaks::of_this_machine(cache, &cpu, worker, lock);
    Ok(peaks.map_err(TuneError::from)?)
}

/// Serves as a worker or tunes for a build script, if this process was started for that; tells if it
/// was.
pub(crate) fn serve_if_asked() -> bool {
    worker::maybe_run();
    let asked = std::env::var_os(ROLE).is_some_and(|it| it == ROLE_TUNE);
    if asked && let Err(error) = serve() {
        eprintln!("{error}");
        std::process::exit(1);
    }
    asked
}

/// Reads a job from standard input, and writes the answer to standard output. The process ends if the
/// one that asked does.
///
/// # Errors
///
/// If the job can't be read, or the answer not written.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let text = request::receive(jobserver::put_back)?;
    let job: Job = toml::from_str(&text)?;
    let answer = tune_job(&job);
    std::io::stdout().write_all(toml::to_string(&answer)?.as_bytes())?;
    Ok(())
}

/// Executes a job.
fn tune_job(job: &Job) -> Answer {
    let started = Instant::now();
    let mut answer = Answer::default();
    if job.asks_for_gpu {
        match gpu() {
            Ok(gpu) => answer.gpu = Some(gpu.key()),
            Err(why) => answer.no_gpu = Some(why),
        }
    }
    let cpu = || device::detect().ok_or("this machine runs no generated kernels".to_owned());
    type Detect<'a> = &'a dyn Fn() -> Result<Target, String>;
    let devices: [(Detect<'_>, _); 2] =
        [(&|| cpu().map(Target::from), &job.cpu), (&|| gpu().map(Target::from), &job.gpu)];
    let mut heartbeat = Heartbeat::new(job.budget.total);
    for (detect, wanted) in devices.into_iter().filter(|(_, wanted)| !wanted.is_empty()) {
        let time_left = job.budget.total.saturating_sub(started.elapsed());
        let budget = Budget { total: time_left, ..job.budget };
        let tuned = detect().and_then(|target| {
            let summary = tune_on(target, wanted, job, budget, &mut heartbeat);
            summary.map_err(|it| {
                answer.is_busy |= it.is_busy();
                it.to_string()
            })
        });
        let tuned = tuned.map(|summary| answer.add(&summary));
        answer.trouble = answer.trouble.or(tuned.err());
    }
    (answer.waited_seconds, answer.waited_for) = heartbeat.into_waited();
    answer
}

/// Tunes some ops on one device.
fn tune_on(
    target: Target,
    wanted: &[Wanted],
    job: &Job,
    budget: Budget,
    heartbeat: &mut Heartbeat,
) -> Result<Summary, SessionError> {
    let dirs = SearchDirs {
        package: Some(job.package.clone()),
        workspace: job.workspace.clone(),
        cache: CacheUse::Include,
    };
    let ops: Vec<(Op, &Vec<usize>)> =
        wanted.iter().filter_map(|it| Some((it.op()?, &it.buckets))).collect();
    let request = Request {
        package: &job.name,
        ops: ops.iter().map(|(op, it)| OpBuckets::new(op, (*it).clone())).collect(),
        device: target,
        targets: vec![target],
        budget,
        reuse: Reuse::Refine,
        good_enough: None,
    };
    let database = Database::discover(&dirs);
    run(&request, &database, &mut |event| heartbeat.on_event(&event))
}

impl Answer {
    /// Adds the results of a device.
    fn add(&mut self, summary: &Summary) {
        let failure = |(task, why): &(tune::TaskName, String)| Failure {
            name: task.program.clone(),
            why: why.clone(),
        };
        self.n_tuned += summary.results.len();
        self.failures.extend(summary.skipped.iter().map(failure));
        let slower = |it: &tune::TaskResult| {
            let ratio = it.shipped_ns? / it.default_ns;
            let name = it.task.program.clone();
            (ratio > SLOWER).then_some(SlowerRecord { name, ratio })
        };
        self.slower.extend(summary.results.iter().filter_map(slower));
    }
}
