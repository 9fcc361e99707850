//! `cargo tvmtune tune`: tunes the kernels whose budget was not spent yet.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use tvmtune_build::config::Budget;
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::report::TuningStatus;
use tvmtune_build::tune::session::{self, OpBuckets, Request, SessionError};
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_plan::database::{Database, Lookup};
use tvmtune_plan::device;
use tvmtune_plan::record::SearchLimits;
use tvmtune_tuner::tune::{Reuse, Summary, TimeSpent};

use super::remote;
use crate::Exit;
use crate::cli::Tune;
use crate::device_plan::{self, for_each_device, runnable};
use crate::output::{eprintln, print, println};
use crate::profile::runs::Runs;
use crate::progress::Progress;
use crate::records::{self, PackageRecords};
use crate::render::{Table, count, latency, took, weighted};

/// The output with `--json`.
#[derive(Default, Serialize)]
pub(super) struct Report {
    kernels: Vec<Line>,
    skipped: Vec<Skipped>,
    unreached: Vec<String>,
    /// Kernels that were as fast as asked for before.
    good_enough: Vec<String>,
    /// Kernels whose search the budget ended; none if another machine tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_off: Option<usize>,
    /// Batches that were measured again, since the machine changed its speed meanwhile.
    repeated_batches: u64,
    seconds: f64,
    times: Times,
    /// The times of all devices, from which `times` are made.
    #[serde(skip)]
    spent: TimeSpent,
    /// The weights of kernels, by name.
    #[serde(skip)]
    pub(super) weights: BTreeMap<String, f64>,
    /// A profile whose kernels ran with several extents.
    #[serde(skip)]
    has_extents: Option<PathBuf>,
    /// The address of another machine that was asked.
    #[serde(skip)]
    on: Option<String>,
}

/// The time of a run or of a kernel in this run, by what it was spent on, in seconds.
#[derive(Clone, Copy, Default, Serialize)]
struct Times {
    judging: f64,
    generating: f64,
    measuring: f64,
    proposing: f64,
    comparing: f64,
    waiting: f64,
    other: f64,
}

/// A kernel that was tuned.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    /// The number of runs of the kernel, relative to others: its buckets share it.
    weight: f64,
    isa: String,
    default_us: f64,
    latency_us: f64,
    source: &'static str,
    trials: u64,
    failures: u64,
    seconds: f64,
    times: Times,
}

/// A kernel that can't be tuned.
#[derive(Serialize)]
struct Skipped {
    name: String,
    why: String,
}

pub(crate) fn run(arguments: &Tune) -> Result<Exit> {
    let mut report = Report { on: arguments.on.clone(), ..Report::default() };
    if let Some(address) = &arguments.on {
        let exit = remote::tune(address, arguments, &mut report)?;
        // The records that arrived before the connection was lost are kept, and reported.
        return match exit {
            Exit::Done => report.print(arguments),
            _ if report.kernels.is_empty() => Ok(exit),
            _ => report.print(arguments).map(|_| exit),
        };
    }
    runnable(arguments.variants.isa)?;
    let runs = arguments.profile.as_deref().map(Runs::read).transpose()?;
    let exit =
        for_each_device(&arguments.selection, arguments.target, |records, database, device| {
            let package = &records.package.name;
            report.weights = weights(records, runs.as_ref());
            if let (Some(runs), Some(path)) = (&runs, &arguments.profile) {
                let several = records.ops().any(|it| runs.of_op(it.0).len() > 1);
                report.has_extents = several.then(|| path.clone()).or(report.has_extents.take());
            }
            match tune(records, database, device, arguments, runs.as_ref()) {
                Ok(summary) => {
                    report.add(&summary);
                    records.package.plan_again()?;
                }
                Err(error) if is_of_device(&error) => {
                    eprintln!("error: package `{package}`: {error}");
                    return Ok(Exit::NoDevice);
                }
                Err(error) => return Err(error).with_context(|| format!("package `{package}`")),
            }
            Ok(Exit::Done)
        })?;
    match exit {
        Exit::Done => report.print(arguments),
        _ => Ok(exit),
    }
}

/// Returns the number of runs of each kernel, relative to others, by name: that of a profile, if there is one.
pub(super) fn weights(records: &PackageRecords<'_>, runs: Option<&Runs>) -> BTreeMap<String, f64> {
    let weight = |op: &Op| runs.map_or(op.weight, |it| it.weight(op));
    records.ops().map(|(op, _)| (op.name().to_owned(), weight(op))).collect()
}

/// Tells if a session failed because nothing could be measured now, and not for want of a folder.
pub(super) fn is_of_device(error: &SessionError) -> bool {
    error.is_busy() || matches!(error, SessionError::Machine(_) | SessionError::Tune(_))
}

/// Tunes the kernels of a package on a device.
fn tune(
    records: &PackageRecords<'_>,
    database: &Database,
    device: Target,
    arguments: &Tune,
    runs: Option<&Runs>,
) -> Result<Summary, SessionError> {
    let budget = budget(records.package, arguments);
    if let Some(runs) = runs {
        runs.compare(records.ops().map(|it| it.0));
    }
    let (isas, ops) = to_tune(records, device, &device::isas(), budget, arguments, runs);
    if ops.is_empty() {
        return Ok(Summary::default());
    }
    let targets = match device {
        Target::Cpu(cpu) => isas.into_iter().map(|isa| CpuTarget { isa, ..cpu }.into()).collect(),
        Target::Gpu(_) => vec![device],
    };
    let reuse = if arguments.again { Reuse::Ignore } else { Reuse::Compete };
    let package = &records.package.name;
    let good_enough = arguments.until.map(|it| it.0);
    let request = Request { package, ops, device, targets, budget, reuse, good_enough };
    let mut progress = Progress::new();
    session::run(&request, database, &mut |event| progress.on_event(&event))
}

/// Returns the instruction sets to tune now, of `all` that a machine runs, and the buckets that another
/// session would improve for them.
pub(super) fn to_tune<'a>(
    records: &PackageRecords<'a>,
    device: Target,
    all: &[Isa],
    budget: Budget,
    arguments: &Tune,
    runs: Option<&Runs>,
) -> (Vec<Isa>, Vec<OpBuckets<'a>>) {
    // Older instruction sets are for other machines: they wait until this one has all it needs.
    let (first, others) = match arguments.variants.isa {
        Some(isa) => (vec![isa], Vec::new()),
        None => (all[..all.len().min(1)].to_vec(), all.get(1..).unwrap_or_default().to_vec()),
    };
    let (mut isas, mut ops) = (first, Vec::new());
    let ran = |mut all: Vec<OpBuckets<'a>>| {
        if let Some(runs) = runs {
            all.iter_mut().for_each(|it| it.buckets.retain(|n| runs.has(it.op, *n)));
            all.retain(|it| !it.buckets.is_empty());
            all.iter_mut().for_each(|it| runs.weigh(it));
        }
        all
    };
    ops.extend(ran(open(records, device, &isas, budget, arguments)));
    if ops.is_empty() && !others.is_empty() {
        isas = others;
        ops.extend(ran(open(records, device, &isas, budget, arguments)));
    }
    (isas, ops)
}

/// Returns the buckets that another session would improve, for some instruction sets of a device.
fn open<'a>(
    records: &PackageRecords<'a>,
    device: Target,
    isas: &[Isa],
    budget: Budget,
    arguments: &Tune,
) -> Vec<OpBuckets<'a>> {
    let mut open = Vec::new();
    for (op, lookup) in records.ops() {
        let done = done(op, lookup, device, isas, budget.search_limits());
        let is_asked =
            |it: &usize| records::contains(op, &op.buckets[*it], &arguments.variants.bucket);
        let is_open = |it: &usize| is_asked(it) && (arguments.again || !done[*it]);
        let buckets: Vec<usize> = (0..op.buckets.len()).filter(is_open).collect();
        if !buckets.is_empty() {
            open.push(OpBuckets::new(op, buckets));
        }
    }
    open
}

/// Returns the budget: the command line goes before the environment, and that before the author's.
pub(super) fn budget(package: &Package, arguments: &Tune) -> Budget {
    let (limits, variable) = (&package.config.budget, std::env::var("TVMTUNE_BUDGET").ok());
    let budget = Budget::COMMAND.resolved(limits, variable.as_deref()).unwrap_or_else(|error| {
        eprintln!("warning: TVMTUNE_BUDGET: {error}");
        Budget::COMMAND.limited(limits)
    });
    Budget {
        trials: arguments.trials.unwrap_or(budget.trials),
        total: arguments.budget.map_or(budget.total, |it| it.0),
        ..budget
    }
}

/// Tells for each bucket if another session within these limits would find nothing new on a device,
/// for any of its instruction sets.
fn done(op: &Op, lookup: &Lookup, device: Target, isas: &[Isa], limits: SearchLimits) -> Vec<bool> {
    let mut done = vec![true; op.buckets.len()];
    for variant in device_plan::variants(op, lookup, device, isas, limits) {
        let is_done = match variant.status {
            TuningStatus::Portable | TuningStatus::Exact => true,
            // A bucket counts the effort for the best instruction set; others get a share of it.
            status if status.is_unfinished() => variant.platform != device.platform(),
            _ => false,
        };
        for (done, bucket) in done.iter_mut().zip(&op.buckets) {
            *done &= is_done || *bucket != *variant.bucket;
        }
    }
    done
}

impl Times {
    fn new(times: &TimeSpent) -> Self {
        Self {
            judging: times.judging.as_secs_f64(),
            generating: times.generating.as_secs_f64(),
            measuring: times.measuring.as_secs_f64(),
            proposing: times.proposing.as_secs_f64(),
            comparing: times.comparing.as_secs_f64(),
            waiting: times.waiting.as_secs_f64(),
            other: times.other().as_secs_f64(),
        }
    }

    /// Formats the times, those of the search first.
    fn text(self) -> String {
        let parts = [
            (self.generating, "generating"),
            (self.measuring, "measuring"),
            (self.proposing, "choosing"),
            (self.judging, "judging"),
            (self.comparing, "comparing"),
            (self.waiting, "waiting"),
            (self.other, "other"),
        ];
        let parts = parts.into_iter().filter(|it| it.0 >= 0.05);
        let parts = parts.map(|(seconds, what)| format!("{} {what}", span(seconds)));
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// Formats a time in seconds.
fn span(seconds: f64) -> String {
    took(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

impl Report {
    /// Prints what was found.
    fn print(&self, arguments: &Tune) -> Result<Exit> {
        if arguments.json {
            println!("{}", serde_json::to_string_pretty(self)?);
        } else {
            print!("{}", self.text());
        }
        match self.skipped.len() {
            0 => Ok(Exit::Done),
            n => {
                eprintln!("error: {} of those asked for could not be tuned", count(n, "kernel"));
                Ok(Exit::Refused)
            }
        }
    }

    /// Adds the results of a device.
    pub(super) fn add(&mut self, summary: &Summary) {
        self.seconds += summary.times.total.as_secs_f64();
        self.spent.add(&summary.times);
        self.spent.total += summary.times.total;
        self.times = Times::new(&self.spent);
        self.kernels.extend(summary.results.iter().map(|it| Line {
            name: it.task.program.clone(),
            extents: records::ranges(it.task.dims.iter().map(|(name, it)| (name.as_str(), *it))),
            weight: self.weights.get(&it.task.program).copied().unwrap_or(1.0),
            isa: it.task.platform.to_string(),
            default_us: it.default_ns / 1e3,
            latency_us: it.best_ns / 1e3,
            source: it.source.name(),
            trials: it.trials,
            failures: it.failures,
            seconds: it.seconds,
            times: Times::new(&it.times),
        }));
        let skipped = summary.skipped.iter();
        self.skipped.extend(
            skipped.map(|(task, why)| Skipped { name: task.to_string(), why: why.clone() }),
        );
        self.unreached.extend(summary.unreached.iter().map(ToString::to_string));
        self.good_enough.extend(summary.met.iter().map(ToString::to_string));
        if self.on.is_none() {
            *self.cut_off.get_or_insert_default() += summary.n_cut_off;
        }
        self.repeated_batches += summary.n_repeated;
    }

    /// Formats the report for people.
    fn text(&self) -> String {
        let is_good_enough = match self.good_enough.len() {
            0 => String::new(),
            1 => "1 kernel is as fast as asked for\n".to_owned(),
            n => format!("{n} kernels are as fast as asked for\n"),
        };
        if self.kernels.is_empty() && self.skipped.is_empty() && self.unreached.is_empty() {
            if !is_good_enough.is_empty() {
                return is_good_enough;
            }
            let (machine, on) = match &self.on {
                Some(address) => (format!("`{address}`"), format!(" --on {address}")),
                None => ("this machine".to_owned(), String::new()),
            };
            return format!(
                "nothing to do: every kernel was tuned on {machine}; \
                 `cargo tvmtune tune{on} --again` starts over\n"
            );
        }
        let header = [
            "kernel", "extents", "isa", "default", "tuned", "speedup", "found by", "trials", "time",
        ];
        let mut table = Table::new(header);
        for it in &self.kernels {
            table.row([
                weighted(&it.name, it.weight),
                it.extents.clone(),
                it.isa.clone(),
                latency(it.default_us * 1e3),
                latency(it.latency_us * 1e3),
                format!("{:.2}x", it.default_us / it.latency_us),
                it.source.to_owned(),
                it.trials.to_string(),
                span(it.seconds),
            ]);
        }
        let mut text = table.to_string() + &is_good_enough;
        for Skipped { name, why } in &self.skipped {
            text += &format!("{name} was not tuned: {why}\n");
        }
        text += &format!(
            "\n{} in {}: {}",
            count(self.kernels.len(), "kernel"),
            span(self.seconds),
            self.times.text(),
        );
        if self.cut_off == Some(0) && self.unreached.is_empty() && !self.kernels.is_empty() {
            text += "\nended before its budget: no kernel is expected to gain more";
        }
        if let Some(profile) = &self.has_extents {
            let shown = profile.display();
            text += &format!("\n`cargo tvmtune buckets {shown}` proposes buckets for its extents");
        }
        text += &match self.unreached.len() {
            0 => "\n`cargo tvmtune accept` moves what was found into the crate\n".to_owned(),
            n => format!("\nthe budget did not reach {n} more; run it again\n"),
        };
        text
    }
}
