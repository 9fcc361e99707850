//! Executes tasks on this machine.
//!
//! In: a [`Task`] from elsewhere, and the [`Machine`]. Out: a [`TaskOutcome`], whatever happens. Next: it
//! travels back.
//!
//! A task has a scratch cache of its own, with the records that came along: its result depends on nothing
//! that the user of this machine tuned, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tvmtune_build::tune::session::provenance;
use tvmtune_ir::target::Target;
use tvmtune_plan::contain::contained;
use tvmtune_plan::database::{Cache, Database, DatabaseError, Files, Store, StoreKind, Wait};
use tvmtune_plan::printable::one_line;
use tvmtune_plan::record::{Bucket, Provenance, Record};
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::executor::{Executor, MachineLockError, MachineLocks, Needs};
use tvmtune_tuner::measure::{MeasureError, WorkerCommand, peaks};
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{
    self, Event, Hardware, Options, Summary, TaskResult, TuneError, Workload, log_file,
};

use crate::accept::is_of_task;
use crate::outcome::{Failure, FailureKind, Finding, Found, TaskOutcome, Tuned};
use crate::task::Task;
use crate::wire::VERSION;

/// The machine that executes tasks, with one of its devices.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The device that is measured.
    pub device: Target,
    /// The source of timings.
    pub hardware: Hardware,
    /// The cache whose locks tell other processes that this one measures, and that keeps the peaks.
    pub home: Cache,
    /// The executor that grants stages to the tasks of this process: several may run at once.
    pub executor: Arc<Executor>,
    /// The folder in which scratch folders are made.
    pub scratch: PathBuf,
    /// The name of this worker, for people.
    pub worker: String,
    /// The provenance in records.
    pub provenance: Provenance,
    /// Threads that search; results do not depend on their number.
    pub n_threads: usize,
}

/// The progress of a task, for those who wait for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Another process measures on the device.
    Waiting {
        /// The time waited so far.
        seconds: f64,
        /// That process, and its business.
        whom: String,
    },
    /// The default schedule was measured.
    Default {
        /// Its latency.
        ns: f64,
    },
    /// A candidate was measured.
    Trial {
        /// Its number, from 1 on.
        trial: u64,
        /// The best latency so far, if that is known.
        best_ns: Option<f64>,
    },
    /// A problem that does not stop the task.
    Warning {
        /// The problem.
        what: String,
    },
}

/// The error of a task that was not tuned.
#[derive(Debug, thiserror::Error)]
enum ExecuteError {
    #[error("no scratch folder can be made in `{}`: {source}", .dir.display())]
    Scratch { dir: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Machine(#[from] MachineLockError),
    #[error(transparent)]
    Tune(#[from] TuneError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Machine {
    /// Creates the machine of this process, which must run
    /// [workers](tvmtune_tuner::measure::worker::maybe_run) where it is asked to.
    ///
    /// # Errors
    ///
    /// If this process does not know its own file.
    pub fn this(device: Target, home: Cache, worker: &str) -> std::io::Result<Self> {
        Ok(Self {
            device,
            hardware: Hardware::Worker(WorkerCommand::this_executable()?),
            executor: Executor::of_this_machine(MachineLocks::new(&home)),
            home,
            scratch: std::env::temp_dir(),
            worker: one_line(worker),
            provenance: provenance(),
            n_threads: n_cores(),
        })
    }
}

/// Executes a task. What goes wrong, panics of the compiler included, is in the outcome.
pub fn execute(
    task: &Task,
    machine: &Machine,
    on_progress: &mut dyn FnMut(Progress),
) -> TaskOutcome {
    let program = || task.dag.clone();
    let attempt = || attempt(task, machine, on_progress);
    let finding = match contained(task.name.as_str(), program, attempt) {
        Ok(Ok(tuned)) => Finding::Tuned(Box::new(tuned)),
        Ok(Err(failure)) => Finding::Failed(failure),
        Err(panicked) => {
            Finding::Failed(Failure::new(FailureKind::Impossible, &panicked.to_string()))
        }
    };
    TaskOutcome {
        version: VERSION,
        task: task.id(),
        worker: machine.worker.clone(),
        host: machine.provenance.host.clone(),
        tool: machine.provenance.tool.clone(),
        finding,
    }
}

fn attempt(
    task: &Task,
    machine: &Machine,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Tuned, Failure> {
    let refused = |why: &str| Failure::new(FailureKind::Refused, why);
    task.check().map_err(|it| refused(&it.to_string()))?;
    let (device, own) = (&task.device, machine.device.key());
    if *device != own {
        let why = format!(
            "the task is for `{device}`, and this machine has `{own}`; send it to a machine with that \
             device, or tune for this one"
        );
        return Err(refused(&why));
    }
    let workload = task.workload().map_err(|it| refused(&it.to_string()))?;
    let failed = |error: &ExecuteError| Failure::new(error.kind(), &error.to_string());
    let (summary, result) =
        tune_in_scratch(task, &workload, machine, on_progress).map_err(|it| failed(&it))?;
    if let Some((_, why)) = summary.skipped.first() {
        return Err(Failure::new(FailureKind::Impossible, why));
    }
    if !summary.met.is_empty() {
        let why = "a record that came along is as fast as the task asks for";
        return Err(Failure::new(FailureKind::GoodEnough, why));
    }
    match (result, summary.results.first()) {
        (Some((record, trials)), Some(found)) => {
            Ok(Tuned { record, trials, found: Found::of(found) })
        }
        _ => Err(Failure::new(FailureKind::Unreached, "the budget did not reach it")),
    }
}

/// The text of a record, and the lines of a trial log.
type Results = (String, Vec<String>);

/// Tunes a workload in a cache of its own; returns what is in that afterwards.
fn tune_in_scratch(
    task: &Task,
    workload: &Workload,
    machine: &Machine,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(Summary, Option<Results>), ExecuteError> {
    let dir = &machine.scratch;
    let made = tempfile::Builder::new().prefix("tvmtune-task-").tempdir_in(dir);
    let folder = made.map_err(|source| ExecuteError::Scratch { dir: dir.clone(), source })?;
    let (cache, database) = scratch_database(folder.path());
    for record in task.known_records().unwrap_or_default() {
        database.put(&record, &Files::default())?;
    }
    let summary = measure(task, workload, machine, &database, on_progress)?;
    let lookup = database.get(&workload.id, &task.name, &task.dag);
    let record = lookup.records.into_iter().map(|it| it.record).find(|it| it.device == task.device);
    let trials = tune::trials(&log_file(&cache, task.name.as_str(), &workload.id, &task.device));
    let line = |it| serde_json::to_string(it).expect("a trial was read from JSON");
    let trials = trials.iter().map(line).collect();
    Ok((summary, record.map(|it| (of_task(it, task).to_toml(), trials))))
}

fn scratch_database(dir: &Path) -> (Cache, Database) {
    let cache = Cache::new(dir);
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    (cache.clone(), Database::new(vec![store], Some(cache)))
}

/// Measures, stage by stage, beside other tasks and processes: the one place that calls the tuner.
fn measure(
    task: &Task,
    workload: &Workload,
    machine: &Machine,
    database: &Database,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Summary, ExecuteError> {
    let (clock, patience) = (Instant::now(), task.budget.total());
    let mut provenance = machine.provenance.clone();
    if let (Hardware::Worker(worker), Target::Cpu(cpu)) = (&machine.hardware, machine.device) {
        let needs = Needs::timing(&machine.device, n_cores());
        let mut on_wait = |it: Wait<'_>| {
            on_progress(Progress::waiting(it.waited.as_secs_f64(), &it.holder.to_string()));
        };
        let lock = MachineLocks::new(&machine.home).acquire(&needs, patience, &mut on_wait)?;
        let peaks = peaks::of_this_machine(&machine.home, &cpu, worker.clone(), &lock);
        provenance.peaks = peaks.map_err(TuneError::from)?;
    }
    let options = Options {
        device: machine.device,
        targets: vec![task.target().unwrap_or(machine.device)],
        nvrtc: None,
        budget: task.budget.of_tuner(clock.elapsed()),
        reuse: task.reuse,
        seed: task.seed,
        hardware: machine.hardware.clone(),
        n_threads: machine.n_threads,
        recipe: task.recipe,
        scheduler: Scheduler::default(),
        provenance,
    };
    let workloads = std::slice::from_ref(workload);
    let mut on_event = |event: Event<'_>| {
        if let Some(progress) = Progress::of(&event) {
            on_progress(progress);
        }
    };
    let job = machine.executor.job(i32::from(task.priority));
    Ok(tune::run(workloads, &options, database, &job, &mut on_event)?)
}

/// Leaves of a record what the task asked for, without compiled code, which does not travel.
fn of_task(record: Record, task: &Task) -> Record {
    let ranges = task.ranges();
    let mut buckets: Vec<Bucket> = record.buckets;
    buckets.retain(|it| it.dims == ranges);
    for bucket in &mut buckets {
        bucket.schedules.retain(|it| is_of_task(it, task));
        bucket.schedules.iter_mut().for_each(|it| it.images.clear());
    }
    Record { buckets, ..record }
}

impl ExecuteError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Machine(MachineLockError::Busy { .. })
            | Self::Tune(TuneError::Measure(MeasureError::Machine(MachineLockError::Busy {
                ..
            })))
            | Self::Database(DatabaseError::Busy { .. })
            | Self::Tune(TuneError::Database(DatabaseError::Busy { .. })) => FailureKind::Unreached,
            Self::Tune(TuneError::Builder(_)) => FailureKind::Refused,
            Self::Scratch { .. } | Self::Machine(_) | Self::Tune(_) | Self::Database(_) => {
                FailureKind::Crashed
            }
        }
    }
}

impl Found {
    fn of(result: &TaskResult) -> Self {
        Self {
            default_ns: result.default_ns,
            best_ns: result.best_ns,
            source: result.source,
            trials: result.trials,
            failures: result.failures,
            seconds: result.seconds,
            times: result.times,
        }
    }
}

impl Progress {
    fn waiting(seconds: f64, whom: &str) -> Self {
        Self::Waiting { seconds, whom: one_line(whom) }
    }

    /// Returns the progress that an event of the tuner is; `None` if it is of no interest elsewhere.
    fn of(event: &Event<'_>) -> Option<Self> {
        Some(match event {
            Event::Waiting { waited, whom } => Self::waiting(waited.as_secs_f64(), whom),
            Event::Default { ns, .. } => Self::Default { ns: *ns },
            Event::Trial { trial, best_ns, .. } => {
                let best_ns = Some(*best_ns).filter(|it| it.is_finite());
                Self::Trial { trial: *trial, best_ns }
            }
            Event::Warning { what } => Self::Warning { what: one_line(what) },
            Event::Started { .. }
            | Event::Chosen { .. }
            | Event::Skipped { .. }
            | Event::Improved { .. }
            | Event::Finished { .. }
            | Event::Saved { .. } => return None,
        })
    }
}
