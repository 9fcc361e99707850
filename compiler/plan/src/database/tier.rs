//! Which of the known schedules to use, and how close to the wanted one it comes.

use std::path::Path;

use crate::record::{Entry, Record, Tier};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, Platform, Target};

use super::{DatabaseError, Found, Images};

/// Everything known of one workload.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The records, those that count more first.
    pub records: Vec<Found>,
    /// The compiled code of their schedules.
    pub images: Images,
    /// Files that should have been records, or images of one.
    pub warnings: Vec<DatabaseError>,
}

/// A schedule to use.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// How close it comes to what was asked for; [`Tier::Default`] if it was not measured.
    pub tier: Tier,
    /// The schedule.
    pub entry: &'a Entry,
    /// The record it is from.
    pub record: &'a Record,
    /// The file it is from.
    pub path: &'a Path,
}

impl Lookup {
    /// The best schedule for a device, for ranges of the dimensions, and for a platform; `None`
    /// leaves the default schedule.
    pub fn best(
        &self,
        device: &DeviceKey,
        dims: &[Interval],
        platform: impl Into<Platform>,
    ) -> Option<Choice<'_>> {
        self.choices(device, dims, platform).into_iter().next()
    }

    /// Every schedule that may be used, best first: the next one is for when replaying one fails.
    pub fn choices(
        &self,
        device: &DeviceKey,
        dims: &[Interval],
        platform: impl Into<Platform>,
    ) -> Vec<Choice<'_>> {
        let platform = platform.into();
        let mut ranked = Vec::new();
        for (layer, Found { record, path, .. }) in self.records.iter().enumerate() {
            for bucket in record.buckets.iter().filter(|it| it.dims.len() == dims.len()) {
                let tier = match (bucket.dims == dims, record.device == *device) {
                    (true, true) => Tier::Exact,
                    (true, false) => Tier::SameIsa,
                    (false, _) => Tier::Transferred,
                };
                let far = (ranges_apart(&bucket.dims, dims), devices_apart(&record.device, device));
                for entry in bucket.schedules.iter().filter(|it| it.platform == platform) {
                    let tier = match (tier, &entry.measured) {
                        (tier, Some(_)) => tier,
                        // The default schedule for other ranges says nothing about these.
                        (Tier::Transferred, None) => continue,
                        (_, None) => Tier::Default,
                    };
                    ranked
                        .push(((tier, far.0, far.1, layer), Choice { tier, entry, record, path }));
                }
            }
        }
        // Stable: within a bucket, the order of the record stands.
        ranked.sort_by(|(a, _), (b, _)| {
            let distances = a.1.total_cmp(&b.1).then(a.2.total_cmp(&b.2));
            a.0.cmp(&b.0).then(distances).then(a.3.cmp(&b.3))
        });
        ranked.into_iter().map(|(_, choice)| choice).collect()
    }
}

/// How far apart the representatives of two buckets are, in octaves.
fn ranges_apart(a: &[Interval], b: &[Interval]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a.hi as f64 / b.hi as f64).log2().abs()).sum()
}

/// How different two devices are, in octaves of cache sizes and threads; for GPUs, of
/// multiprocessors, cache and bandwidth.
pub fn devices_apart(a: &DeviceKey, b: &DeviceKey) -> f64 {
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
