//! Step 9 of 12: records, the best known schedules of a workload on a device.
//!
//! ```text
//! ... -> codegen -> compile -> measure -> [record] -> plan -> expand -> launch
//! ```
//!
//! In: the traces that measured best, with their samples. Out: a [`Record`], kept as one TOML file
//! by the tuner's database. Next: the build plan replays its best trace.
//!
//! Read `text.rs` for the file, and `merge.rs` for what happens when two people measured the same
//! workload.
//!
//! # Invariants
//!
//! - Equal records are equal text, byte for byte; a record survives the way to text and back.
//! - Only *choices* are compared between records. What the clock said lives in `measured` tables.
//! - Within a bucket, the schedules of one platform are in order of preference.
//! - What a platform's code is measured on is what the record's device is: no schedule for GPUs
//!   stands in a record of a CPU.
//!
//! # Versions
//!
//! [`SCHEMA`] grows when the meaning of a field changes or a field is added. A reader refuses a
//! newer schema ([`RecordError::Newer`]) and fields it does not know: a record that was mangled
//! would otherwise be trusted. Callers treat either as a miss.
//!
//! Version 2 is that of GPUs: schedules may be unmeasured, and may have [`Image`]s. Records of CPUs
//! are written as before ([`schema`]), so that readers of version 1 lose nothing. Version 3 has
//! ancestors of other workloads and devices, and moves; records without any are written as before
//! ([`Record::needed_schema`]). Version 4 says how schedules were measured: which operands launches
//! found in memory, how far results were from the reference, what the machine does at most, whether
//! other code was measured than a trace makes by now; and how often a program runs. Version 5 has
//! schedules that a value function chose, which are not measured on CPUs either. Version 6 says how accurate
//! results are.

pub mod accuracy;
mod check;
mod effort;
mod image;
mod lineage;
mod merge;
mod peaks;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::digest::Digest;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{DeviceKey, GpuTarget, Platform};
use tvmtune_ir::workload::WorkloadId;
use tvmtune_schedule::Instruction;

pub use accuracy::{Accuracy, Class};
pub use effort::{Effort, Search, SearchLimits};
pub use image::{Format, Image};
pub use lineage::Ancestor;
pub use merge::{Conflict, KEPT_PER_ISA};
pub use peaks::Peaks;
pub use text::RecordError;

/// The newest version of the file format that this build reads.
pub const SCHEMA: u32 = 6;

/// The version of generated code and of its identity. It grows when the same trace makes other
/// machine code, or when identities are computed in another way: see [`crate::migrate`].
pub const GENERATOR: u32 = 2;

/// The version of the file format that records of a device are written in, where nothing in them
/// takes a newer one.
pub fn schema(device: &DeviceKey) -> u32 {
    if GpuTarget::from_key(device).is_some() { 2 } else { 1 }
}

/// The schedules known of one workload on one device. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of the format.
    pub schema: u32,
    /// The workload's identity.
    pub workload: WorkloadId,
    /// The program's name, for people and for the folder the file lies in.
    pub name: ProgramName,
    /// The device of the timings.
    pub device: DeviceKey,
    /// The version of the code generator: another one may make other bytes of the same trace.
    pub generator: u32,
    /// The canonical text whose hash is `workload`.
    pub dag: String,
    /// The origin of the record.
    pub provenance: Provenance,
    /// The results for each range of the dynamic dimensions, sorted by range.
    #[serde(default, rename = "bucket")]
    pub buckets: Vec<Bucket>,
    /// The last line of the file.
    pub end: End,
}

/// Shows that a file is whole: one that was cut between two tables would still be TOML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {}

/// The origin of a record: shown and warned about, never part of an identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The tool and its version.
    pub tool: String,
    /// The machine, as its operating system describes it.
    pub host: String,
    /// The measured peaks of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peaks: Option<Peaks>,
}

/// The results for one range of each dynamic dimension.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The range of each dynamic dimension, in order; empty if there are none.
    #[serde(default, deserialize_with = "ranges::deserialize")]
    pub dims: Vec<Interval>,
    /// Candidates measured so far.
    pub trials: u64,
    /// Wall time spent on them.
    pub seconds: f64,
    /// True if the search ended by itself: nothing was left to try, or nothing better was found
    /// for long.
    #[serde(default)]
    pub complete: bool,
    /// The number of runs of the program, relative to others of its network, if that was said.
    #[serde(default)]
    pub weight: Option<f64>,
    /// The best schedules of each platform, best first.
    #[serde(default, rename = "schedule")]
    pub schedules: Vec<Entry>,
}

/// A schedule that was measured, or prepared for a device that is not here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The platform of its code: `isa = "avx2"`, `isa = "sm_90a"`.
    #[serde(rename = "isa", deserialize_with = "platform")]
    pub platform: Platform,
    /// The identity of the code; for GPUs, of its source. A replay must reproduce it, or the entry is
    /// stale.
    pub artifact: ArtifactId,
    /// The identity of the code that was measured, where the trace makes other code by now: the
    /// measurement says nothing about that.
    #[serde(default)]
    pub measured_code: Option<ArtifactId>,
    /// The strategy that proposed it.
    pub source: Source,
    /// The primitives that make it, one a line.
    pub trace: Vec<String>,
    /// The measurement; a schedule for CPUs that was not predicted has one.
    #[serde(default)]
    pub measured: Option<Measured>,
    /// The distance of its results from exact ones, by class of arguments, if that was measured.
    #[serde(default)]
    pub accuracy: Option<Accuracy>,
    /// The schedules it was derived from, oldest first; empty for one that stands on its own.
    #[serde(default)]
    pub lineage: Vec<Ancestor>,
    /// Its compiled code, in files beside the record; only for GPUs.
    #[serde(default, rename = "image")]
    pub images: Vec<Image>,
}

/// The strategy that proposed a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The schedule that needs no measurement.
    Default,
    /// A random point of the space.
    Random,
    /// A descendant of better points.
    Evolved,
    /// The trace of another workload.
    Transfer,
    /// A neighbor of the incumbent.
    Droplet,
    /// The choice of a value function, which measured nothing.
    Predicted,
}

/// The latency of one launch, over repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Half of the samples are faster.
    pub median_ns: f64,
    /// The fastest sample.
    pub min_ns: f64,
    /// A tenth of the samples are faster.
    pub p10_ns: f64,
    /// A tenth of the samples are slower.
    pub p90_ns: f64,
    /// Number of samples.
    pub samples: u32,
    /// Threads that ran it.
    pub threads: u32,
    /// The dynamic dimensions at which it was timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dims: Vec<i64>,
    /// The parameters, by position, that timed launches found in memory, and not in a cache; without
    /// it none on a CPU, and all on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<Vec<u32>>,
    /// The largest difference of a result from the reference, as a share of the tolerance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The SHA-256 of the machine code that was launched on a GPU: another version of NVRTC makes other
    /// code of the same source. On a CPU the artifact is the identity of the machine code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Digest>,
}

/// The origin of a schedule, better ones first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Measured on this device, for these ranges of the dimensions.
    Exact,
    /// Measured on another device with the same instruction set, for these ranges.
    SameIsa,
    /// Measured for other ranges of the dimensions. It may not apply: replay it and see.
    Transferred,
    /// Never measured; a value function that was trained on measurements of other programs chose it.
    Predicted,
    /// Never measured.
    #[default]
    Default,
}

impl Record {
    /// The bucket of those ranges.
    pub fn bucket(&self, dims: &[Interval]) -> Option<&Bucket> {
        self.buckets.iter().find(|it| it.dims == dims)
    }

    /// The bucket of those ranges, made if it is missing; buckets stay sorted by their ranges.
    pub fn bucket_mut(&mut self, dims: &[Interval]) -> &mut Bucket {
        let key =
            |it: &[Interval]| -> Vec<(i64, i64)> { it.iter().map(|x| (x.lo, x.hi)).collect() };
        let place = self.buckets.binary_search_by_key(&key(dims), |it| key(&it.dims));
        let position = place.unwrap_or_else(|position| {
            let empty = Bucket { dims: dims.to_vec(), ..Bucket::default() };
            self.buckets.insert(position, empty);
            position
        });
        &mut self.buckets[position]
    }

    /// The version of the file format that it takes to say all this: records are written in it.
    pub fn needed_schema(&self) -> u32 {
        let mut entries = self.buckets.iter().flat_map(|it| &it.schedules);
        if entries.clone().any(|it| it.accuracy.is_some()) {
            return 6;
        }
        let is_of_5 = |it: &Entry| {
            it.source == Source::Predicted
                || it.measured.as_ref().is_some_and(|it| it.image.is_some())
        };
        if entries.clone().any(is_of_5) {
            return 5;
        }
        let is_of_4 = |it: &Entry| {
            it.is_replayed() || it.measured.as_ref().is_some_and(Measured::is_of_schema_4)
        };
        if self.provenance.peaks.is_some()
            || self.buckets.iter().any(|it| it.weight.is_some())
            || entries.clone().any(is_of_4)
        {
            return 4;
        }
        let is_of_3 = |it: &Entry| it.lineage.iter().any(Ancestor::is_of_schema_3);
        if entries.any(is_of_3) { 3 } else { schema(&self.device) }
    }
}

impl Record {
    /// Keeps the best `n` schedules of each platform and bucket: for readers of a change, and for
    /// builds, which take the best.
    pub fn keep_best(&mut self, n: usize) {
        for bucket in &mut self.buckets {
            let mut n_kept = BTreeMap::new();
            bucket.schedules.retain(|it| {
                let kept = n_kept.entry(it.platform).or_insert(0);
                *kept += 1;
                *kept <= n
            });
        }
    }
}

impl Bucket {
    /// The best schedule of a platform.
    pub fn best(&self, platform: impl Into<Platform>) -> Option<&Entry> {
        let platform = platform.into();
        self.schedules.iter().find(|it| it.platform == platform)
    }
}

impl Entry {
    /// A schedule that nobody measured, with the identity of its code.
    pub fn unmeasured(
        platform: Platform,
        artifact: ArtifactId,
        source: Source,
        trace: &[Instruction],
    ) -> Self {
        Self {
            platform,
            artifact,
            measured_code: None,
            source,
            trace: trace.iter().map(ToString::to_string).collect(),
            measured: None,
            accuracy: None,
            lineage: Vec::new(),
            images: Vec::new(),
        }
    }

    /// Returns whether this is faster than the other by more than the noise of both; what was measured
    /// beats what was not.
    pub fn clearly_beats(&self, other: &Entry) -> bool {
        match (&self.measured, &other.measured) {
            (Some(this), Some(other)) => this.clearly_beats(other),
            (this, other) => this.is_some() && other.is_none(),
        }
    }

    /// Returns whether a value function chose it, and nobody measured it since.
    pub fn is_prediction(&self) -> bool {
        self.source == Source::Predicted && self.measured.is_none()
    }

    /// Returns whether its measurement is one of other code than its trace makes.
    pub fn is_replayed(&self) -> bool {
        self.measured_code.is_some()
    }

    /// Returns whether the machine code that was measured is among the images, or it is not recorded
    /// which that was.
    pub fn was_measured_by<'a>(&self, images: impl IntoIterator<Item = &'a Image>) -> bool {
        let measured = self.measured.as_ref().and_then(|it| it.image);
        measured.is_none_or(|measured| images.into_iter().any(|it| it.sha256 == measured))
    }

    /// Returns the identity of the code that was measured.
    pub fn timed_code(&self) -> ArtifactId {
        self.measured_code.unwrap_or(self.artifact)
    }

    /// The time of one launch, in ns; `None` if it was not measured.
    pub fn median_ns(&self) -> Option<f64> {
        self.measured.as_ref().map(|it| it.median_ns)
    }
}

impl Measured {
    /// The relative spread of the samples: the distance from `p10` to the median, and never below
    /// half a percent, which is what clocks drift by anyway. Samples above the median say what else
    /// ran on the machine: a few that took twice as long would outweigh any difference.
    pub fn noise(&self) -> f64 {
        ((self.median_ns - self.p10_ns) / self.median_ns).max(0.005)
    }

    /// Returns whether it says what records of schema 3 can't.
    fn is_of_schema_4(&self) -> bool {
        self.cold.is_some() || self.error.is_some()
    }

    /// Returns whether this is faster than the other by more than the noise of both.
    pub fn clearly_beats(&self, other: &Measured) -> bool {
        self.median_ns < other.median_ns * (1.0 - self.noise().max(other.noise()))
    }
}

impl Source {
    /// The spelling in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::Random => "random",
            Source::Evolved => "evolved",
            Source::Transfer => "transfer",
            Source::Droplet => "droplet",
            Source::Predicted => "predicted",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Tier {
    /// The spelling in reports.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Exact => "exact",
            Tier::SameIsa => "same isa",
            Tier::Transferred => "transferred",
            Tier::Predicted => "predicted",
            Tier::Default => "default",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn display<T: fmt::Display, S: Serializer>(it: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(it)
}

fn platform<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Platform, D::Error> {
    by_name(deserializer, Platform::from_name, "an instruction set")
}

fn arch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arch, D::Error> {
    by_name(deserializer, Arch::from_name, "an architecture")
}

fn by_name<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    parse: fn(&str) -> Option<T>,
    expected: &str,
) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    parse(&name).ok_or_else(|| D::Error::custom(format!("`{name}` is not {expected}")))
}

/// Ranges as a program spells them: `1..=16`.
mod ranges {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer};

    use super::Interval;

    pub(super) fn text(range: &Interval) -> String {
        format!("{}..={}", range.lo, range.hi)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Interval>, D::Error> {
        let error =
            |it| D::Error::custom(format!("`{it}` is not a range; expected one such as `1..=16`"));
        let ranges = Vec::<String>::deserialize(deserializer)?;
        ranges.iter().map(|it| range(it).ok_or_else(|| error(it))).collect()
    }

    fn range(text: &str) -> Option<Interval> {
        let (lo, hi) = text.split_once("..=")?;
        let (lo, hi) = (lo.parse().ok()?, hi.parse().ok()?);
        (1 <= lo && lo <= hi).then_some(Interval { lo, hi })
    }
}
