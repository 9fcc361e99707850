//! `cargo tvmtune tune`: measures what has not been measured enough.

use std::time::Duration;

use anstream::{print, println};
use anyhow::{Context, Result};
use serde::Serialize;
use tvmtune_build::config::Budget;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::plan::{self, Aim};
use tvmtune_build::report::Standing;
use tvmtune_build::tune::session::{self, Request, SessionError};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, GpuTarget, Isa, Target};
use tvmtune_plan::database::{Choice, Database, Lookup};
use tvmtune_plan::device;
use tvmtune_tuner::tune::{Summary, TaskName};

use crate::cli::Tune;
use crate::known::{self, Known};
use crate::progress::Progress;
use crate::render::{Table, count, latency, took};
use crate::{Exit, workspace};

/// Others tune for as long as a build's budget; longer than that is no queue.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What is printed with `--json`.
#[derive(Default, Serialize)]
struct Report {
    kernels: Vec<Line>,
    skipped: Vec<Skipped>,
    unreached: Vec<String>,
    seconds: f64,
    generating_seconds: f64,
    measuring_seconds: f64,
}

/// A kernel that was tuned.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    isa: String,
    default_us: f64,
    latency_us: f64,
    source: &'static str,
    trials: u64,
    failures: u64,
    seconds: f64,
}

/// A kernel that can't be tuned.
#[derive(Serialize)]
struct Skipped {
    name: String,
    why: String,
}

pub(crate) fn run(arguments: &Tune) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let mut report = Report::default();
    for package in &packages {
        let database = Database::discover(&package.places(false));
        let known = Known::new(package, &database);
        let devices = match known.devices(arguments.target) {
            Ok(devices) => devices,
            Err(why) => {
                eprintln!("error: {why}");
                return Ok(Exit::NoDevice);
            }
        };
        for device in devices {
            match tune(&known, &database, device, arguments) {
                Ok(summary) => report.add(&summary),
                Err(error @ (SessionError::Exclusive(_) | SessionError::Tune(_))) => {
                    eprintln!("error: package `{}`: {error}", package.name);
                    return Ok(Exit::NoDevice);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("package `{}`", package.name));
                }
            }
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(Exit::Done)
}

/// Tunes what was not tuned enough on a device.
fn tune(
    known: &Known<'_>,
    database: &Database,
    device: Target,
    arguments: &Tune,
) -> Result<Summary, SessionError> {
    let budget = budget(known.package, arguments);
    let (mut ops, isas) = (Vec::new(), device::isas());
    for (op, lookup) in known.ops() {
        let done = match device {
            Target::Cpu(cpu) => done_on_cpu(op, lookup, (cpu, &isas), budget),
            Target::Gpu(gpu) => done_on_gpu(op, lookup, gpu, budget),
        };
        let open = |bucket: &usize| arguments.again || !done[*bucket];
        let buckets: Vec<usize> = (0..op.buckets.len()).filter(open).collect();
        if !buckets.is_empty() {
            ops.push((op, buckets));
        }
    }
    if ops.is_empty() {
        return Ok(Summary::default());
    }
    let targets = match device {
        Target::Cpu(cpu) => isas.into_iter().map(|isa| CpuTarget { isa, ..cpu }.into()).collect(),
        Target::Gpu(_) => vec![device],
    };
    let (afresh, patience) = (arguments.again, PATIENCE);
    let request = Request { ops, targets, budget, afresh, refines: false, patience };
    let mut progress = Progress::new();
    session::run(&request, database, &mut |event| progress.see(&event))
}

/// What may be spent: the command line's word over the environment's over the author's.
fn budget(package: &Package, arguments: &Tune) -> Budget {
    let mut budget = Budget::COMMAND.limited(&package.config.budget);
    if let Ok(text) = std::env::var("TVMTUNE_BUDGET") {
        match budget.overridden(&text) {
            Ok(other) => budget = other,
            Err(error) => eprintln!("warning: TVMTUNE_BUDGET: {error}"),
        }
    }
    Budget {
        trials: arguments.trials.unwrap_or(budget.trials),
        total: arguments.budget.map_or(budget.total, |it| it.0),
        ..budget
    }
}

/// For each bucket, whether another session with that budget would find out nothing new for any
/// instruction set of this machine.
fn done_on_cpu(
    op: &Op,
    lookup: &Lookup,
    (cpu, isas): (CpuTarget, &[Isa]),
    budget: Budget,
) -> Vec<bool> {
    let aim = Aim { device: Some(cpu), gpu: None };
    let mut done = vec![true; op.buckets.len()];
    for slot in plan::slots(op, lookup, &aim).iter().filter(|it| isas.contains(&it.isa)) {
        let is_done = match known::realize(op, slot, &aim).0 {
            Standing::Portable => true,
            // A bucket counts the effort for the machine's best instruction set; others get a share.
            Standing::Exact => {
                slot.isa != aim.isa() || was_spent(&slot.choices, slot.bucket, budget)
            }
            _ => false,
        };
        for (done, _) in done.iter_mut().zip(&op.buckets).filter(|(_, it)| **it == *slot.bucket) {
            *done &= is_done;
        }
    }
    done
}

/// The same on a GPU.
fn done_on_gpu(op: &Op, lookup: &Lookup, gpu: GpuTarget, budget: Budget) -> Vec<bool> {
    let is_done = |slot: &cuda::Slot<'_>| {
        let variant = known::realize_cuda(op, slot, lookup);
        let standing = variant.map(|it| Standing::new(it.tier, it.stale));
        standing == Some(Standing::Exact) && was_spent(&slot.choices, slot.bucket, budget)
    };
    cuda::slots(op, lookup, &[gpu]).iter().map(is_done).collect()
}

/// Whether earlier sessions found nothing left to try, or spent as much on a bucket.
fn was_spent(choices: &[Choice<'_>], bucket: &[Interval], budget: Budget) -> bool {
    let bucket = choices.first().and_then(|it| it.record.bucket(bucket));
    bucket.is_some_and(|it| {
        it.complete || it.trials >= budget.trials || it.seconds >= budget.per_kernel.as_secs_f64()
    })
}

impl Report {
    fn add(&mut self, summary: &Summary) {
        self.seconds += summary.seconds;
        self.generating_seconds += summary.generating_seconds;
        self.measuring_seconds += summary.measuring_seconds;
        self.kernels.extend(summary.results.iter().map(|it| Line {
            name: it.task.program.clone(),
            extents: extents(&it.task),
            isa: it.task.platform.to_string(),
            default_us: it.default_ns / 1e3,
            latency_us: it.best_ns / 1e3,
            source: it.source.name(),
            trials: it.trials,
            failures: it.failures,
            seconds: it.seconds,
        }));
        let skipped = summary.skipped.iter();
        self.skipped.extend(
            skipped.map(|(task, why)| Skipped { name: task.to_string(), why: why.clone() }),
        );
        self.unreached.extend(summary.unreached.iter().map(ToString::to_string));
    }

    fn text(&self) -> String {
        if self.kernels.is_empty() && self.skipped.is_empty() && self.unreached.is_empty() {
            return "nothing to do: every kernel was tuned on this machine; \
                    `cargo tvmtune tune --again` starts over\n"
                .to_owned();
        }
        let header = [
            "kernel", "extents", "isa", "default", "tuned", "speedup", "found by", "trials", "time",
        ];
        let mut table = Table::new(header);
        for it in &self.kernels {
            table.row([
                it.name.clone(),
                it.extents.clone(),
                it.isa.clone(),
                latency(it.default_us * 1e3),
                latency(it.latency_us * 1e3),
                format!("{:.2}x", it.default_us / it.latency_us),
                it.source.to_owned(),
                it.trials.to_string(),
                took(Duration::from_secs_f64(it.seconds)),
            ]);
        }
        let mut text = table.to_string();
        for Skipped { name, why } in &self.skipped {
            text += &format!("{name} was not tuned: {why}\n");
        }
        let span = |seconds: f64| took(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let (generating, measuring) = (self.generating_seconds, self.measuring_seconds);
        text += &format!(
            "\n{} in {}: {} generating, {} measuring, {} searching and comparing",
            count(self.kernels.len(), "kernel"),
            span(self.seconds),
            span(generating),
            span(measuring),
            span(self.seconds - generating - measuring),
        );
        text += &match self.unreached.len() {
            0 => "\n`cargo tvmtune accept` moves what was found into the crate\n".to_owned(),
            n => format!("\nthe budget did not reach {n} more; run it again\n"),
        };
        text
    }
}

/// The ranges of a task: `M 17..=64`; a dash if nothing is dynamic.
fn extents(task: &TaskName) -> String {
    known::ranges(task.dims.iter().map(|(name, range)| (name.as_str(), *range)))
}
