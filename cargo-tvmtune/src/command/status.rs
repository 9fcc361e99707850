//! `cargo tvmtune status`: the tuning status of each kernel, read from the database; nothing is
//! measured.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{NoCode, PlanTarget};
use tvmtune_build::report::{OpReport, TuningStatus, rest, summary};
use tvmtune_ir::dag::Numerics;
use tvmtune_plan::database::{CacheUse, Choice, Lookup, StoreKind};
use tvmtune_plan::device;
use tvmtune_plan::record::{Accuracy, SearchLimits, Tier};

use super::accuracy::{self, AccuracyRow};
use crate::cli::Status;
use crate::device_plan::{self, PlannedVariant};
use crate::output::{eprintln, print, println};
use crate::records::{self, PackageRecords};
use crate::render::{Table, ago, count, latency, took, weighted};
use crate::{Exit, workspace};

/// One bucket of a kernel on the instruction set of this machine, or on a CUDA device.
#[derive(Serialize)]
struct StatusRow {
    package: String,
    name: String,
    workload: String,
    extents: String,
    /// The number of runs of the kernel, relative to others: its buckets share it.
    weight: f64,
    /// The results that its schedules may give: `free` or `fixed`.
    numerics: &'static str,
    isa: String,
    tier: &'static str,
    latency_us: Option<f64>,
    trials: u64,
    seconds: f64,
    seconds_left: f64,
    source: Option<&'static str>,
    device: Option<String>,
    /// The machine where it was measured; `None` for this one.
    measured_on: Option<String>,
    age_seconds: Option<u64>,
    /// The errors of its results, by class of numbers, if its record has them.
    accuracy: Option<Accuracy>,
}

pub(crate) fn run(arguments: &Status) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let (mut rows, mut reports, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for package in &packages {
        let records = PackageRecords::discover(package, CacheUse::Include);
        let (gpu, limits) = (records.gpu(), records.limits());
        let plan_target = PlanTarget { device: device::detect(), gpu, limits };
        for (op, lookup) in records.ops() {
            if lookup.n_left_out > 0 {
                left_out.push((op.name().to_owned(), lookup.n_left_out));
            }
            let mut report = OpReport {
                name: op.name().to_owned(),
                cpu: TuningStatus::Exact,
                ..OpReport::default()
            };
            for it in &device_plan::on_cpu(op, lookup, &plan_target, &[plan_target.isa()]) {
                report.cpu = report.cpu.max(it.status);
                if let Err(NoCode::Panicked(why)) = &it.trace {
                    report.broken = Some(why.to_string());
                }
                let row = row(&package.name, op, lookup, it, limits);
                report.seconds_left += row.seconds_left;
                rows.push(row);
            }
            let targets = cuda::targets(&package.config, lookup, plan_target.gpu);
            for it in &device_plan::on_gpus(op, lookup, &targets, limits) {
                let row = row(&package.name, op, lookup, it, limits);
                if plan_target.gpu.is_some_and(|gpu| it.platform == gpu.arch.into()) {
                    report.gpu = report.gpu.max(Some(it.status));
                    report.seconds_left += row.seconds_left;
                }
                rows.push(row);
            }
            reports.push(report);
        }
    }
    for (name, n) in &left_out {
        let schedules = count(*n, "schedule");
        eprintln!("note: `{name}`: {schedules} found with free numerics do not keep its order");
    }
    for why in reports.iter().filter_map(|it| it.broken.as_ref()) {
        eprintln!("error: {why}");
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(Exit::Done);
    }
    if arguments.accuracy {
        print_accuracy(&rows);
        return Ok(Exit::Done);
    }
    print!("{}", table(&rows));
    println!("\n{}", summary(&reports));
    if reports.iter().any(|it| it.status().wants_tuning()) {
        let rest = rest(&reports).map_or_else(String::new, |it| format!(": {it}"));
        println!("run `cargo tvmtune tune` to measure what was not{rest}");
    }
    Ok(Exit::Done)
}

fn row(
    package: &str,
    op: &Op,
    lookup: &Lookup,
    variant: &PlannedVariant<'_>,
    limits: SearchLimits,
) -> StatusRow {
    let (choice, effort) = (variant.choice, variant.effort);
    let is_portable = variant.status == TuningStatus::Portable;
    StatusRow {
        package: package.to_owned(),
        name: op.name().to_owned(),
        workload: op.id.to_string(),
        extents: records::extents(op, variant.bucket),
        weight: op.weight,
        numerics: op.dag.numerics.name(),
        isa: variant.platform.to_string(),
        tier: match variant.trace {
            Ok(None) => "no code",
            _ => variant.status.name(),
        },
        latency_us: variant.median_ns.map(|it| it / 1e3),
        trials: effort.trials,
        seconds: effort.seconds,
        seconds_left: if is_portable { 0.0 } else { effort.seconds_left(limits) },
        source: choice.map(|it| it.entry.source.name()),
        device: choice.map(|it| it.record.device.to_string()),
        measured_on: choice.and_then(|it| elsewhere(&it)),
        age_seconds: choice.and_then(|it| age_seconds(lookup, &it)),
        accuracy: choice.and_then(|it| accuracy::recorded(&it)),
    }
}

/// Returns the machine where a schedule was measured, unless its times are those of this machine.
fn elsewhere(choice: &Choice<'_>) -> Option<String> {
    let host = &choice.record.provenance.host;
    let threads = choice.entry.measured.as_ref()?.threads;
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    (choice.tier != Tier::Exact).then(|| format!("{host}, {threads}"))
}

/// Returns the age of a record of this machine; `None` for shipped records, whose files have the time
/// of a checkout.
fn age_seconds(lookup: &Lookup, choice: &Choice<'_>) -> Option<u64> {
    let mut records = lookup.records.iter();
    let is_cached = records.any(|it| it.path == choice.path && it.store == StoreKind::Cache);
    is_cached.then(|| records::age(choice.path))?.map(|it| it.as_secs())
}

/// Prints the errors that records have.
fn print_accuracy(rows: &[StatusRow]) {
    let of_row = |row: &StatusRow| AccuracyRow {
        name: row.name.clone(),
        extents: row.extents.clone(),
        isa: row.isa.clone(),
        tier: row.tier,
        accuracy: row.accuracy.clone(),
        refusal: None,
    };
    let rows: Vec<AccuracyRow> = rows.iter().map(of_row).collect();
    print!("{}", accuracy::table(&rows));
    println!("\n{}", accuracy::LEGEND);
    if rows.iter().any(|it| it.accuracy.is_none()) {
        println!(
            "`cargo tvmtune verify --accuracy` measures that of schedules without a record of it"
        );
    }
}

fn table(rows: &[StatusRow]) -> Table {
    let mut table = Table::new([
        "kernel",
        "extents",
        "isa",
        "tier",
        "latency",
        "found by",
        "trials",
        "time",
        "age",
        "measured on",
    ]);
    for row in rows {
        let dash = || "-".to_owned();
        let is_fixed = row.numerics == Numerics::Fixed.name();
        let note = if is_fixed { ", fixed numerics" } else { "" };
        table.row([
            weighted(&row.name, row.weight) + note,
            row.extents.clone(),
            row.isa.clone(),
            row.tier.to_owned(),
            row.latency_us.map_or_else(dash, |it| latency(it * 1e3)),
            row.source.map_or_else(dash, str::to_owned),
            row.trials.to_string(),
            took(Duration::try_from_secs_f64(row.seconds).unwrap_or_default()),
            row.age_seconds.map_or_else(dash, |it| ago(Duration::from_secs(it))),
            match (&row.measured_on, row.latency_us) {
                (Some(elsewhere), _) => elsewhere.clone(),
                (None, Some(_)) => "this machine".to_owned(),
                (None, None) => dash(),
            },
        ]);
    }
    table
}
