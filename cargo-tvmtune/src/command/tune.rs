//! `cargo tvmtune tune`: measures what has not been measured enough.

use std::time::Duration;

use anstream::{print, println};
use anyhow::{Context, Result};
use serde::Serialize;
use tvmtune_build::config::Budget;
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::plan::{self, Aim, Slot};
use tvmtune_build::report::Standing;
use tvmtune_build::tune::session::{self, Request, SessionError};
use tvmtune_core::target::CpuTarget;
use tvmtune_tuner::database::Database;
use tvmtune_tuner::device;
use tvmtune_tuner::tune::{Summary, TaskName};

use crate::Exit;
use crate::cli::Tune;
use crate::known::{self, Known};
use crate::progress::Progress;
use crate::render::{Table, count, latency, took};
use crate::workspace;

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
    isa: &'static str,
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
    let Some(target) = device::detect() else {
        eprintln!("error: this machine runs no generated kernels; see `cargo tvmtune doctor`");
        return Ok(Exit::NoDevice);
    };
    let mut report = Report::default();
    for package in &packages {
        match tune(package, target, arguments) {
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
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(Exit::Done)
}

fn tune(package: &Package, target: CpuTarget, arguments: &Tune) -> Result<Summary, SessionError> {
    let budget = budget(package, arguments);
    let database = Database::discover(&package.places(false));
    let known = Known::new(package, &database);
    let aim = Aim { device: Some(target) };
    let isas = device::isas();
    let mut ops = Vec::new();
    for (op, lookup) in known.ops() {
        let slots = plan::slots(op, lookup, &aim);
        let open = |bucket: &usize| {
            let here = slots.iter().filter(|it| *it.bucket == *op.buckets[*bucket]);
            let mut here = here.filter(|it| isas.contains(&it.isa));
            arguments.again || here.any(|it| !is_done(op, it, &aim, budget))
        };
        let buckets: Vec<usize> = (0..op.buckets.len()).filter(open).collect();
        if !buckets.is_empty() {
            ops.push((op, buckets));
        }
    }
    if ops.is_empty() {
        return Ok(Summary::default());
    }
    let afresh = arguments.again;
    let patience = PATIENCE;
    let request = Request { ops, target, isas, budget, afresh, refines: false, patience };
    let mut progress = Progress::new();
    session::run(&request, &database, &mut |event| progress.see(&event))
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

/// Whether another session with that budget would find out nothing new.
fn is_done(op: &Op, slot: &Slot<'_>, aim: &Aim, budget: Budget) -> bool {
    let standing = known::realize(op, slot, aim).0;
    if standing != Standing::Exact {
        return standing == Standing::Portable;
    }
    let Some(bucket) = slot.choices.first().and_then(|it| it.record.bucket(slot.bucket)) else {
        return false;
    };
    // A bucket counts the effort for the machine's best instruction set; others get a share.
    slot.isa != aim.isa()
        || bucket.complete
        || bucket.trials >= budget.trials
        || bucket.seconds >= budget.per_kernel.as_secs_f64()
}

impl Report {
    fn add(&mut self, summary: &Summary) {
        self.seconds += summary.seconds;
        self.generating_seconds += summary.generating_seconds;
        self.measuring_seconds += summary.measuring_seconds;
        self.kernels.extend(summary.results.iter().map(|it| Line {
            name: it.task.program.clone(),
            extents: extents(&it.task),
            isa: it.task.isa.name(),
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
                it.isa.to_owned(),
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
