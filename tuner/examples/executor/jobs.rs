//! Runs jobs at once, each with a database of its own.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tvmtune_ir::name::ProgramName;
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::record::Provenance;
use tvmtune_schedule::Instruction;
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::executor::Executor;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::tune::{
    self, Budget, Hardware, Options, Recipe, Reuse, Trial, Workload, trials,
};

use crate::arms::Arm;
use crate::{HOUR, Result, Study};

/// A job that has ended.
pub(crate) struct Ended {
    pub(crate) workload: Workload,
    /// The schedule that its record names first.
    pub(crate) best: Vec<Instruction>,
    pub(crate) trials: Vec<Trial>,
}

/// Runs a job for each workload, on threads of this process.
pub(crate) fn run(
    study: &Study,
    arm: &Arm,
    seed: u64,
    workloads: &[Workload],
    executor: &Arc<Executor>,
) -> Result<Vec<Ended>> {
    let options = options(study, arm, seed)?;
    // Threads that are started later have the cores of those that start them.
    set_cores(if arm.is_pinned { OTHER_CORES } else { ALL_CORES })?;
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

/// The core of pinned workers, those of all else then, and all, as `taskset` names them.
const WORKER_CORE: &str = "1";
const OTHER_CORES: &str = "0";
const ALL_CORES: &str = "0,1";

/// Has all threads of this process run on some cores.
fn set_cores(cores: &str) -> Result<()> {
    let id = std::process::id().to_string();
    let output = Command::new("taskset").args(["--all-tasks", "-cp", cores, &id]).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

fn options(study: &Study, arm: &Arm, seed: u64) -> Result<Options> {
    let mut worker = WorkerCommand::this_executable()?;
    if arm.is_pinned {
        worker = WorkerCommand::new("taskset".into())
            .arg("-c")
            .arg(WORKER_CORE)
            .arg(env::current_exe()?);
    }
    Ok(Options {
        device: study.target.into(),
        targets: vec![study.target.into()],
        nvrtc: None,
        budget: Budget { trials: study.trials, per_task: HOUR, total: HOUR },
        seed,
        hardware: Hardware::Worker(worker),
        n_threads: 2,
        recipe: Recipe { train_every: arm.train_every, ..Recipe::default() },
        scheduler: Scheduler::default(),
        reuse: Reuse::Compete,
        provenance: Provenance { tool: "executor".to_owned(), ..Provenance::default() },
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
        trials: trials(&log),
    })
}
