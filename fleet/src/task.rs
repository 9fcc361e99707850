//! A tuning task as data, for another machine.
//!
//! In: a bucket of a workload, a device, a budget. Out: a [`Task`], as JSON. Next: another machine reads
//! and [executes](crate::execute) it.
//!
//! # Invariants
//!
//! - A task that was read is one that this release can execute on such a device, whoever sent it: its
//!   program parses, its ranges are of the program, its numbers are finite, its texts have limits.
//! - Equal tasks are equal text, byte for byte: [`TaskId`] is its hash, and names the task in queues.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tvmtune_ir::dag::limits::MAX_TEXT_BYTES;
use tvmtune_ir::dag::{Dag, Dim, dims};
use tvmtune_ir::digest::Digest;
use tvmtune_ir::dsl::Residence;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, DeviceKey, Platform, Target};
use tvmtune_ir::workload::WorkloadId;
use tvmtune_plan::read::limit;
use tvmtune_plan::record::{GENERATOR, Record};
use tvmtune_tuner::tune::{Recipe, Reuse, Tolerance, Workload};

use crate::wire::{self, VERSION, WireError, from_json, reason};

/// The longest text of a task in bytes.
pub const MAX_TASK_BYTES: usize = 8 << 20;
/// The most records that a task brings along: those of one workload on several devices.
pub const MAX_RECORDS: usize = 16;
/// The most bytes of records that [`Task::add_records`] adds.
const MAX_RECORD_BYTES: usize = 512 << 10;
/// The most trials of a task, and the longest time that one may ask for.
const MAX_TRIALS: u64 = 1_000_000;
const MAX_SECONDS: f64 = 7.0 * 24.0 * 3600.0;

/// The identity of a task: the SHA-256 of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub Digest);

/// A bucket of a workload, to be tuned on a device that is elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Task {
    /// The version of the format.
    pub version: u32,
    /// The program's name, for people and for folders.
    pub name: ProgramName,
    /// The canonical text of the program, for all extents that it allows.
    pub dag: String,
    /// The range of each dynamic dimension, as pairs of ends.
    pub bucket: Vec<(i64, i64)>,
    /// For each parameter, the place where a launch finds it, as far as the program says; empty if it
    /// says nothing.
    #[serde(with = "wire::places")]
    pub residence: Vec<Option<Residence>>,
    /// The tolerance of results.
    #[serde(with = "wire::ToleranceFields")]
    pub tolerance: Tolerance,
    /// The device that is measured.
    pub device: DeviceKey,
    /// The platform of the code: that of the device, or an older instruction set that it runs.
    #[serde(with = "wire::platform")]
    pub platform: Platform,
    /// The version of the code generator.
    pub generator: u32,
    /// The use of the records that come along.
    #[serde(with = "wire::ReuseName")]
    pub reuse: Reuse,
    /// The search.
    pub recipe: Recipe,
    /// The seed of all random choices.
    pub seed: u64,
    /// The limits on trials and time.
    pub budget: TaskBudget,
    /// Tasks of a higher priority are executed first.
    pub priority: u8,
    /// A latency that is good enough: the search ends there.
    pub target_latency_ns: Option<f64>,
    /// Records of the workload on this and other devices, as TOML: schedules to begin with.
    pub records: Vec<String>,
}

/// The limits of a task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskBudget {
    /// Candidates to measure.
    pub trials: u64,
    /// Wall time of the kernel, in seconds.
    pub kernel_seconds: f64,
    /// Wall time of everything, waiting for other processes included, in seconds.
    pub total_seconds: f64,
}

impl Task {
    /// Creates a task with the default recipe, the first seed and no records.
    pub fn new(
        workload: &Workload,
        bucket: &[Interval],
        device: DeviceKey,
        platform: Platform,
        budget: TaskBudget,
    ) -> Self {
        Self {
            version: VERSION,
            name: ProgramName::of(&workload.dag.name),
            dag: workload.text.clone(),
            bucket: bucket.iter().map(|it| (it.lo, it.hi)).collect(),
            residence: workload.residence.clone(),
            tolerance: workload.tolerance,
            device,
            platform,
            generator: GENERATOR,
            reuse: Reuse::Compete,
            recipe: Recipe::default(),
            seed: 1,
            budget,
            priority: 0,
            target_latency_ns: workload.good_enough_ns,
            records: Vec::new(),
        }
    }

    /// Adds records of its workload, as many as it may bring along: those of its own device first.
    pub fn add_records(&mut self, mut records: Vec<Record>) {
        records.retain(|it| it.dag == self.dag);
        records.sort_by_key(|it| it.device != self.device);
        // Compiled code stays where it is.
        let schedules = records.iter_mut().flat_map(|it| &mut it.buckets);
        schedules.flat_map(|it| &mut it.schedules).for_each(|it| it.images.clear());
        let mut n_bytes = 0;
        for text in records.iter().map(Record::to_toml) {
            n_bytes += text.len();
            let is_readable = Record::from_toml(&text).is_ok();
            if is_readable && self.records.len() < MAX_RECORDS && n_bytes <= MAX_RECORD_BYTES {
                self.records.push(text);
            }
        }
    }

    /// Returns its identity.
    pub fn id(&self) -> TaskId {
        TaskId(Digest::of([self.to_json().as_slice()]))
    }

    /// Returns its text, which is the same for equal tasks.
    pub fn to_json(&self) -> Vec<u8> {
        wire::to_json(self)
    }

    /// Reads a task.
    ///
    /// # Errors
    ///
    /// [`WireError`] if this release cannot execute it on any machine.
    pub fn from_json(text: &[u8]) -> Result<Self, WireError> {
        let Unchecked(task) = from_json("task", text, MAX_TASK_BYTES)?;
        task.check().map(|()| task)
    }

    /// Returns the identity of its program.
    pub fn workload_id(&self) -> WorkloadId {
        WorkloadId::of(&self.dag)
    }

    /// Returns the ranges of the dynamic dimensions.
    pub fn ranges(&self) -> Vec<Interval> {
        self.bucket.iter().map(|it| Interval { lo: it.0, hi: it.1 }).collect()
    }

    /// Returns its device, as a model for code generation; `None` if it is none that code is generated for.
    pub fn device_target(&self) -> Option<Target> {
        Target::from_key(&self.device)
    }

    /// Returns the target of its code: its device, with the instruction set of its platform.
    pub fn target(&self) -> Option<Target> {
        Some(match (self.device_target()?, self.platform) {
            (Target::Cpu(cpu), Platform::Cpu(isa)) => CpuTarget { isa, ..cpu }.into(),
            (target, _) => target,
        })
    }

    /// Returns the workload, with its one bucket.
    ///
    /// # Errors
    ///
    /// [`WireError::Invalid`] if the program does not parse.
    pub fn workload(&self) -> Result<Workload, WireError> {
        let mut dag: Dag =
            self.dag.parse().map_err(|it| invalid("dag", format!("does not parse: {it}")))?;
        dag.name = self.name.to_string();
        let mut workload = Workload::new(dag, vec![self.ranges()], self.tolerance);
        workload.residence.clone_from(&self.residence);
        workload.good_enough_ns = self.target_latency_ns;
        Ok(workload)
    }

    /// Checks what types do not express.
    ///
    /// # Errors
    ///
    /// [`WireError`] names the field.
    pub fn check(&self) -> Result<(), WireError> {
        let (what, found) = ("task", self.generator);
        if self.version != VERSION {
            return Err(match self.version > VERSION {
                true => WireError::Newer { what, found: self.version },
                false => invalid("version", "is of no release".to_owned()),
            });
        }
        if self.generator != GENERATOR {
            return Err(WireError::Generator { what, found });
        }
        if self.dag.len() > MAX_TEXT_BYTES {
            return Err(invalid("dag", format!("has more than {MAX_TEXT_BYTES} bytes")));
        }
        self.check_program()?;
        self.check_device()?;
        self.check_numbers()?;
        self.check_records()
    }

    fn check_program(&self) -> Result<(), WireError> {
        let dag = self.workload()?.dag;
        if dag.kernel_template.is_some() && matches!(self.platform, Platform::Cuda(_)) {
            let why = "has hand-written kernels, and tasks carry no code: tune it by `cargo tvmtune \
                       tune` on a machine with that GPU";
            return Err(invalid("dag", why.to_owned()));
        }
        let is_range = |it: &(i64, i64)| 1 <= it.0 && it.0 <= it.1;
        let is_in = |(dim, it): (&Dim, &(i64, i64))| dim.range.lo <= it.0 && it.1 <= dim.range.hi;
        let is_of_program = self.bucket.len() == dag.dims.len()
            && self.bucket.iter().all(is_range)
            && dag.dims.iter().zip(&self.bucket).all(is_in)
            && dims::narrowed(&dag.dims, &self.ranges()).is_some_and(|it| it == self.ranges());
        if !is_of_program {
            return Err(invalid("bucket", "is not one of ranges of the program".to_owned()));
        }
        match self.residence.is_empty() || self.residence.len() == dag.params().count() {
            true => Ok(()),
            false => Err(invalid("residence", "has not one place for each parameter".to_owned())),
        }
    }

    fn check_device(&self) -> Result<(), WireError> {
        match (self.device_target(), self.platform) {
            (None, _) => Err(invalid("device", "is none that code is generated for".to_owned())),
            (Some(Target::Cpu(cpu)), Platform::Cpu(isa)) if isa.lanes() <= cpu.isa.lanes() => {
                Ok(())
            }
            (Some(target), platform) if target.platform() == platform => Ok(()),
            _ => Err(invalid("platform", "is none that the device runs".to_owned())),
        }
    }

    fn check_numbers(&self) -> Result<(), WireError> {
        let TaskBudget { trials, kernel_seconds, total_seconds } = self.budget;
        let Tolerance { rel, abs } = self.tolerance;
        if ![rel, abs].iter().all(|it| it.is_finite() && *it >= 0.0) {
            return Err(invalid("tolerance", "is not one of numbers from 0 on".to_owned()));
        }
        if !(1..=MAX_TRIALS).contains(&trials) {
            return Err(invalid("budget", format!("is not one of 1 to {MAX_TRIALS} trials")));
        }
        if ![kernel_seconds, total_seconds].iter().all(|it| (0.0..=MAX_SECONDS).contains(it)) {
            return Err(invalid("budget", format!("is not one of 0 to {MAX_SECONDS} seconds")));
        }
        match self.target_latency_ns.is_none_or(|it| it.is_finite() && it > 0.0) {
            true => Ok(()),
            false => Err(invalid("target_latency_ns", "is not a positive number".to_owned())),
        }
    }

    fn check_records(&self) -> Result<(), WireError> {
        if self.records.len() > MAX_RECORDS {
            return Err(invalid("records", format!("has more than {MAX_RECORDS}")));
        }
        self.known_records().map(drop)
    }

    /// Reads the records that came along.
    ///
    /// # Errors
    ///
    /// [`WireError::Invalid`] if one is no record of the workload.
    pub fn known_records(&self) -> Result<Vec<Record>, WireError> {
        let read = |text: &String| {
            if text.len() as u64 > limit::RECORD {
                return Err(invalid("records", "has one that is too long".to_owned()));
            }
            let why = |it| format!("has one that is not used: {}", reason(&it));
            let record = Record::from_toml(text).map_err(|it| invalid("records", why(it)))?;
            match record.dag == self.dag {
                true => Ok(record),
                false => Err(invalid("records", "has one of another program".to_owned())),
            }
        };
        self.records.iter().map(read).collect()
    }
}

fn invalid(field: &'static str, why: String) -> WireError {
    WireError::Invalid { what: "task", field, why }
}

/// A task whose fields have the right types, and were not checked further.
struct Unchecked(Task);

impl<'de> Deserialize<'de> for Unchecked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Task::deserialize(deserializer).map(Self)
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Task {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Unchecked(task) = Unchecked::deserialize(deserializer)?;
        task.check().map_err(D::Error::custom)?;
        Ok(task)
    }
}

impl TaskBudget {
    /// Returns the limits as the tuner takes them, less the time that was waited.
    pub(crate) fn of_tuner(&self, waited: Duration) -> tvmtune_tuner::tune::Budget {
        let time = |it| Duration::try_from_secs_f64(it).unwrap_or_default();
        tvmtune_tuner::tune::Budget {
            trials: self.trials,
            per_task: time(self.kernel_seconds),
            total: self.total().saturating_sub(waited),
        }
    }

    /// Returns the wall time of everything.
    pub fn total(&self) -> Duration {
        Duration::try_from_secs_f64(self.total_seconds).unwrap_or_default()
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
