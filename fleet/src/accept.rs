//! Verifies an outcome that arrived, and merges it into the user's cache.
//!
//! In: a task, and an outcome that is said to be its. Out: a record and trials in the cache, or the reason
//! why nothing was taken. Next: the build plan finds the record.
//!
//! # Invariants
//!
//! - An outcome is taken whole or not at all: everything is verified before anything is written.
//! - What is taken could have been measured here: schedules of the program that was asked for, that make
//!   the code they say, with times that such a device can reach.
//! - No code is written: code is generated where it runs.

use std::path::PathBuf;

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::{Platform, Target};
use tvmtune_plan::contain::contained;
use tvmtune_plan::database::{Cache, Database, DatabaseError, Files, PATIENCE};
use tvmtune_plan::printable::{Printable, shown};
use tvmtune_plan::record::{Entry, Record};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::lower_bound::{MIN_LAUNCH_NS, lower_bound_ns};
use tvmtune_space::operands;
use tvmtune_tuner::outcome::Timing;
use tvmtune_tuner::tune::{Trial, Workload, add_trials, log_file};

use crate::outcome::{TaskOutcome, Tuned};
use crate::task::Task;
use crate::wire::reason;

/// The record and the trials that were merged from an outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The file of the record; `None` if the task failed.
    pub record: Option<PathBuf>,
    /// Trials that the log did not have.
    pub n_trials: usize,
}

/// An outcome of which nothing was taken.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// It is not what the task asked for, or cannot be true.
    #[error(
        "the outcome of `{name}` from worker `{worker}` on `{host}` is not taken: {why}; tune it on \
         another machine, or install the same release of cargo-tvmtune there"
    )]
    Refused { name: String, worker: String, host: String, why: String },
    /// The cache can't be written.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The trial log can't be written.
    #[error("cannot write `{}`: {source}", shown(path))]
    Log { path: PathBuf, source: std::io::Error },
}

/// The most primitives of a trial, and the longest one in bytes: those of records.
const MAX_TRACE: usize = 2000;
const MAX_LINE_BYTES: usize = 4096;

/// Verifies an outcome, and merges it into the cache of `database`, best of both; appends its trials to
/// the cache's log. An outcome that says that the task failed changes nothing.
///
/// # Errors
///
/// [`AcceptError::Refused`] if anything in it is not true of the task, and the others if the cache can't be
/// written.
pub fn accept(
    task: &Task,
    outcome: &TaskOutcome,
    database: &Database,
) -> Result<Accepted, AcceptError> {
    let refused = |why: String| AcceptError::Refused {
        name: task.name.to_string(),
        worker: Printable(&outcome.worker).to_string(),
        host: Printable(&outcome.host).to_string(),
        why: Printable(why).to_string(),
    };
    outcome.check().map_err(|it| refused(it.to_string()))?;
    if outcome.task != task.id() {
        return Err(refused("it is the outcome of another task".to_owned()));
    }
    let Some(tuned) = outcome.tuned() else { return Ok(Accepted::default()) };
    let cache = database.cache().ok_or(DatabaseError::NoCache)?;
    let verify = || Expected::of(task)?.verify(tuned);
    let verified = contained(task.name.as_str(), || task.dag.clone(), verify);
    let verified = verified.unwrap_or_else(|panicked| Err(panicked.to_string()));
    let (record, trials) = verified.map_err(refused)?;
    let path = database.put(&record, &Files::default())?;
    let n_trials = keep_trials(task, &trials, cache)?;
    Ok(Accepted { record: Some(path), n_trials })
}

/// Appends trials to the log of the cache, under the lock of its records: of two processes that take one
/// outcome, the second finds the trials there.
fn keep_trials(task: &Task, trials: &[Trial], cache: &Cache) -> Result<usize, AcceptError> {
    let path = log_file(cache, task.name.as_str(), &task.workload_id(), &task.device);
    let _lock = cache.lock_records(PATIENCE, &mut |_| ())?;
    add_trials(&path, trials).map_err(|source| AcceptError::Log { path, source })
}

/// Returns whether a schedule is one that a task asks for: measured, on its platform, under its conditions.
pub(crate) fn is_of_task(entry: &Entry, task: &Task) -> bool {
    Expected::of(task).is_ok_and(|it| it.check_conditions(entry).is_ok())
}

/// The conditions that every honest outcome of a task meets.
struct Expected<'a> {
    task: &'a Task,
    workload: Workload,
    /// The program, specialized to the bucket.
    dag: Dag,
    target: Target,
    /// The operands that timed launches find in memory, as records name them.
    cold: Option<Vec<u32>>,
    /// The least time of a launch at the largest extents.
    lower_bound_ns: f64,
}

impl<'a> Expected<'a> {
    fn of(task: &'a Task) -> Result<Self, String> {
        task.check().map_err(|it| it.to_string())?;
        let (workload, ranges) = (task.workload().map_err(|it| it.to_string())?, task.ranges());
        let target = task.target().ok_or("its device is none that code is generated for")?;
        let dag = workload.dag.specialize(&ranges);
        let largest: Vec<i64> = ranges.iter().map(|it| it.hi).collect();
        let cold = operands::cold(&workload.dag, &largest, &task.residence, &target);
        let cold = operands::recorded(&cold, task.platform);
        // Of the device, whatever instruction set the code has: as records are checked.
        let device = task.device_target().unwrap_or(target);
        let ns = lower_bound_ns(&workload.dag, &largest, &device).max(MIN_LAUNCH_NS);
        Ok(Self { task, workload, dag, target, cold, lower_bound_ns: ns })
    }

    /// Returns the record and the trials of a result, if they are true.
    fn verify(&self, tuned: &Tuned) -> Result<(Record, Vec<Trial>), String> {
        let read = Record::from_toml(&tuned.record);
        let record = read.map_err(|it| format!("its record is none: {}", reason(&it)))?;
        self.check_record(&record)?;
        for entry in record.buckets.iter().flat_map(|it| &it.schedules) {
            self.check_entry(entry)?;
        }
        let read = |text: &String| {
            let trial: Trial =
                serde_json::from_str(text).map_err(|it| format!("a trial is none: {it}"))?;
            self.check_trial(&trial).map_err(|why| format!("a trial {why}"))?;
            Ok(trial)
        };
        let trials = tuned.trials.iter().map(read).collect::<Result<_, String>>()?;
        Ok((record, trials))
    }

    fn check_record(&self, record: &Record) -> Result<(), String> {
        let (task, ranges) = (self.task, self.task.ranges());
        let differs = [
            (record.workload != self.workload.id || record.dag != task.dag, "program"),
            (record.name != task.name, "name"),
            (record.device != task.device, "device"),
            (record.generator != task.generator, "code generator"),
            (record.buckets.iter().any(|it| it.dims != ranges), "bucket"),
        ];
        if let Some((_, what)) = differs.into_iter().find(|(differs, _)| *differs) {
            return Err(format!("its record is of another {what} than was asked for"));
        }
        match record.buckets.iter().any(|it| !it.schedules.is_empty()) {
            true => Ok(()),
            false => Err("its record has no schedule".to_owned()),
        }
    }

    fn check_entry(&self, entry: &Entry) -> Result<(), String> {
        self.check_conditions(entry).map_err(str::to_owned)?;
        if !entry.images.is_empty() {
            return Err("its record names compiled code, and none is taken".to_owned());
        }
        let artifact = self.artifact(&entry.trace)?;
        match artifact == entry.artifact {
            true => Ok(()),
            false => Err(format!(
                "a schedule makes the code {}, and its record says {}",
                artifact.0.short(),
                entry.artifact.0.short()
            )),
        }
    }

    /// Checks that a schedule was measured as the task asks for.
    fn check_conditions(&self, entry: &Entry) -> Result<(), &'static str> {
        if entry.platform != self.task.platform {
            return Err("a schedule is for another platform than was asked for");
        }
        let measured = entry.measured.as_ref().ok_or("a schedule was not measured")?;
        match measured.cold == self.cold {
            true => Ok(()),
            false => Err("a schedule was timed with other operands in memory than was asked for"),
        }
    }

    /// Returns the identity of the code that a trace makes.
    fn artifact(&self, trace: &[String]) -> Result<ArtifactId, String> {
        let parse = |it: &String| it.parse().map_err(|it| format!("a trace does not parse: {it}"));
        let trace: Vec<Instruction> = trace.iter().map(parse).collect::<Result<_, String>>()?;
        let replayed = Schedule::replay(&self.dag, &trace);
        let schedule = replayed.map_err(|it| format!("a trace does not apply: {it}"))?;
        generate(&schedule, self.target.platform())
    }

    fn check_trial(&self, trial: &Trial) -> Result<(), String> {
        let task = self.task;
        let differs = [
            (trial.workload != self.workload.id.to_string(), "program"),
            (trial.generator != task.generator, "code generator"),
            (trial.bucket != task.bucket, "bucket"),
            (trial.isa != task.platform.to_string(), "platform"),
            (trial.cold != self.cold, "place of operands"),
        ];
        if let Some((_, what)) = differs.into_iter().find(|(differs, _)| *differs) {
            return Err(format!("is of another {what} than was asked for"));
        }
        let is_short = |it: &String| it.len() <= MAX_LINE_BYTES;
        if trial.trace.len() > MAX_TRACE || !trial.trace.iter().all(is_short) {
            return Err("has a trace that is not one of a schedule".to_owned());
        }
        let numbers = [trial.slowdown, trial.generate_ms, trial.measure_ms];
        if !numbers.iter().all(|it| it.is_finite() && *it >= 0.0) {
            return Err("has a time that is none".to_owned());
        }
        // A log is read without a check of what it timed.
        let is_timing = |it: &Timing| Timing::new(it.samples_ns().to_vec()).is_some();
        match trial.outcome.timing() {
            Some(timing) if !is_timing(timing) => Err("has a timing that is none".to_owned()),
            Some(timing) if timing.min_ns() < self.lower_bound_ns => Err(format!(
                "took {:.0} ns, less than the {:.0} ns that such a device needs at least",
                timing.min_ns(),
                self.lower_bound_ns
            )),
            _ => Ok(()),
        }
    }
}

/// Generates the code of a schedule for a platform; returns its identity.
fn generate(schedule: &Schedule, platform: Platform) -> Result<ArtifactId, String> {
    let failed = |it: String| format!("a schedule makes no code: {it}");
    match platform {
        Platform::Cpu(isa) => {
            let generated = tvmtune_cpu::generate(schedule, isa);
            generated.map(|it| it.artifact).map_err(|it| failed(it.to_string()))
        }
        #[cfg(feature = "cuda")]
        Platform::Cuda(_) => {
            let generated = tvmtune_cuda::generate(schedule);
            generated.map(|it| it.artifact).map_err(|it| failed(it.to_string()))
        }
        #[cfg(not(feature = "cuda"))]
        Platform::Cuda(_) => {
            Err("it is for a GPU, and this tvmtune came without the feature `cuda`".to_owned())
        }
    }
}
