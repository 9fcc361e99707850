//! `cargo tvmtune status`: the tuning status of each kernel, read from the database; nothing is
//! measured.

use std::time::Duration;

use anstream::{print, println};
use anyhow::Result;
use serde::Serialize;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, PlanTarget, VariantSpec};
use tvmtune_build::report::{OpReport, TuningStatus, summary};
use tvmtune_plan::database::{CacheUse, Choice, Database, Lookup, StoreKind};
use tvmtune_plan::device;

use crate::cli::Status;
use crate::records::{self, PackageRecords};
use crate::render::{Table, ago, latency};
use crate::{Exit, workspace};

/// One bucket of a kernel on the instruction set of this machine, or on a CUDA device.
#[derive(Serialize)]
struct StatusRow {
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
    let (mut rows, mut reports) = (Vec::new(), Vec::new());
    for package in &packages {
        let records = PackageRecords::new(
            package,
            &Database::discover(&package.search_dirs(CacheUse::Include)),
        );
        let plan_target = PlanTarget { device: device::detect(), gpu: records.gpu() };
        for (op, lookup) in records.ops() {
            let variant_specs = plan::variant_specs(op, lookup, &plan_target);
            let here = variant_specs.iter().filter(|it| it.isa == plan_target.isa());
            let mut worst = TuningStatus::Exact;
            for spec in here {
                let (status, row) = cpu_row(&package.name, op, lookup, spec, &plan_target);
                worst = worst.max(status);
                rows.push(row);
            }
            let mut report =
                OpReport { name: op.name().to_owned(), cpu: worst, ..OpReport::default() };
            let targets = cuda::targets(&package.config, lookup, plan_target.gpu);
            for spec in &cuda::variant_specs(op, lookup, &targets) {
                let (status, row) = cuda_row(&package.name, op, lookup, spec);
                if plan_target.gpu == Some(spec.target) {
                    report.gpu = report.gpu.max(Some(status));
                }
                rows.push(row);
            }
            reports.push(report);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(Exit::Done);
    }
    print!("{}", table(&rows));
    println!("\n{}", summary(&reports));
    if reports.iter().any(|it| it.status().is_miss()) {
        println!("run `cargo tvmtune tune` to measure what was not");
    }
    Ok(Exit::Done)
}

fn cpu_row(
    package: &str,
    op: &Op,
    lookup: &Lookup,
    spec: &VariantSpec<'_>,
    plan_target: &PlanTarget,
) -> (TuningStatus, StatusRow) {
    let (status, variant) = records::realize(op, spec, plan_target);
    let choice = variant.as_ref().and_then(|it| it.choice);
    let row = StatusRow {
        package: package.to_owned(),
        name: op.name().to_owned(),
        workload: op.id.to_string(),
        extents: records::extents(op, spec.bucket),
        isa: spec.isa.name().to_owned(),
        tier: status.name(),
        latency_us: variant.and_then(|it| it.median_ns()).map(|it| it / 1e3),
        source: choice.map(|it| it.entry.source.name()),
        device: choice.map(|it| it.record.device.to_string()),
        age_seconds: choice.and_then(|it| age_seconds(lookup, &it)),
    };
    (status, row)
}

fn cuda_row(
    package: &str,
    op: &Op,
    lookup: &Lookup,
    spec: &cuda::VariantSpec<'_>,
) -> (TuningStatus, StatusRow) {
    let variant = records::realize_cuda(op, spec, lookup);
    let choice = variant.as_ref().and_then(|it| it.choice);
    let status = variant.as_ref().map(|it| TuningStatus::new(it.tier, it.stale));
    let row = StatusRow {
        package: package.to_owned(),
        name: op.name().to_owned(),
        workload: op.id.to_string(),
        extents: records::extents(op, spec.bucket),
        isa: spec.arch().to_string(),
        tier: status.map_or("no code", TuningStatus::name),
        latency_us: variant.and_then(|it| it.median_ns()).map(|it| it / 1e3),
        source: choice.map(|it| it.entry.source.name()),
        device: choice.map(|it| it.record.device.to_string()),
        age_seconds: choice.and_then(|it| age_seconds(lookup, &it)),
    };
    (status.unwrap_or(TuningStatus::Default), row)
}

/// Returns the age of a record of this machine; `None` for shipped records, whose files have the time
/// of a checkout.
fn age_seconds(lookup: &Lookup, choice: &Choice<'_>) -> Option<u64> {
    let mut records = lookup.records.iter();
    let is_cached = records.any(|it| it.path == choice.path && it.store == StoreKind::Cache);
    is_cached.then(|| records::age(choice.path))?.map(|it| it.as_secs())
}

fn table(rows: &[StatusRow]) -> Table {
    let mut table = Table::new(["kernel", "extents", "isa", "tier", "latency", "found by", "age"]);
    for row in rows {
        let dash = || "-".to_owned();
        table.row([
            row.name.clone(),
            row.extents.clone(),
            row.isa.clone(),
            row.tier.to_owned(),
            row.latency_us.map_or_else(dash, |it| latency(it * 1e3)),
            row.source.map_or_else(dash, str::to_owned),
            row.age_seconds.map_or_else(dash, |it| ago(Duration::from_secs(it))),
        ]);
    }
    table
}
