//! `cargo tvmtune status`: the tuning status of each kernel.

use std::time::Duration;

use anstream::{print, println};
use anyhow::Result;
use serde::Serialize;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::PlanTarget;
use tvmtune_build::report::{OpReport, TuningStatus, summary};
use tvmtune_plan::database::{CacheUse, Choice, Lookup, StoreKind};
use tvmtune_plan::device;

use crate::cli::Status;
use crate::device_plan::{self, PlannedVariant};
use crate::records::{self, PackageRecords};
use crate::render::{Table, ago, latency};
use crate::{Exit, workspace};

/// One bucket of a kernel on the instruction set of this machine, or on a CUDA device.
#[derive(Serialize)]
struct Line {
    package: String,
    name: String,
    workload: String,
    extents: String,
    isa: String,
    tier: &'static str,
    latency_us: Option<f64>,
    source: Option<&'static str>,
    device: Option<String>,
    age_seconds: Option<u64>,
}

pub(crate) fn run(arguments: &Status) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let (mut lines, mut reports) = (Vec::new(), Vec::new());
    for package in &packages {
        let records = PackageRecords::discover(package, CacheUse::Include);
        let plan_target = PlanTarget { device: device::detect(), gpu: records.gpu() };
        for (op, lookup) in records.ops() {
            let mut report = OpReport {
                name: op.name().to_owned(),
                cpu: TuningStatus::Exact,
                ..OpReport::default()
            };
            for it in &device_plan::on_cpu(op, lookup, &plan_target, &[plan_target.isa()]) {
                report.cpu = report.cpu.max(it.status);
                lines.push(line(&package.name, op, lookup, it));
            }
            let targets = cuda::targets(&package.config, lookup, plan_target.gpu);
            for it in &device_plan::on_gpus(op, lookup, &targets) {
                if plan_target.gpu.is_some_and(|gpu| it.platform == gpu.arch.into()) {
                    report.gpu = report.gpu.max(Some(it.status));
                }
                lines.push(line(&package.name, op, lookup, it));
            }
            reports.push(report);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(Exit::Done);
    }
    print!("{}", table(&lines));
    println!("\n{}", summary(&reports));
    if reports.iter().any(|it| it.status().is_miss()) {
        println!("run `cargo tvmtune tune` to measure what was not");
    }
    Ok(Exit::Done)
}

fn line(package: &str, op: &Op, lookup: &Lookup, variant: &PlannedVariant<'_>) -> Line {
    let used = variant.choice;
    Line {
        package: package.to_owned(),
        name: op.name().to_owned(),
        workload: op.id.to_string(),
        extents: records::extents(op, variant.bucket),
        isa: variant.platform.to_string(),
        tier: match variant.trace {
            Ok(None) => "no code",
            _ => variant.status.name(),
        },
        latency_us: variant.median_ns.map(|it| it / 1e3),
        source: used.map(|it| it.entry.source.name()),
        device: used.map(|it| it.record.device.to_string()),
        age_seconds: used.and_then(|it| age_seconds(lookup, &it)),
    }
}

/// Returns the age of a record of this machine. The modification times of shipped files are those of a
/// checkout or a package.
fn age_seconds(lookup: &Lookup, used: &Choice<'_>) -> Option<u64> {
    let mut records = lookup.records.iter();
    let is_cached = records.any(|it| it.path == used.path && it.store == StoreKind::Cache);
    is_cached.then(|| records::age(used.path))?.map(|it| it.as_secs())
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(["kernel", "extents", "isa", "tier", "latency", "found by", "age"]);
    for line in lines {
        let dash = || "-".to_owned();
        table.row([
            line.name.clone(),
            line.extents.clone(),
            line.isa.clone(),
            line.tier.to_owned(),
            line.latency_us.map_or_else(dash, |it| latency(it * 1e3)),
            line.source.map_or_else(dash, str::to_owned),
            line.age_seconds.map_or_else(dash, |it| ago(Duration::from_secs(it))),
        ]);
    }
    table
}
