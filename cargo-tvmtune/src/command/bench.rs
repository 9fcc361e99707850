//! `cargo tvmtune bench`: the code that a build would embed, beside the default, on the clock.

use anstream::{print, println};
use anyhow::{Result, bail};
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, Aim, Slot};
use tvmtune_build::tune::session;
use tvmtune_core::schedule::default;
use tvmtune_core::target::CpuTarget;
use tvmtune_tuner::cost::work::Work;
use tvmtune_tuner::database::Database;
use tvmtune_tuner::device;
use tvmtune_tuner::measure::{Exclusive, WorkerCommand};
use tvmtune_tuner::outcome::Timing;
use tvmtune_tuner::tune::{self, Contestant};

use crate::Exit;
use crate::cli::Bench;
use crate::command::tune::PATIENCE;
use crate::known::{self, Known};
use crate::render::{Table, latency};
use crate::workspace;

/// Rounds in which current and default schedule take turns.
const ROUNDS: usize = 25;

/// One kernel for one bucket, at the largest extents of that.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    isa: &'static str,
    tier: &'static str,
    latency_us: f64,
    default_us: f64,
    samples: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    gflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gbps: Option<f64>,
    tuned_with: Spent,
}

/// What was spent on finding a schedule.
#[derive(Serialize)]
struct Spent {
    trials: u64,
    seconds: f64,
}

pub(crate) fn run(arguments: &Bench) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let Some(target) = device::detect() else {
        eprintln!("error: this machine runs no generated kernels; see `cargo tvmtune doctor`");
        return Ok(Exit::NoDevice);
    };
    let aim = Aim { device: Some(target) };
    let mut lines = Vec::new();
    for package in &packages {
        let database = Database::discover(&package.places(false));
        let Some(cache) = database.cache() else {
            bail!("there is no folder for locks; set `TVMTUNE_CACHE` to one");
        };
        let exclusive = match Exclusive::acquire(cache, &target.key(), PATIENCE) {
            Ok(exclusive) => exclusive,
            Err(error) => {
                eprintln!("error: {error}");
                return Ok(Exit::NoDevice);
            }
        };
        let known = Known::new(package, &database);
        for (op, lookup) in known.ops() {
            let slots = plan::slots(op, lookup, &aim);
            for slot in slots.iter().filter(|it| it.isa == aim.isa()) {
                let timed = time(op, slot, target, &exclusive)?;
                match timed {
                    Ok(timings) => lines.push(line(op, slot, &aim, &timings, arguments.default)),
                    Err(why) => eprintln!("warning: {} was not timed: {why}", op.name()),
                }
            }
        }
    }
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&lines)?),
        false => print!("{}", table(&lines)),
    }
    Ok(Exit::Done)
}

/// Times the current schedule and the default one, in turns.
fn time(
    op: &Op,
    slot: &Slot<'_>,
    target: CpuTarget,
    exclusive: &Exclusive,
) -> Result<Result<[Timing; 2], String>> {
    let variant = match plan::realize(op, slot, &Aim { device: Some(target) }) {
        Ok(variant) => variant,
        Err(why) => return Ok(Err(why.to_string())),
    };
    let default = default::schedule(&op.dag.narrow(slot.bucket), &target.into());
    let contestants = [("plan", variant.schedule.trace), ("default", default.trace)]
        .map(|(label, trace)| Contestant { label: label.to_owned(), trace });
    let workload = session::workload(&(op, Vec::new()));
    let outcomes = tune::bench(
        (&workload, slot.bucket, None),
        target,
        &contestants,
        ROUNDS,
        WorkerCommand::this_executable()?,
        exclusive,
    )?;
    let timing = |it: &tvmtune_tuner::outcome::Outcome| it.timing().cloned().ok_or(it.to_string());
    Ok(outcomes.and_then(|it| match it.as_slice() {
        [plan, default] => Ok([timing(plan)?, timing(default)?]),
        _ => Err("the worker gave no timings".to_owned()),
    }))
}

fn line(
    op: &Op,
    slot: &Slot<'_>,
    aim: &Aim,
    [plan, default]: &[Timing; 2],
    of_default: bool,
) -> Line {
    let timing = if of_default { default } else { plan };
    let dims: Vec<i64> = slot.bucket.iter().map(|it| it.hi).collect();
    let work = Work::of(&op.dag, &dims);
    let bucket = slot.choices.first().and_then(|it| it.record.bucket(slot.bucket));
    let bucket = bucket.filter(|_| !of_default);
    let ns = timing.median_ns();
    let standing = if of_default { "default" } else { known::realize(op, slot, aim).0.name() };
    Line {
        name: op.name().to_owned(),
        extents: known::extents(op, slot.bucket),
        isa: slot.isa.name(),
        tier: standing,
        latency_us: ns / 1e3,
        default_us: default.median_ns() / 1e3,
        samples: timing.samples_ns().len(),
        gflops: work.is_arithmetic().then_some(work.flops / ns),
        gbps: (!work.is_arithmetic()).then_some(work.bytes / ns),
        tuned_with: Spent {
            trials: bucket.map_or(0, |it| it.trials),
            seconds: bucket.map_or(0.0, |it| it.seconds),
        },
    }
}

fn table(lines: &[Line]) -> Table {
    let mut table =
        Table::new(["kernel", "extents", "tier", "latency", "default", "speedup", "rate"]);
    for it in lines {
        let rate = match (it.gflops, it.gbps) {
            (Some(rate), _) => format!("{rate:.1} GFLOP/s"),
            (None, rate) => format!("{:.1} GB/s", rate.unwrap_or_default()),
        };
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.tier.to_owned(),
            latency(it.latency_us * 1e3),
            latency(it.default_us * 1e3),
            format!("{:.2}x", it.default_us / it.latency_us),
            rate,
        ]);
    }
    table
}
