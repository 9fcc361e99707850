//! Tunes in this process: what a build's child does, and `cargo tvmtune tune`.
//!
//! In: a [`Request`]. Out: records in the user's cache, and the tuner's summary. Next: whoever
//! asked looks the records up.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use tvmtune_ir::target::{GpuTarget, Target};
use tvmtune_plan::database::{Database, Places};
use tvmtune_plan::device;
use tvmtune_plan::record::Provenance;
use tvmtune_tuner::measure::{Exclusive, ExclusiveError, Measurer, WorkerCommand, worker};
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{self, Event, Hardware, Options, Recipe, Summary, TuneError, Workload};

use super::child::{ROLE, ROLE_TUNE};
use super::job::{Answer, Failure, Job, Wanted};
use super::quiet::Quiet;
use crate::config::Budget;
use crate::op::Op;

/// What to tune, and at what cost.
pub struct Request<'a> {
    /// Each op with the positions of the buckets to tune it for.
    pub ops: Vec<(&'a Op, Vec<usize>)>,
    /// A device of this machine, and after it what else it can stand for; most of the budget is for
    /// the first.
    pub targets: Vec<Target>,
    /// What may be spent.
    pub budget: Budget,
    /// Whether what is known is ignored.
    pub afresh: bool,
    /// Whether what is known from near devices and ranges is refined, and nothing else searched.
    pub refines: bool,
    /// How long to wait for others who measure on this machine.
    pub patience: Duration,
}

/// Why nothing was tuned.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no place for records.
    #[error("there is no cache folder to write to; set `TVMTUNE_CACHE` to one")]
    NoCache,
    /// Others measure, or the lock can't be taken.
    #[error(transparent)]
    Exclusive(#[from] ExclusiveError),
    /// No worker can be started.
    #[error("this program does not know its own file: {0}")]
    Worker(#[from] std::io::Error),
    /// The tuner stopped.
    #[error(transparent)]
    Tune(#[from] TuneError),
}

/// From the same seed follow the same candidates.
const SEED: u64 = 1;

/// Measures schedules and remembers the best, with nobody else measuring or, under cargo,
/// compiling on this machine.
///
/// # Errors
///
/// If the machine can't be had, nothing can be measured, or nothing can be remembered.
pub fn run(
    request: &Request<'_>,
    database: &Database,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, SessionError> {
    let cache = database.cache().ok_or(SessionError::NoCache)?;
    let Some(device) = request.targets.first() else { return Ok(Summary::default()) };
    let exclusive = Exclusive::acquire(cache, &device.key(), request.patience)?;
    // This process itself runs on a token that its parent holds. Cores that measure nothing compile
    // candidates for the GPU.
    let _quiet = Quiet::hold(n_cores() - 1, Duration::from_secs(10));
    let options = Options {
        targets: request.targets.clone(),
        nvrtc: None,
        budget: tune::Budget {
            trials: request.budget.trials,
            per_task: request.budget.per_kernel,
            total: request.budget.total,
        },
        refines: request.refines,
        seed: SEED,
        hardware: Hardware::Worker(WorkerCommand::this_executable()?),
        n_threads: n_cores(),
        recipe: Recipe::default(),
        afresh: request.afresh,
        provenance: provenance(),
    };
    let workloads: Vec<Workload> = request.ops.iter().map(workload).collect();
    Ok(tune::run(&workloads, &options, database, &exclusive, on_event)?)
}

/// The first GPU of this machine, found by a worker.
///
/// # Errors
///
/// Why there is none.
pub fn gpu() -> Result<GpuTarget, String> {
    let worker = WorkerCommand::this_executable().map_err(|it| it.to_string())?;
    let gpu = Measurer::on_gpu(worker).gpu().map_err(|it| it.to_string())??;
    tvmtune_tuner::device::gpu_target(&gpu)
        .ok_or_else(|| format!("{} is too old: no code is made for it", gpu.name))
}

/// An op as the tuner sees it, with some of its buckets.
pub fn workload((op, buckets): &(&Op, Vec<usize>)) -> Workload {
    let bucket = |it: &usize| op.buckets.get(*it).cloned();
    Workload {
        dag: op.dag.clone(),
        id: op.id.to_string(),
        text: op.text.clone(),
        buckets: buckets.iter().filter_map(bucket).collect(),
        tolerance: tune::Tolerance { rel: op.tolerance.rel, abs: op.tolerance.abs },
        weight: 1.0,
    }
}

/// What records say of where they come from.
pub fn provenance() -> Provenance {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|it| it.strip_prefix("model name")?.split_once(':'));
    Provenance {
        tool: concat!("tvmtune ", env!("CARGO_PKG_VERSION")).to_owned(),
        host: model.map_or(std::env::consts::ARCH, |(_, it)| it.trim()).to_owned(),
    }
}

/// Does what this process was started for, if it is not for itself: run candidates, or tune for a
/// build script.
pub(crate) fn serve_if_asked() -> bool {
    worker::maybe_run();
    let asked = std::env::var_os(ROLE).is_some_and(|it| it == ROLE_TUNE);
    if asked && let Err(error) = serve() {
        eprintln!("{error}");
        std::process::exit(1);
    }
    asked
}

/// Reads a job on standard input, and answers on standard output.
///
/// # Errors
///
/// If there is no job, or no answer.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let job: Job = toml::from_str(&text)?;
    let answer = tune_job(&job);
    std::io::stdout().write_all(toml::to_string(&answer)?.as_bytes())?;
    Ok(())
}

fn tune_job(job: &Job) -> Answer {
    let started = Instant::now();
    let mut answer = Answer::default();
    if job.asks_for_gpu {
        match gpu() {
            Ok(gpu) => answer.gpu = Some(gpu.key().0),
            Err(why) => answer.no_gpu = Some(why),
        }
    }
    let cpu = || device::detect().ok_or("this machine runs no generated kernels".to_owned());
    let devices: [(&dyn Fn() -> Result<Target, String>, _); 2] =
        [(&|| cpu().map(Target::from), &job.cpu), (&|| gpu().map(Target::from), &job.gpu)];
    let mut heartbeat = Heartbeat::new(job.budget().total);
    for (find, wanted) in devices.into_iter().filter(|(_, wanted)| !wanted.is_empty()) {
        let tuned = find().and_then(|target| {
            tune_on((target, wanted), job, &started, &mut heartbeat, &mut answer)
                .map_err(|it| it.to_string())
        });
        answer.trouble = answer.trouble.or(tuned.err());
    }
    answer
}

/// Tunes some ops on one device.
fn tune_on(
    (target, wanted): (Target, &[Wanted]),
    job: &Job,
    started: &Instant,
    heartbeat: &mut Heartbeat,
    answer: &mut Answer,
) -> Result<(), SessionError> {
    let places = Places {
        package: Some(job.package.clone()),
        workspace: job.workspace.clone(),
        without_cache: false,
    };
    let ops: Vec<(Op, &Vec<usize>)> =
        wanted.iter().filter_map(|it| Some((it.op()?, &it.buckets))).collect();
    let left = job.budget().total.saturating_sub(started.elapsed());
    let request = Request {
        ops: ops.iter().map(|(op, buckets)| (op, (*buckets).clone())).collect(),
        targets: vec![target],
        budget: Budget { total: left, ..job.budget() },
        afresh: false,
        refines: true,
        // Others on this machine tune for builds too, each within such a budget.
        patience: job.budget().total,
    };
    let database = Database::discover(&places);
    let summary = run(&request, &database, &mut |event| heartbeat.see(&event))?;
    let failure = |(task, why): &(tune::TaskName, String)| Failure {
        name: task.program.clone(),
        why: why.clone(),
    };
    answer.n_tuned += summary.results.len();
    answer.failures.extend(summary.skipped.iter().map(failure));
    Ok(())
}

/// Tells whoever sits in front of the terminal why the build takes so long. Cargo shows nothing of
/// what a build script says before it has ended.
struct Heartbeat {
    terminal: Option<std::fs::File>,
    started: Instant,
    last: Instant,
    budget: Duration,
    n_tasks: usize,
    n_trials: u64,
}

impl Heartbeat {
    /// Often enough to be known alive by.
    const PAUSE: Duration = Duration::from_secs(10);

    fn new(budget: Duration) -> Self {
        let terminal = std::fs::File::options().write(true).open("/dev/tty").ok();
        let started = Instant::now();
        Self { terminal, started, last: started, budget, n_tasks: 0, n_trials: 0 }
    }

    fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { n_tasks } => {
                self.n_tasks += *n_tasks;
                self.say();
            }
            Event::Trial { .. } => {
                self.n_trials += 1;
                if self.last.elapsed() >= Self::PAUSE {
                    self.say();
                }
            }
            _ => {}
        }
    }

    fn say(&mut self) {
        self.last = Instant::now();
        let Self { terminal: Some(terminal), n_tasks, n_trials, .. } = self else { return };
        let kernels = if *n_tasks == 1 { "kernel" } else { "kernels" };
        let (spent, budget) = (self.started.elapsed().as_secs(), self.budget.as_secs());
        // A terminal that is gone needs no heartbeat.
        let _ = writeln!(
            terminal,
            "\r\x1b[K      Tuning {n_tasks} {kernels}: {n_trials} schedules measured, \
             {spent} s of at most {budget} s"
        );
    }
}
