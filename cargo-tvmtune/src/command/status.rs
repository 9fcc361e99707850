//! `cargo tvmtune status`: how the code of each kernel was found.

use std::path::Path;
use std::time::Duration;

use anstream::{print, println};
use anyhow::Result;
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, Aim, Slot};
use tvmtune_build::report::{OpReport, Standing, summary};
use tvmtune_tuner::database::{Database, LayerKind, Lookup};
use tvmtune_tuner::device;

use crate::Exit;
use crate::cli::Status;
use crate::known::{self, Known};
use crate::render::{Table, ago, latency};
use crate::workspace;

/// One bucket of a kernel on the instruction set of this machine.
#[derive(Serialize)]
struct Line {
    package: String,
    name: String,
    workload: String,
    extents: String,
    isa: &'static str,
    tier: &'static str,
    latency_us: Option<f64>,
    source: Option<&'static str>,
    device: Option<String>,
    age_seconds: Option<u64>,
}

pub(crate) fn run(arguments: &Status) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let aim = Aim { device: device::detect() };
    let (mut lines, mut reports) = (Vec::new(), Vec::new());
    for package in &packages {
        let known = Known::new(package, &Database::discover(&package.places(false)));
        for (op, lookup) in known.ops() {
            let slots = plan::slots(op, lookup, &aim);
            let here = slots.iter().filter(|it| it.isa == aim.isa());
            let mut worst = Standing::Exact;
            for slot in here {
                let (standing, line) = line(&package.name, op, lookup, slot, &aim);
                worst = worst.max(standing);
                lines.push(line);
            }
            let name = op.name().to_owned();
            reports.push(OpReport { name, standing: worst, flawed: None });
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(Exit::Done);
    }
    print!("{}", table(&lines));
    println!("\n{}", summary(&reports));
    if reports.iter().any(|it| it.standing.is_miss()) {
        println!("run `cargo tvmtune tune` to measure what was not");
    }
    Ok(Exit::Done)
}

fn line(package: &str, op: &Op, lookup: &Lookup, slot: &Slot<'_>, aim: &Aim) -> (Standing, Line) {
    let (standing, variant) = known::realize(op, slot, aim);
    let used = variant.as_ref().and_then(|it| it.choice);
    // The times of shipped files are those of a checkout, or what a package says of all of them.
    let is_cached = |path: &Path| {
        lookup.records.iter().any(|it| it.path == path && it.layer == LayerKind::Cache)
    };
    let age = used.filter(|it| is_cached(it.path)).and_then(|it| known::age(it.path));
    let line = Line {
        package: package.to_owned(),
        name: op.name().to_owned(),
        workload: op.id.to_string(),
        extents: known::extents(op, slot.bucket),
        isa: slot.isa.name(),
        tier: standing.name(),
        latency_us: variant.and_then(|it| it.median_ns()).map(|it| it / 1e3),
        source: used.as_ref().map(|it| it.entry.source.name()),
        device: used.as_ref().map(|it| it.record.device.to_string()),
        age_seconds: age.map(|it| it.as_secs()),
    };
    (standing, line)
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(["kernel", "extents", "tier", "latency", "found by", "age"]);
    for line in lines {
        let dash = || "-".to_owned();
        table.row([
            line.name.clone(),
            line.extents.clone(),
            line.tier.to_owned(),
            line.latency_us.map_or_else(dash, |it| latency(it * 1e3)),
            line.source.map_or_else(dash, str::to_owned),
            line.age_seconds.map_or_else(dash, |it| ago(Duration::from_secs(it))),
        ]);
    }
    table
}
