//! The ranking of recorded schedules for a workload, by tier and distance.

use std::path::{Path, PathBuf};

use crate::record::{Bucket, Entry, Peaks, Record, Source, Tier};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, DeviceKey, GpuTarget, Platform, Target};

use super::artifact::Images;
use super::error::DatabaseError;
use super::store::{Cache, StoreKind};

/// The records of one workload.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The records, in order of precedence.
    pub records: Vec<StoredRecord>,
    /// The compiled code of their schedules.
    pub images: Images,
    /// Errors of files that are no valid records or images.
    pub warnings: Vec<DatabaseError>,
    /// The number of schedules that were found for the program with free numerics, and do not keep the order of
    /// its reductions.
    pub n_left_out: usize,
    /// The cache that knows what this machine does at most.
    pub(super) cache: Option<Cache>,
}

/// A schedule to use.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The tier of its device and ranges; [`Tier::Default`] if it was not measured.
    pub tier: Tier,
    /// The schedule.
    pub entry: &'a Entry,
    /// The record it is from.
    pub record: &'a Record,
    /// The file it is from.
    pub path: &'a Path,
    /// The kind of store that has the file.
    pub store: StoreKind,
    /// True if it was timed as it is used: with the same operands in memory, and not in a cache.
    pub is_as_used: bool,
}

/// A record in a store.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// The content of the file.
    pub record: Record,
    /// The file.
    pub path: PathBuf,
    /// The kind of the store.
    pub store: StoreKind,
}

/// A schedule with the keys of its ranking, after the tier.
struct Ranked<'a> {
    /// The distances of the ranges and of the devices, in octaves.
    ranges: f64,
    devices: f64,
    /// The precedence of its record.
    rank: usize,
    choice: Choice<'a>,
}

impl Lookup {
    /// Reads the images of all schedules in trusted stores.
    pub(super) fn read_images(&mut self) {
        for it in self.records.iter().filter(|it| it.store.is_trusted()) {
            for entry in it.record.buckets.iter().flat_map(|it| &it.schedules) {
                let warnings = self.images.add(&it.path, entry);
                self.warnings.extend(warnings);
            }
        }
    }

    /// Returns the best schedule for a device, ranges of the dimensions, and a platform; `None`
    /// stands for the default schedule.
    pub fn best(
        &self,
        device: &DeviceKey,
        dims: &[Interval],
        platform: impl Into<Platform>,
    ) -> Option<Choice<'_>> {
        self.choices(device, dims, platform, None).into_iter().next()
    }

    /// Returns every applicable schedule, best first: the next one is tried if one does not replay.
    /// `cold` has the parameters that launches find in memory, as records name them.
    pub fn choices(
        &self,
        device: &DeviceKey,
        dims: &[Interval],
        platform: impl Into<Platform>,
        cold: Option<&[u32]>,
    ) -> Vec<Choice<'_>> {
        let platform = platform.into();
        let peaks = self.cache.as_ref().and_then(|it| it.peaks(device));
        let mut ranked = Vec::new();
        for (rank, stored) in self.records.iter().enumerate() {
            let StoredRecord { record, path, store } = stored;
            let is_of_device = stored.is_of(device, peaks.as_ref());
            let devices = if is_of_device { 0.0 } else { device_distance(&record.device, device) };
            for bucket in record.buckets.iter().filter(|it| it.dims.len() == dims.len()) {
                let tier = match (bucket.dims == dims, is_of_device) {
                    (true, true) => Tier::Exact,
                    (true, false) => Tier::SameIsa,
                    (false, _) => Tier::Transferred,
                };
                let ranges = range_distance(&bucket.dims, dims);
                for entry in bucket.schedules.iter().filter(|it| it.platform == platform) {
                    let tier = match (tier, &entry.measured) {
                        // The default schedule for other ranges says nothing about these, which have one
                        // of their own; nor does one that was not measured.
                        (Tier::Transferred, _) if entry.source == Source::Default => continue,
                        (Tier::Transferred, None) => continue,
                        (tier, Some(_)) => tier,
                        (_, None) if entry.is_prediction() => Tier::Predicted,
                        (_, None) => Tier::Default,
                    };
                    let measured = entry.measured.as_ref();
                    let is_as_used = measured.is_none_or(|it| it.cold.as_deref() == cold);
                    let choice = Choice { tier, entry, record, path, store: *store, is_as_used };
                    ranked.push(Ranked { ranges, devices, rank, choice });
                }
            }
        }
        // Stable: within a bucket, the order of the record stands.
        ranked.sort_by(|a, b| {
            let tiers = a.choice.tier.cmp(&b.choice.tier);
            let tiers = tiers.then(b.choice.is_as_used.cmp(&a.choice.is_as_used));
            let distances = a.ranges.total_cmp(&b.ranges).then(a.devices.total_cmp(&b.devices));
            tiers.then(distances).then(a.rank.cmp(&b.rank))
        });
        ranked.into_iter().map(|it| it.choice).collect()
    }
}

impl Choice<'_> {
    /// Returns whether this was clearly faster than another schedule for the same ranges, as the same
    /// machine measured both in the same way; what another machine measured does not compare.
    pub fn clearly_beats(&self, other: &Choice<'_>) -> bool {
        std::ptr::eq(self.record, other.record)
            && self.is_as_used == other.is_as_used
            && self.entry.clearly_beats(other.entry)
    }

    /// Returns the default schedule that was measured beside this one, if its record has that.
    pub fn recorded_default(&self) -> Option<&Entry> {
        let holds_it = |it: &&Bucket| it.schedules.iter().any(|it| std::ptr::eq(it, self.entry));
        let bucket = self.record.buckets.iter().find(holds_it)?;
        let mut schedules = bucket.schedules.iter().filter(|it| it.platform == self.entry.platform);
        schedules.find(|it| it.source == Source::Default)
    }

    /// Returns whether this was clearly faster than the default schedule of its record, or of the session
    /// that found it; true where neither tells.
    pub fn beats_default(&self) -> bool {
        let lineage = self.entry.lineage.iter().find(|it| it.source == Source::Default);
        match (self.recorded_default(), lineage, self.entry.median_ns()) {
            (Some(default), _, _) => self.entry.clearly_beats(default),
            (None, Some(default), Some(ns)) => ns < default.median_ns,
            _ => true,
        }
    }
}

impl StoredRecord {
    /// Returns whether its times are those of a device with these peaks, as far as either is known.
    /// Records of this user's cache from before keys named the model of a CPU are of this machine.
    fn is_of(&self, device: &DeviceKey, peaks: Option<&Peaks>) -> bool {
        let recorded = self.record.provenance.peaks.as_ref();
        if recorded.zip(peaks).is_some_and(|(recorded, here)| !recorded.is_like(here)) {
            return false;
        }
        let is_former = || {
            CpuTarget::from_key(device).is_some_and(|it| {
                it.model.is_some() && it.without_model().key() == self.record.device
            })
        };
        self.record.device == *device || self.store == StoreKind::Cache && is_former()
    }
}

/// The distance of two CPUs of different or unknown models, in octaves: as much as twice the threads.
const OTHER_MODEL: f64 = 1.0;

/// Returns the distance of two buckets in octaves, by their largest extents.
fn range_distance(a: &[Interval], b: &[Interval]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a.hi as f64 / b.hi as f64).log2().abs()).sum()
}

/// Returns the distance of two devices, in octaves of cache sizes and threads, and of models; for GPUs,
/// of multiprocessors, cache and bandwidth. Infinite for a CPU and a GPU.
pub fn device_distance(a: &DeviceKey, b: &DeviceKey) -> f64 {
    let octaves = |a: f64, b: f64| (a / b).log2().abs();
    match (Target::from_key(a), Target::from_key(b)) {
        (Some(Target::Cpu(a)), Some(Target::Cpu(b))) => {
            let sizes = |it: &CpuTarget| [it.l1_bytes as f64, it.l2_bytes as f64];
            let caches: f64 = sizes(&a).iter().zip(sizes(&b)).map(|(a, b)| octaves(*a, b)).sum();
            let model = if a.model.is_some() && a.model == b.model { 0.0 } else { OTHER_MODEL };
            caches + octaves(f64::from(a.threads), f64::from(b.threads)) + model
        }
        (Some(Target::Gpu(a)), Some(Target::Gpu(b))) => {
            let sizes = |it: &GpuTarget| {
                [f64::from(it.multiprocessors), it.l2_bytes as f64, f64::from(it.bandwidth_gbps)]
            };
            sizes(&a).iter().zip(sizes(&b)).map(|(a, b)| octaves(*a, b)).sum()
        }
        _ => f64::INFINITY,
    }
}
