//! The ranking of recorded schedules for a workload, by tier and distance.

use std::path::{Path, PathBuf};

use crate::record::{Entry, Record, Tier};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, DeviceKey, GpuTarget, Platform, Target};

use super::artifact::Images;
use super::error::DatabaseError;
use super::store::StoreKind;

/// The records of one workload.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The records, in order of precedence.
    pub records: Vec<StoredRecord>,
    /// The compiled code of their schedules.
    pub images: Images,
    /// Errors of files that are no valid records or images.
    pub warnings: Vec<DatabaseError>,
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
        self.choices(device, dims, platform).into_iter().next()
    }

    /// Returns every applicable schedule, best first: the next one is tried if one does not replay.
    pub fn choices(
        &self,
        device: &DeviceKey,
        dims: &[Interval],
        platform: impl Into<Platform>,
    ) -> Vec<Choice<'_>> {
        let platform = platform.into();
        let mut ranked = Vec::new();
        for (rank, stored) in self.records.iter().enumerate() {
            let StoredRecord { record, path, .. } = stored;
            let is_of_device = stored.is_of(device);
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
                        (tier, Some(_)) => tier,
                        // The default schedule for other ranges says nothing about these.
                        (Tier::Transferred, None) => continue,
                        (_, None) => Tier::Default,
                    };
                    let choice = Choice { tier, entry, record, path };
                    ranked.push(Ranked { ranges, devices, rank, choice });
                }
            }
        }
        // Stable: within a bucket, the order of the record stands.
        ranked.sort_by(|a, b| {
            let tiers = a.choice.tier.cmp(&b.choice.tier);
            let distances = a.ranges.total_cmp(&b.ranges).then(a.devices.total_cmp(&b.devices));
            tiers.then(distances).then(a.rank.cmp(&b.rank))
        });
        ranked.into_iter().map(|it| it.choice).collect()
    }
}

impl StoredRecord {
    /// Returns whether its times are those of a device. Records of this user's cache from before keys
    /// named the model of a CPU are of this machine.
    fn is_of(&self, device: &DeviceKey) -> bool {
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
