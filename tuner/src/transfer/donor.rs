//! One schedule of the pool, and all those of a database.

use std::sync::Arc;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, Platform, Target};
use tvmtune_ir::workload::{self, WorkloadId};
use tvmtune_plan::record::{Record, Source};

use super::{Donors, Known, classes_of};
use tvmtune_plan::database::Database;

/// A schedule that was measured, with the program it was made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Donor {
    /// The identity of the program, for all extents that it allows.
    pub workload: WorkloadId,
    /// The program for the ranges of the bucket.
    pub dag: Arc<Dag>,
    /// The ranges of the dynamic dimensions that it was made for.
    pub bucket: Vec<Interval>,
    /// The primitives that make it, one a line, as records keep them.
    pub trace: Vec<String>,
    /// Where it was measured.
    pub device: DeviceKey,
    /// What its code was generated for.
    pub platform: Platform,
    /// Its latency.
    pub median_ns: f64,
    /// That of the default schedule, if it is known.
    pub default_ns: Option<f64>,
}

impl Donors {
    /// Every measured schedule in a database that may suit a target: those of CPUs for CPUs, those
    /// of GPUs for GPUs.
    pub fn from_database(database: &Database, target: &Target) -> Self {
        let mut donors = Self::default();
        for (_, _, record) in database.list() {
            if let Ok(record) = record {
                donors.add_record(&record, target);
            }
        }
        donors
    }

    /// Adds the measured schedules of a record, if they may suit a target.
    pub fn add_record(&mut self, record: &Record, target: &Target) {
        let device = Target::from_key(&record.device);
        let suits = match target {
            Target::Cpu(_) => matches!(device, Some(Target::Cpu(_))),
            Target::Gpu(_) => matches!(device, Some(Target::Gpu(_))),
        };
        let Some(dag) = record.dag.parse::<Dag>().ok().filter(|_| suits) else { return };
        for bucket in record.buckets.iter().filter(|it| it.dims.len() == dag.dims.len()) {
            let dag = Arc::new(dag.specialize(&bucket.dims));
            let (narrowed, classes) = (workload::id(&dag), classes_of(&dag));
            for entry in &bucket.schedules {
                let Some(median_ns) = entry.median_ns() else { continue };
                let mut same = bucket.schedules.iter().filter(|it| it.platform == entry.platform);
                let default = same.find(|it| it.source == Source::Default);
                let donor = Donor {
                    workload: WorkloadId(record.workload.clone()),
                    dag: dag.clone(),
                    bucket: bucket.dims.clone(),
                    trace: entry.trace.clone(),
                    device: record.device.clone(),
                    platform: entry.platform,
                    median_ns,
                    default_ns: default.and_then(|it| it.median_ns()),
                };
                self.add_known(Known { donor, narrowed: narrowed.clone() }, Some(&classes));
            }
        }
    }
}
