//! `cargo tvmtune status`: how the code of each kernel was found.

use std::time::Duration;

use anstream::{print, println};
use anyhow::Result;
use serde::Serialize;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, Aim, Slot};
use tvmtune_build::report::{OpReport, Standing, summary};
use tvmtune_plan::database::{Choice, Database, LayerKind, Lookup};
use tvmtune_plan::device;

use crate::cli::Status;
use crate::known::{self, Known};
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
        let known = Known::new(package, &Database::discover(&package.places(false)));
        let aim = Aim { device: device::detect(), gpu: known.gpu() };
        for (op, lookup) in known.ops() {
            let slots = plan::slots(op, lookup, &aim);
            let here = slots.iter().filter(|it| it.isa == aim.isa());
            let mut worst = Standing::Exact;
            for slot in here {
                let (standing, line) = line(&package.name, op, lookup, slot, &aim);
                worst = worst.max(standing);
                lines.push(line);
            }
            let mut report =
                OpReport { name: op.name().to_owned(), cpu: worst, ..OpReport::default() };
            let targets = cuda::targets(&package.config, lookup, aim.gpu);
            for slot in &cuda::slots(op, lookup, &targets) {
                let (standing, line) = cuda_line(&package.name, op, lookup, slot);
                if aim.gpu == Some(slot.target) {
                    report.gpu = report.gpu.max(Some(standing));
                }
                lines.push(line);
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
    if reports.iter().any(|it| it.standing().is_miss()) {
        println!("run `cargo tvmtune tune` to measure what was not");
    }
    Ok(Exit::Done)
}

fn line(package: &str, op: &Op, lookup: &Lookup, slot: &Slot<'_>, aim: &Aim) -> (Standing, Line) {
    let (standing, variant) = known::realize(op, slot, aim);
    let used = variant.as_ref().and_then(|it| it.choice);
    let line = Line {
        package: package.to_owned(),
        name: op.name().to_owned(),
        workload: op.id.to_string(),
        extents: known::extents(op, slot.bucket),
        isa: slot.isa.name().to_owned(),
        tier: standing.name(),
        latency_us: variant.and_then(|it| it.median_ns()).map(|it| it / 1e3),
        source: used.map(|it| it.entry.source.name()),
        device: used.map(|it| it.record.device.to_string()),
        age_seconds: used.and_then(|it| age_seconds(lookup, &it)),
    };
    (standing, line)
}

fn cuda_line(package: &str, op: &Op, lookup: &Lookup, slot: &cuda::Slot<'_>) -> (Standing, Line) {
    let variant = known::realize_cuda(op, slot, lookup);
    let used = variant.as_ref().and_then(|it| it.choice);
    let standing = variant.as_ref().map(|it| Standing::new(it.tier, it.stale));
    let line = Line {
        package: package.to_owned(),
        name: op.name().to_owned(),
        workload: op.id.to_string(),
        extents: known::extents(op, slot.bucket),
        isa: slot.arch().to_string(),
        tier: standing.map_or("no code", Standing::name),
        latency_us: variant.and_then(|it| it.median_ns()).map(|it| it / 1e3),
        source: used.map(|it| it.entry.source.name()),
        device: used.map(|it| it.record.device.to_string()),
        age_seconds: used.and_then(|it| age_seconds(lookup, &it)),
    };
    (standing.unwrap_or(Standing::Default), line)
}

/// How old what was measured here is. The times of shipped files are those of a checkout, or what a
/// package says of all of them.
fn age_seconds(lookup: &Lookup, used: &Choice<'_>) -> Option<u64> {
    let mut records = lookup.records.iter();
    let is_cached = records.any(|it| it.path == used.path && it.layer == LayerKind::Cache);
    is_cached.then(|| known::age(used.path))?.map(|it| it.as_secs())
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
