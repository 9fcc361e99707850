//! The ranking of recorded schedules for a workload, by tier and distance.

use std::path::{Path, PathBuf};

use crate::record::{Entry, Record, Tier};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, Platform, Target};

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
        for (rank, StoredRecord { record, path, .. }) in self.records.iter().enumerate() {
            for bucket in record.buckets.iter().filter(|it| it.dims.len() == dims.len()) {
                let tier = match (bucket.dims == dims, record.device == *device) {
                    (true, true) => Tier::Exact,
                    (true, false) => Tier::SameIsa,
                    (false, _) => Tier::Transferred,
                };
                let ranges = range_distance(&bucket.dims, dims);
                let devices = device_distance(&record.device, device);
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

/// Returns the distance of two buckets in octaves, by their largest extents.
fn range_distance(a: &[Interval], b: &[Interval]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a.hi as f64 / b.hi as f64).log2().abs()).sum()
}

/// Returns the distance of two devices, in octaves of cache sizes and threads; for GPUs, of
/// multiprocessors, cache and bandwidth. Infinite for a CPU and a GPU.
pub fn device_distance(a: &DeviceKey, b: &DeviceKey) -> f64 {
    let sizes = match (Target::from_key(a), Target::from_key(b)) {
        (Some(Target::Cpu(a)), Some(Target::Cpu(b))) => {
            [a, b].map(|it| [it.l1_bytes as f64, it.l2_bytes as f64, f64::from(it.threads)])
        }
        (Some(Target::Gpu(a)), Some(Target::Gpu(b))) => [a, b].map(|it| {
            [f64::from(it.multiprocessors), it.l2_bytes as f64, f64::from(it.bandwidth_gbps)]
        }),
        _ => return f64::INFINITY,
    };
    let [a, b] = sizes;
    a.into_iter().zip(b).map(|(a, b)| (a / b).log2().abs()).sum()
}
