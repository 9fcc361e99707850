//! `cargo tvmtune bench`: the code that a build would embed, beside the default, on the clock.

use anstream::{print, println};
use anyhow::{Result, bail};
use serde::Serialize;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, Aim};
use tvmtune_build::report::Standing;
use tvmtune_build::tune::session;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, GpuTarget, Platform, Target};
use tvmtune_plan::database::{Choice, Database, Lookup};
use tvmtune_schedule::Instruction;
use tvmtune_space::default;
use tvmtune_tuner::cost::work::Work;
use tvmtune_tuner::measure::{Exclusive, WorkerCommand};
use tvmtune_tuner::outcome::Timing;
use tvmtune_tuner::tune::{self, Contestant};

use crate::cli::Bench;
use crate::command::tune::PATIENCE;
use crate::known::{self, Known};
use crate::render::{Table, latency};
use crate::{Exit, workspace};

/// Rounds in which current and default schedule take turns.
const ROUNDS: usize = 25;

/// One kernel for one bucket, at the largest extents of that.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    isa: String,
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

/// What is timed: a bucket of a kernel on a device.
struct Timed<'a> {
    bucket: &'a [Interval],
    platform: Platform,
    /// How the schedule was found.
    standing: Standing,
    /// The schedule.
    trace: Vec<Instruction>,
    choices: Vec<Choice<'a>>,
}

pub(crate) fn run(arguments: &Bench) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let mut lines = Vec::new();
    for package in &packages {
        let database = Database::discover(&package.places(false));
        let Some(cache) = database.cache() else {
            bail!("there is no folder for locks; set `TVMTUNE_CACHE` to one");
        };
        let known = Known::new(package, &database);
        let devices = match known.devices(arguments.target) {
            Ok(devices) => devices,
            Err(why) => {
                eprintln!("error: {why}");
                return Ok(Exit::NoDevice);
            }
        };
        for device in devices {
            let exclusive = match Exclusive::acquire(cache, &device.key(), PATIENCE) {
                Ok(exclusive) => exclusive,
                Err(error) => {
                    eprintln!("error: {error}");
                    return Ok(Exit::NoDevice);
                }
            };
            for (op, lookup) in known.ops() {
                let found = match device {
                    Target::Cpu(cpu) => on_cpu(op, lookup, cpu),
                    Target::Gpu(gpu) => on_gpu(op, lookup, gpu),
                };
                for it in found {
                    match it.and_then(|it| Ok((time(op, &it, device, &exclusive)?, it))) {
                        Ok((timings, it)) => {
                            lines.push(line(op, &it, &timings, arguments.default));
                        }
                        Err(why) => eprintln!("warning: {} was not timed: {why}", op.name()),
                    }
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

/// What a build would embed of an op for this CPU; an error for what runs as portable Rust.
fn on_cpu<'a>(op: &'a Op, lookup: &'a Lookup, cpu: CpuTarget) -> Vec<Result<Timed<'a>, String>> {
    let aim = Aim { device: Some(cpu), gpu: None };
    let timed = |slot: plan::Slot<'a>| {
        let variant = plan::realize(op, &slot, &aim).map_err(|it| it.to_string())?;
        Ok(Timed {
            bucket: slot.bucket,
            platform: slot.isa.into(),
            standing: Standing::new(variant.tier, variant.stale),
            trace: variant.schedule.trace,
            choices: slot.choices,
        })
    };
    let slots = plan::slots(op, lookup, &aim).into_iter();
    slots.filter(|it| it.isa == aim.isa()).map(timed).collect()
}

/// The same for this GPU, also where records have no code: what they say is compiled here.
fn on_gpu<'a>(op: &'a Op, lookup: &'a Lookup, gpu: GpuTarget) -> Vec<Result<Timed<'a>, String>> {
    let timed = |slot: cuda::Slot<'a>| {
        let variant = known::realize_cuda(op, &slot, lookup);
        let standing = variant.as_ref().map(|it| Standing::new(it.tier, it.stale));
        let default = || default::schedule(&op.dag.specialize(slot.bucket), &gpu.into()).trace;
        Ok(Timed {
            bucket: slot.bucket,
            platform: gpu.arch.into(),
            standing: standing.unwrap_or_default(),
            trace: variant.map_or_else(default, |it| it.schedule.trace),
            choices: slot.choices,
        })
    };
    cuda::slots(op, lookup, &[gpu]).into_iter().map(timed).collect()
}

/// Times the current schedule and the default one, in turns.
fn time(
    op: &Op,
    timed: &Timed<'_>,
    device: Target,
    exclusive: &Exclusive,
) -> Result<[Timing; 2], String> {
    let default = default::schedule(&op.dag.specialize(timed.bucket), &device);
    let contestants = [("plan", timed.trace.clone()), ("default", default.trace)]
        .map(|(label, trace)| Contestant { label: label.to_owned(), trace });
    let workload = session::workload(&(op, Vec::new()));
    let outcomes = tune::bench(
        (&workload, timed.bucket, None),
        device,
        &contestants,
        ROUNDS,
        WorkerCommand::this_executable().map_err(|it| it.to_string())?,
        exclusive,
    );
    let timing = |it: &tvmtune_tuner::outcome::Outcome| it.timing().cloned().ok_or(it.to_string());
    match outcomes.map_err(|it| it.to_string())??.as_slice() {
        [plan, default] => Ok([timing(plan)?, timing(default)?]),
        _ => Err("the worker gave no timings".to_owned()),
    }
}

fn line(op: &Op, timed: &Timed<'_>, [plan, default]: &[Timing; 2], of_default: bool) -> Line {
    let timing = if of_default { default } else { plan };
    let dims: Vec<i64> = timed.bucket.iter().map(|it| it.hi).collect();
    let work = Work::of(&op.dag, &dims);
    let bucket = timed.choices.first().and_then(|it| it.record.bucket(timed.bucket));
    let bucket = bucket.filter(|_| !of_default);
    let ns = timing.median_ns();
    let standing = if of_default { Standing::Default } else { timed.standing };
    Line {
        name: op.name().to_owned(),
        extents: known::extents(op, timed.bucket),
        isa: timed.platform.to_string(),
        tier: standing.name(),
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
        Table::new(["kernel", "extents", "isa", "tier", "latency", "default", "speedup", "rate"]);
    for it in lines {
        let rate = match (it.gflops, it.gbps) {
            (Some(rate), _) => format!("{rate:.1} GFLOP/s"),
            (None, rate) => format!("{:.1} GB/s", rate.unwrap_or_default()),
        };
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.isa.clone(),
            it.tier.to_owned(),
            latency(it.latency_us * 1e3),
            latency(it.default_us * 1e3),
            format!("{:.2}x", it.default_us / it.latency_us),
            rate,
        ]);
    }
    table
}
