//! `cargo tvmtune bench`: times the code that a build would embed, beside the default schedule.

use anyhow::{Result, bail};
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_build::report::TuningStatus;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dsl::Residence;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_space::work::Work;
use tvmtune_space::{default, operands};
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::tune::{self, Bucket, Workload};

use super::bench_orders;
use crate::Exit;
use crate::cli::{Bench, Operands};
use crate::device_plan::{self, LOCK_LIMIT, PlannedVariant, for_each_device, runnable};
use crate::output::{eprintln, print, println};
use crate::records;
use crate::render::{Table, latency, percent};
use crate::roofline::Roofline;

/// Number of timings of each schedule; the schedules alternate.
pub(super) const ROUNDS: usize = 25;

/// The timing of one bucket of a kernel, at its largest extents.
#[derive(Serialize)]
struct BenchRow {
    name: String,
    extents: String,
    isa: String,
    tier: &'static str,
    /// The parameters that launches found in memory, and not in a cache.
    cold: Vec<String>,
    latency_us: f64,
    default_us: f64,
    samples: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    gflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gbps: Option<f64>,
    /// The least time of that work on this machine by the time taken; none where its peaks are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    roofline: Option<f64>,
    tuned_with: TuningEffort,
}

/// The effort of finding the schedule that is timed.
#[derive(Serialize)]
struct TuningEffort {
    trials: u64,
    seconds: f64,
}

/// The schedule whose latency a row shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownSchedule {
    /// The one that a build would embed.
    Planned,
    /// The default one.
    Default,
}

pub(crate) fn run(arguments: &Bench) -> Result<Exit> {
    let shown = if arguments.default { ShownSchedule::Default } else { ShownSchedule::Planned };
    let (mut rows, mut by_order) = (Vec::new(), Vec::new());
    let exit =
        for_each_device(&arguments.selection, arguments.target, |records, database, device| {
            let Some(cache) = database.cache() else {
                bail!("there is no folder for locks; set `TVMTUNE_CACHE` to one");
            };
            let lock = match MachineLock::of_device(cache, &device, LOCK_LIMIT) {
                Ok(lock) => lock,
                Err(error) => {
                    eprintln!("error: {error}");
                    return Ok(Exit::NoDevice);
                }
            };
            let roofline = match device {
                Target::Cpu(_) => Roofline::measured(cache, &lock)?,
                Target::Gpu(_) => None,
            };
            let isas: Vec<Isa> = match device {
                Target::Cpu(cpu) => vec![runnable(arguments.variants.isa)?.unwrap_or(cpu.isa)],
                Target::Gpu(_) => Vec::new(),
            };
            let target = match (device, isas.first()) {
                (Target::Cpu(cpu), Some(isa)) => CpuTarget { isa: *isa, ..cpu }.into(),
                (device, _) => device,
            };
            for (op, lookup) in records.ops() {
                let variants = device_plan::variants(op, lookup, device, &isas, records.limits());
                let extents = &arguments.variants.bucket;
                for it in variants.iter().filter(|it| records::contains(op, it.bucket, extents)) {
                    if arguments.orders {
                        by_order.extend(bench_orders::rows(op, it.bucket, target, &lock));
                        continue;
                    }
                    let workload = workload(op, arguments.operands);
                    match time_side_by_side(&workload, it, target, &lock) {
                        Ok(timings) => {
                            let cold = cold(&workload, it.bucket, &target);
                            rows.push(row(op, it, &timings, shown, (&cold, roofline.as_ref())));
                        }
                        Err(why) => eprintln!("warning: {} was not timed: {why}", op.name()),
                    }
                }
            }
            Ok(Exit::Done)
        })?;
    if exit != Exit::Done {
        return Ok(exit);
    }
    match (arguments.json, arguments.orders) {
        (true, false) => println!("{}", serde_json::to_string_pretty(&rows)?),
        (true, true) => println!("{}", serde_json::to_string_pretty(&by_order)?),
        (false, false) => print!("{}", table(&rows)),
        (false, true) => print!("{}", bench_orders::table(&by_order)),
    }
    Ok(Exit::Done)
}

/// Returns the workload of an op, with its operands where they are asked to be.
fn workload(op: &Op, operands: Option<Operands>) -> Workload {
    let workload = OpBuckets::new(op, Vec::new()).workload();
    let Some(operands) = operands else { return workload };
    let residence = match operands {
        Operands::Cold => Residence::Cold,
        Operands::Warm => Residence::Warm,
    };
    Workload { residence: vec![Some(residence); op.dag.params().count()], ..workload }
}

/// Returns the parameters that launches in a bucket find in memory.
fn cold(workload: &Workload, bucket: &[Interval], device: &Target) -> Vec<TensorId> {
    let dag = &workload.dag;
    let largest: Vec<i64> = bucket.iter().map(|it| it.hi).collect();
    let cold = operands::cold(dag, &largest, &workload.residence, device);
    let cold = dag.params().zip(cold).filter(|(_, is_cold)| *is_cold);
    cold.map(|(param, _)| param).collect()
}

/// Times the schedule that a build would embed and the default one, interleaved; returns both. Where they are one
/// schedule, it is timed once: two timings of the same code would show a difference that is none.
fn time_side_by_side(
    workload: &Workload,
    variant: &PlannedVariant<'_>,
    device: Target,
    lock: &MachineLock,
) -> Result<[Timing; 2], String> {
    let default = default::schedule(&workload.dag.specialize(variant.bucket), &device).trace;
    // On a GPU without recorded code the default schedule is compiled here.
    let planned =
        variant.trace.clone().map_err(|it| it.to_string())?.unwrap_or_else(|| default.clone());
    let schedules = if planned == default { vec![planned] } else { vec![planned, default] };
    let bucket = Bucket { workload, ranges: variant.bucket };
    let outcomes = tune::bench(
        &tune::Bench { bucket, dims: None, target: device, rounds: ROUNDS },
        &schedules,
        WorkerCommand::this_executable().map_err(|it| it.to_string())?,
        lock,
    );
    let timing = |it: &Outcome| it.timing().cloned().ok_or(it.to_string());
    match outcomes.map_err(|it| it.to_string())??.as_slice() {
        [planned, default] => Ok([timing(planned)?, timing(default)?]),
        [only] => timing(only).map(|it| [it.clone(), it]),
        _ => Err("the worker gave no timings".to_owned()),
    }
}

/// Returns the row of a variant, some of whose parameters are cold, beside the roofline of the machine.
fn row(
    op: &Op,
    variant: &PlannedVariant<'_>,
    [planned, default]: &[Timing; 2],
    shown: ShownSchedule,
    (cold, roofline): (&[TensorId], Option<&Roofline>),
) -> BenchRow {
    let dims: Vec<i64> = variant.bucket.iter().map(|it| it.hi).collect();
    let work = Work::of(&op.dag, &dims);
    let (timing, status, bucket) = match shown {
        ShownSchedule::Planned => (planned, variant.status, variant.recorded()),
        ShownSchedule::Default => (default, TuningStatus::Default, None),
    };
    let ns = timing.median_ns();
    let cold_bytes = || cold.iter().map(|it| Work::bytes_read(&op.dag, *it, &dims)).sum();
    let least_us = |it: &Roofline| it.least_us(work, it.cpu.threads).max(it.cold_us(cold_bytes()));
    BenchRow {
        name: op.name().to_owned(),
        extents: records::extents(op, variant.bucket),
        isa: variant.platform.to_string(),
        tier: status.name(),
        cold: cold.iter().map(|it| op.dag.tensor(*it).name.clone()).collect(),
        latency_us: ns / 1e3,
        default_us: default.median_ns() / 1e3,
        samples: timing.samples_ns().len(),
        gflops: work.is_compute_bound().then_some(work.flops / ns),
        gbps: (!work.is_compute_bound()).then_some(work.bytes / ns),
        roofline: roofline.map(|it| least_us(it) * 1e3 / ns),
        tuned_with: TuningEffort {
            trials: bucket.map_or(0, |it| it.trials),
            seconds: bucket.map_or(0.0, |it| it.seconds),
        },
    }
}

fn table(rows: &[BenchRow]) -> Table {
    let mut table = Table::new([
        "kernel", "extents", "isa", "tier", "cold", "latency", "default", "speedup", "rate",
        "roofline",
    ]);
    for it in rows {
        let rate = match (it.gflops, it.gbps) {
            (Some(rate), _) => format!("{rate:.1} GFLOP/s"),
            (None, rate) => format!("{:.1} GB/s", rate.unwrap_or_default()),
        };
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.isa.clone(),
            it.tier.to_owned(),
            if it.cold.is_empty() { "-".to_owned() } else { it.cold.join(" ") },
            latency(it.latency_us * 1e3),
            latency(it.default_us * 1e3),
            format!("{:.2}x", it.default_us / it.latency_us),
            rate,
            it.roofline.map_or_else(|| "-".to_owned(), percent),
        ]);
    }
    table
}
