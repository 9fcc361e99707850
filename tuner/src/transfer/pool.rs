//! The pool of transfer sources, and the candidates that it offers to a program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::dag::anchor::Anchor;
use tvmtune_ir::poly::{Interval, Poly};
use tvmtune_ir::target::{DeviceKey, Platform, Target};
use tvmtune_ir::workload::{self, ClassId, Strength, WorkloadId};
use tvmtune_plan::database::{Database, device_distance};
use tvmtune_plan::record::{Ancestor, Record, Source};
use tvmtune_schedule::{FactorPolicy, Instruction, Schedule, nest, repair_by};
use tvmtune_space::fits;

use super::history::{History, TransferResult};

/// Schedules that may apply to other workloads too: the transfer sources of a run.
#[derive(Clone, Debug, Default)]
pub struct TransferSources {
    entries: Vec<PoolEntry>,
    /// The entries of a class, by position.
    classes: BTreeMap<(Strength, ClassId), Vec<usize>>,
    history: History,
}

/// A schedule that was measured, with the program it was made for.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferSource {
    /// The identity of the program, for all extents that it allows.
    pub workload: WorkloadId,
    /// The program, specialized to the ranges of the bucket.
    pub dag: Arc<Dag>,
    /// The ranges of the dynamic dimensions that it was made for.
    pub bucket: Vec<Interval>,
    /// The primitives that make it, one a line, as records keep them.
    pub trace: Vec<String>,
    /// The device it was measured on.
    pub device: DeviceKey,
    /// The instruction set or GPU architecture of its code.
    pub platform: Platform,
    /// Its median latency on that device.
    pub median_ns: f64,
    /// The median latency of the default schedule there, if it was measured.
    pub default_ns: Option<f64>,
}

/// A schedule of another workload, repaired so that it applies to this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// The repaired trace: it replays on the program, and fits the target.
    pub trace: Vec<Instruction>,
    /// The workload whose schedule it was.
    pub source: WorkloadId,
    /// The device it was measured on.
    pub device: DeviceKey,
    /// Its median latency there.
    pub source_ns: f64,
    /// The strength of the class that both programs share.
    pub strength: Strength,
    /// The class that both programs are in.
    pub class: ClassId,
    /// The policy that adapted its tile factors to the extents.
    pub policy: FactorPolicy,
    /// The distance of the source: log ratios of extents, plus penalties for class and device.
    pub distance: f64,
    /// The distance between the original and the repaired trace: see [`Repaired`](tvmtune_schedule::Repaired).
    pub moved: f64,
}

/// A source and the identity of its specialized program.
#[derive(Clone, Debug)]
struct PoolEntry {
    source: TransferSource,
    /// The identity of the program for the ranges of the bucket.
    specialized: WorkloadId,
}

/// A source in a class of some program, with its rank for that program.
struct Match<'a> {
    entry: &'a PoolEntry,
    strength: Strength,
    class: ClassId,
    distance: f64,
    /// The distance, plus the penalties of its history and of better schedules of its workload.
    rank: f64,
}

/// Returns the addition to the distance for a class that wide.
fn penalty(strength: Strength) -> f64 {
    match strength {
        Strength::Shape => 0.0,
        Strength::Access => 4.0_f64.ln(),
        Strength::Anchor => 16.0_f64.ln(),
    }
}

/// The addition to the rank for each better schedule of the same workload; an estimate.
const DUPLICATE_PENALTY: f64 = 0.5;
/// Records that are read at most: a large database costs no more time.
const MAX_RECORDS: usize = 2000;
/// Repairs tried at most for each transfer wanted; most of them fit.
const MAX_REPAIRS: usize = 8;

impl Transfer {
    /// Returns its entry in a lineage; `device` is that of the record.
    pub fn ancestor(&self, device: &DeviceKey) -> Ancestor {
        let source = Ancestor::transferred(self.source, self.source_ns);
        if self.device == *device { source } else { source.on(self.device.clone()) }
    }
}

impl TransferSources {
    /// Collects every measured schedule of a database that may apply to a target: those of CPUs for
    /// CPUs, those of GPUs for GPUs.
    pub fn from_database(database: &Database, target: &Target) -> Self {
        let mut sources = Self::default();
        // Those of this user's cache come first.
        for (_, _, record) in database.list().take(MAX_RECORDS) {
            if let Ok(record) = record {
                sources.add_record(&record, target);
            }
        }
        sources
    }

    /// Adds the measured schedules of a record, if they may apply to a target.
    pub fn add_record(&mut self, record: &Record, target: &Target) {
        let device = Target::from_key(&record.device);
        let is_same_kind = match target {
            Target::Cpu(_) => matches!(device, Some(Target::Cpu(_))),
            Target::Gpu(_) => matches!(device, Some(Target::Gpu(_))),
        };
        let Some(dag) = record.dag.parse::<Dag>().ok().filter(|_| is_same_kind) else { return };
        for bucket in record.buckets.iter().filter(|it| it.dims.len() == dag.dims.len()) {
            let dag = Arc::new(dag.specialize(&bucket.dims));
            let (specialized, classes) = (workload::id(&dag), classes_of(&dag));
            for entry in &bucket.schedules {
                let Some(median_ns) = entry.median_ns() else { continue };
                let mut same = bucket.schedules.iter().filter(|it| it.platform == entry.platform);
                let default = same.find(|it| it.source == Source::Default);
                let source = TransferSource {
                    workload: record.workload,
                    dag: dag.clone(),
                    bucket: bucket.dims.clone(),
                    trace: entry.trace.clone(),
                    device: record.device.clone(),
                    platform: entry.platform,
                    median_ns,
                    default_ns: default.and_then(|it| it.median_ns()),
                };
                self.add_entry(PoolEntry { source, specialized }, &classes);
            }
        }
    }

    /// Adds a source.
    pub fn add(&mut self, source: TransferSource) {
        let (specialized, classes) = (workload::id(&source.dag), classes_of(&source.dag));
        self.add_entry(PoolEntry { source, specialized }, &classes);
    }

    /// Adds an entry whose program is in these classes.
    fn add_entry(&mut self, entry: PoolEntry, classes: &[ClassId; 3]) {
        let number = self.entries.len();
        for (strength, class) in Strength::ALL.into_iter().zip(classes) {
            self.classes.entry((strength, *class)).or_default().push(number);
        }
        self.entries.push(entry);
    }

    /// Returns the number of sources.
    pub fn n_sources(&self) -> usize {
        self.entries.len()
    }

    /// Returns up to `limit` transfers for a program, those of the nearest sources first, each
    /// source's by several policies, without duplicates.
    pub fn candidates(&self, dag: &Dag, target: &Target, limit: usize) -> Vec<Transfer> {
        let (mut found, mut seen, mut n_repairs) = (Vec::new(), BTreeSet::new(), 0);
        for candidate in self.matches(dag, target) {
            let source = &candidate.entry.source;
            let parsed: Result<Vec<Instruction>, _> =
                source.trace.iter().map(|it| it.parse()).collect();
            let Ok(trace) = parsed else { continue };
            for policy in FactorPolicy::TRANSFER {
                if found.len() == limit || n_repairs == limit.saturating_mul(MAX_REPAIRS) {
                    return found;
                }
                n_repairs += 1;
                let Ok(repaired) = repair_by(policy, &trace, &source.dag, dag) else { break };
                if !seen.insert(repaired.schedule.trace.clone())
                    || !fits_target(&repaired.schedule, target)
                {
                    continue;
                }
                found.push(Transfer {
                    trace: repaired.schedule.trace,
                    source: source.workload,
                    device: source.device.clone(),
                    source_ns: source.median_ns,
                    strength: candidate.strength,
                    class: candidate.class,
                    policy,
                    distance: candidate.distance,
                    moved: repaired.distance,
                });
            }
        }
        found
    }

    /// Counts the result of a transfer.
    pub fn report(&mut self, transfer: &Transfer, result: TransferResult) {
        self.history.count(&transfer.source, &transfer.class, result);
    }

    /// Returns the sources that share a class with a program, in order of rank.
    fn matches(&self, dag: &Dag, target: &Target) -> Vec<Match<'_>> {
        let (own, device) = (workload::id(dag), target.key());
        let (mut matches, mut seen) = (Vec::new(), BTreeSet::new());
        for (strength, class) in Strength::ALL.into_iter().zip(classes_of(dag)) {
            if self.history.is_given_up(&class) {
                continue;
            }
            let members = self.classes.get(&(strength, class));
            for number in members.into_iter().flatten() {
                let entry = &self.entries[*number];
                let is_own = entry.specialized == own && entry.source.device == device;
                let platform = platform_distance(&entry.source, target);
                let Some(platform) = platform.filter(|_| !is_own && seen.insert(*number)) else {
                    continue;
                };
                let extents = extent_distance(&entry.source.dag, dag, strength);
                let distance = extents + penalty(strength) + platform;
                let rank = distance + self.history.penalty(&entry.source.workload, &class);
                matches.push(Match { entry, strength, class, distance, rank });
            }
        }
        // Of the schedules of one workload, only the best one has no penalty.
        matches.sort_by(|a, b| a.entry.source.median_ns.total_cmp(&b.entry.source.median_ns));
        let mut n_before: BTreeMap<_, f64> = BTreeMap::new();
        for it in &mut matches {
            let key = (&it.entry.specialized, &it.entry.source.device, it.entry.source.platform);
            let n = n_before.entry(key).or_default();
            it.rank += DUPLICATE_PENALTY * *n;
            *n += 1.0;
        }
        matches.sort_by(|a, b| a.rank.total_cmp(&b.rank));
        matches
    }
}

/// Returns the class of each strength.
fn classes_of(dag: &Dag) -> [ClassId; 3] {
    Strength::ALL.map(|it| workload::class(dag, it))
}

/// Returns the distance between the platforms of a source and a target; `None` for a CPU and a GPU.
fn platform_distance(source: &TransferSource, target: &Target) -> Option<f64> {
    /// The distance of two instruction sets or architectures; an estimate.
    const OTHER: f64 = 1.0;
    /// The distance of a factor of two in cache size or threads; an estimate.
    const OCTAVE: f64 = 0.1;
    let distance = device_distance(&source.device, &target.key());
    let other = if source.platform == target.platform() { 0.0 } else { OTHER };
    distance.is_finite().then_some(distance * OCTAVE + other)
}

/// Returns the sum of the log ratios of the extents of the anchor compute.
fn extent_distance(source: &Dag, dag: &Dag, strength: Strength) -> f64 {
    let Some(anchor) = Anchor::of(dag) else { return 0.0 };
    let compute = match strength {
        // Computes are the same, one by one.
        Strength::Shape | Strength::Access => Some(anchor.compute),
        Strength::Anchor => Anchor::of(source).map(|it| it.compute),
    };
    let compute = compute.and_then(|it| source.computes.get(it.0 as usize));
    let Some(compute) = compute else { return 0.0 };
    let facts = [source.facts(), dag.facts()];
    let longest = |extent: &Poly, n: usize| extent.interval(&facts[n]).hi.max(1) as f64;
    let axes = compute.axes.iter().zip(&dag.compute(anchor.compute).axes);
    axes.map(|(a, b)| (longest(&a.extent, 0) / longest(&b.extent, 1)).ln().abs()).sum()
}

/// Tells if a schedule can run on the target.
pub(super) fn fits_target(schedule: &Schedule, target: &Target) -> bool {
    let nest = nest::lower(schedule);
    match target {
        Target::Cpu(cpu) => fits::cpu::fits(&nest, cpu).is_ok(),
        Target::Gpu(gpu) => crate::cost::gpu::fits(&nest, gpu),
    }
}
