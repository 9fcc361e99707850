//! `cargo tvmtune tune --on user@host`: tunes on another machine, for that.
//!
//! In: the arguments of `tune`. Out: records of that machine's devices in the user's cache. The kernels to tune
//! are chosen as for this machine, by the records of that device; they are tuned one after the other, and
//! each result is kept when it arrives.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tvmtune_build::config::Budget;
use tvmtune_build::op::Op;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_fleet::ssh::{Hello, Remote, RemoteError, WorkerFile};
use tvmtune_fleet::{
    AcceptError, Failure, FailureKind, Finding, Found, Progress as TaskProgress, Task, TaskBudget,
    TaskOutcome, accept,
};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, Isa, Platform, Target};
use tvmtune_plan::database::{CacheUse, Database, DatabaseError, Lookup};
use tvmtune_plan::printable::{Printable, one_line};
use tvmtune_plan::read;
use tvmtune_tuner::compile::Nvrtc;
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::tune::{Event, Reuse, Summary, TaskName, TaskResult, Workload};

use super::tune::{self, Report};
use crate::cli::{Device, Tune};
use crate::needed_glibc::needed_glibc;
use crate::output::eprintln;
use crate::progress::Progress;
use crate::records::PackageRecords;
use crate::{Exit, workspace};

/// The largest executable of this program, in bytes.
const MAX_EXECUTABLE: u64 = 1 << 30;

/// Tunes on another machine; adds the results to the report.
pub(super) fn tune(address: &str, arguments: &Tune, report: &mut Report) -> Result<Exit> {
    let found = workspace::packages(&arguments.selection)?;
    let mut packages = Vec::new();
    for package in &found {
        let database = Database::discover(&package.search_dirs(CacheUse::Include));
        packages.push((PackageRecords::new(package, &database), database));
    }
    if let Some(cache) = packages.first().and_then(|it| it.1.cache()) {
        cache.check_writable()?;
    }
    let asks_for_gpu = match arguments.target {
        Some(device) => device == Device::Cuda,
        None => packages.iter().any(|it| it.0.wants_gpu()),
    };
    let mut remote = match Remote::connect(address, &worker_file(asks_for_gpu)?) {
        Ok(remote) => remote,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Exit::NoDevice);
        }
    };
    for (records, database) in &packages {
        report.weights = tune::weights(records, None);
        let devices = match devices(address, remote.hello(), arguments, records) {
            Ok(devices) => devices,
            Err(why) => {
                eprintln!("error: {why}");
                return Ok(Exit::NoDevice);
            }
        };
        for device in devices {
            let session = Session::new(&mut remote, database, records, device, arguments);
            if let Some(error) = session.tune(report)? {
                eprintln!("error: {error}");
                return Ok(Exit::NoDevice);
            }
        }
    }
    Ok(Exit::Done)
}

/// Returns this program, as it serves on another machine.
fn worker_file(asks_for_gpu: bool) -> Result<WorkerFile> {
    let path = std::env::current_exe().context("this program does not know its own file")?;
    let bytes = read::bytes(&path, MAX_EXECUTABLE);
    let bytes = bytes.with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut arguments = vec!["serve".to_owned()];
    if asks_for_gpu {
        arguments.push("--gpu".to_owned());
    }
    let platform = WorkerFile::own_platform();
    let nvrtc = if asks_for_gpu { nvrtc_files() } else { Vec::new() };
    Ok(WorkerFile { path, arguments, platform, glibc: needed_glibc(&bytes), nvrtc })
}

/// Returns the files of the NVRTC of this machine; none if there is none, or if only the loader of the system
/// knows where it lies. Then the other machine needs its own.
fn nvrtc_files() -> Vec<PathBuf> {
    let Some(library) = Nvrtc::get().ok().map(|it| it.path().to_owned()) else { return Vec::new() };
    let Some(folder) = library.parent().filter(|it| it.is_absolute()) else { return Vec::new() };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path());
    let is_builtins = |it: &PathBuf| {
        let name = it.file_name().map(|it| it.to_string_lossy().into_owned());
        name.is_some_and(|it| it.starts_with("libnvrtc-builtins.so."))
    };
    std::iter::once(library.clone()).chain(files.filter(is_builtins)).collect()
}

/// Returns the devices of another machine that a package is tuned for.
fn devices(
    address: &str,
    hello: &Hello,
    arguments: &Tune,
    records: &PackageRecords<'_>,
) -> Result<Vec<Target>, String> {
    let target = |it: &Option<DeviceKey>| it.as_ref().and_then(Target::from_key);
    let cpu = || {
        let why = "`{}` runs no generated kernels; run `cargo tvmtune doctor` there";
        target(&hello.cpu).ok_or_else(|| why.replace("{}", address))
    };
    let gpu = || {
        let why = hello.no_gpu.as_deref().unwrap_or("it was not looked for");
        let why = || format!("`{address}` has no GPU to tune on: {}", Printable(why));
        target(&hello.gpu).ok_or_else(why)
    };
    let devices = match arguments.target {
        Some(Device::Cpu) => vec![cpu()?],
        Some(Device::Cuda) => vec![gpu()?],
        None if records.wants_gpu() && hello.gpu.is_some() => {
            cpu().into_iter().chain([gpu()?]).collect()
        }
        None => vec![cpu()?],
    };
    match (arguments.variants.isa, devices[0]) {
        (Some(isa), Target::Cpu(cpu)) if !isas_of(cpu.isa).contains(&isa) => {
            Err(format!("`{address}` does not run {}; it runs {}", isa.name(), cpu.isa.name()))
        }
        _ => Ok(devices),
    }
}

/// Returns the instruction sets that a CPU runs, best first.
fn isas_of(best: Isa) -> Vec<Isa> {
    let all = [Isa::Avx512, Isa::Avx2].into_iter();
    all.filter(|it| it.lanes() <= best.lanes()).collect()
}

/// The tasks of a package for one device of another machine.
struct Session<'a> {
    remote: &'a mut Remote,
    database: &'a Database,
    records: &'a PackageRecords<'a>,
    device: Target,
    arguments: &'a Tune,
    budget: Budget,
    clock: Instant,
    progress: Progress,
    summary: Summary,
    /// The reason why the machine is not asked any more.
    lost: Option<RemoteError>,
}

impl<'a> Session<'a> {
    fn new(
        remote: &'a mut Remote,
        database: &'a Database,
        records: &'a PackageRecords<'a>,
        device: Target,
        arguments: &'a Tune,
    ) -> Self {
        Self {
            remote,
            database,
            records,
            device,
            arguments,
            budget: tune::budget(records.package, arguments),
            clock: Instant::now(),
            progress: Progress::new(),
            summary: Summary::default(),
            lost: None,
        }
    }

    /// Tunes what is open, adds it to the report, and has the package planned again; returns the reason if
    /// the machine was lost meanwhile.
    fn tune(mut self, report: &mut Report) -> Result<Option<RemoteError>> {
        let ended = self.run();
        report.add(&self.summary);
        let package = self.records.package;
        ended.with_context(|| format!("package `{}`", package.name))?;
        package.plan_again()?;
        Ok(self.lost)
    }

    /// Tunes one kernel after the other, within the budget.
    fn run(&mut self) -> Result<(), DatabaseError> {
        let tasks = self.tasks();
        let n_tasks = tasks.len();
        if n_tasks > 0 {
            self.progress.on_event(&Event::Started { n_tasks });
        }
        for (n, (name, mut task)) in tasks.into_iter().enumerate() {
            let left = self.budget.total.saturating_sub(self.clock.elapsed());
            if self.lost.is_some() || left.is_zero() {
                self.summary.unreached.push(name);
                continue;
            }
            // The time that a task does not use is shared by the tasks after it.
            task.budget.total_seconds = (left / (n_tasks - n) as u32).as_secs_f64();
            self.run_task(name, &task)?;
        }
        self.summary.times.total = self.clock.elapsed();
        Ok(())
    }

    /// Returns the tasks, each with its name.
    fn tasks(&self) -> Vec<(TaskName, Task)> {
        let all = match self.device {
            Target::Cpu(cpu) => isas_of(cpu.isa),
            Target::Gpu(_) => Vec::new(),
        };
        let (records, arguments) = (self.records, self.arguments);
        let (isas, open) = tune::to_tune(records, self.device, &all, self.budget, arguments, None);
        let platforms: Vec<Platform> = match self.device {
            Target::Cpu(_) => isas.into_iter().map(Platform::from).collect(),
            Target::Gpu(gpu) => vec![gpu.arch.into()],
        };
        let mut tasks = Vec::new();
        for platform in platforms {
            for (op, lookup) in records.ops() {
                let is_of = |it: &&OpBuckets<'_>| std::ptr::eq(it.op, op);
                for open in open.iter().filter(is_of) {
                    let until = self.arguments.until.map(|it| it.0.as_secs_f64() * 1e9);
                    let workload = Workload { good_enough_ns: until, ..open.workload() };
                    tasks.extend(workload.buckets.iter().map(|bucket| {
                        let task = self.task(&workload, bucket, platform, lookup);
                        (name(op, bucket, platform), task)
                    }));
                }
            }
        }
        tasks
    }

    fn task(
        &self,
        workload: &Workload,
        bucket: &[Interval],
        platform: Platform,
        lookup: &Lookup,
    ) -> Task {
        let Budget { trials, per_kernel, total } = self.budget;
        let budget = TaskBudget {
            trials,
            kernel_seconds: per_kernel.as_secs_f64(),
            total_seconds: total.as_secs_f64(),
        };
        let mut task = Task::new(workload, bucket, self.device.key(), platform, budget);
        if self.arguments.again {
            task.reuse = Reuse::Ignore;
        } else {
            let known = lookup.records.iter().map(|it| it.record.clone());
            task.add_records(known.collect());
        }
        task
    }

    /// Tunes a kernel, and keeps what was found.
    fn run_task(&mut self, name: TaskName, task: &Task) -> Result<(), DatabaseError> {
        let progress = &mut self.progress;
        let outcome = self.remote.execute(task, &mut |it| show(progress, &name, &it));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.lost = Some(error);
                self.summary.unreached.push(name);
                return Ok(());
            }
        };
        let found = match &outcome.finding {
            Finding::Tuned(tuned) => match self.keep(task, &outcome)? {
                None => &tuned.found,
                Some(refused) => {
                    self.skip(name, refused);
                    return Ok(());
                }
            },
            Finding::Failed(Failure { kind: FailureKind::Unreached, .. }) => {
                self.summary.unreached.push(name);
                return Ok(());
            }
            Finding::Failed(Failure { kind: FailureKind::GoodEnough, .. }) => {
                self.summary.met.push(name);
                return Ok(());
            }
            Finding::Failed(Failure { why, .. }) => {
                self.skip(name, why.clone());
                return Ok(());
            }
        };
        let result = result(name, found);
        self.progress.on_event(&Event::Finished { task: &result.task, result: &result });
        self.summary.times.add(&result.times);
        self.summary.results.push(result);
        Ok(())
    }

    /// Merges an outcome into the cache; returns the reason if it is refused.
    fn keep(
        &mut self,
        task: &Task,
        outcome: &TaskOutcome,
    ) -> Result<Option<String>, DatabaseError> {
        match accept(task, outcome, self.database) {
            Ok(_) => Ok(None),
            Err(AcceptError::Database(error)) => Err(error),
            Err(error @ AcceptError::Refused { .. }) => Ok(Some(error.to_string())),
            // The record is there.
            Err(error @ AcceptError::Log { .. }) => {
                self.progress.on_event(&Event::Warning { what: error.to_string() });
                Ok(None)
            }
        }
    }

    fn skip(&mut self, name: TaskName, why: String) {
        self.progress.on_event(&Event::Skipped { task: &name, why: why.clone() });
        self.summary.skipped.push((name, why));
    }
}

/// Shows the progress of a task.
fn show(progress: &mut Progress, task: &TaskName, it: &TaskProgress) {
    match it {
        TaskProgress::Waiting { seconds, whom } => {
            let waited = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
            progress.on_event(&Event::Waiting { waited, whom: &one_line(whom) });
        }
        TaskProgress::Default { ns } => progress.on_event(&Event::Default { task, ns: *ns }),
        TaskProgress::Trial { trial, best_ns } => {
            // The outcome of the trial does not travel: the display shows the best latency only.
            let (outcome, best_ns) = (&Outcome::TimedOut, best_ns.unwrap_or(f64::INFINITY));
            progress.on_event(&Event::Trial { task, trial: *trial, outcome, best_ns });
        }
        TaskProgress::Warning { what } => {
            progress.on_event(&Event::Warning { what: one_line(what) });
        }
    }
}

fn name(op: &Op, bucket: &[Interval], platform: Platform) -> TaskName {
    let dims = op.dag.dims.iter().zip(bucket);
    let dims = dims.map(|(dim, range)| (dim.name.clone(), *range)).collect();
    TaskName { program: op.dag.name.clone(), dims, platform }
}

fn result(task: TaskName, found: &Found) -> TaskResult {
    TaskResult {
        task,
        default_ns: found.default_ns,
        best_ns: found.best_ns,
        found_ns: None,
        shipped_ns: None,
        former: None,
        source: found.source,
        trials: found.trials,
        seconds: found.seconds,
        times: found.times,
        failures: found.failures,
    }
}
