//! `cargo tvmtune upgrade`: records of earlier releases become records of this one.
//!
//! First, schedules that still make the code that was measured get the identities of this release,
//! with their times. Of the others the traces are replayed by builds, and their times say nothing: on
//! the machine at hand they are verified, and timed beside the default schedule, and the best of both
//! is recorded. No kernel gets slower by that; one that is slower than its record says is named.

use anstream::{print, println};
use anyhow::{Result, bail};
use tvmtune_build::config::Budget;
use tvmtune_build::op::Op;
use tvmtune_build::report::TuningStatus;
use tvmtune_build::tune::session::{self, OpBuckets, Request, SessionError};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Platform, Target};
use tvmtune_plan::database::{CacheUse, Database};
use tvmtune_plan::device;
use tvmtune_plan::migrate::{Migrated, migrate};
use tvmtune_plan::record::{Entry, Source};
use tvmtune_tuner::tune::{Reuse, Summary, TaskResult};

use crate::cli::Upgrade;
use crate::device_plan::{self, LOCK_LIMIT, for_each_device};
use crate::progress::Progress;
use crate::records::{self, PackageRecords};
use crate::render::{Table, count, latency};
use crate::{Exit, workspace};

/// The latency relative to what was recorded from which a kernel counts as slower.
const SLOWER: f64 = 1.1;

/// A schedule whose code another release made.
struct Replayed {
    name: String,
    bucket: Vec<Interval>,
    platform: Platform,
    extents: String,
    /// The recorded times of it, and of the default schedule.
    recorded_ns: Option<f64>,
    default_ns: Option<f64>,
}

pub(crate) fn run(arguments: &Upgrade) -> Result<Exit> {
    carry_over(arguments)?;
    if arguments.without_measuring {
        return Ok(Exit::Done);
    }
    let mut slower = Vec::new();
    let exit = for_each_device(&arguments.selection, None, |records, database, device| {
        let (replayed, summary) = match measure(records, database, device) {
            Ok(measured) => measured,
            Err(error @ (SessionError::Exclusive(_) | SessionError::Tune(_))) => {
                eprintln!("error: package `{}`: {error}", records.package.name);
                return Ok(Exit::NoDevice);
            }
            Err(error) => bail!("package `{}`: {error}", records.package.name),
        };
        if !replayed.is_empty() {
            records.package.plan_again()?;
            print!("{}", table(&replayed, &summary, &mut slower));
        }
        for (task, why) in &summary.skipped {
            println!("{task}: {why}");
        }
        Ok(Exit::Done)
    })?;
    if !slower.is_empty() {
        println!("run `cargo tvmtune tune -k NAME` to search again where a kernel is slower");
    }
    Ok(exit)
}

/// Gives schedules that make the same code the identities of this release.
fn carry_over(arguments: &Upgrade) -> Result<()> {
    let (mut n_records, mut total) = (0, Migrated::default());
    for package in &workspace::packages(&arguments.selection)? {
        let cache = if arguments.shipped { CacheUse::Exclude } else { CacheUse::Include };
        let database = Database::discover(&package.search_dirs(cache));
        for (op, lookup) in PackageRecords::new(package, &database).ops() {
            for found in &lookup.records {
                let mut migrated = None;
                database.rewrite(&found.path, |record| {
                    migrated = migrate(record, &op.dag);
                    migrated.is_some()
                })?;
                let Some(Migrated { carried, stale }) = migrated else { continue };
                n_records += 1;
                total.carried += carried;
                total.stale += stale;
                if stale > 0 {
                    println!("{}: {} replayed", found.path.display(), count(stale, "schedule"));
                }
            }
        }
        package.plan_again()?;
    }
    let (records, carried) = (count(n_records, "record"), count(total.carried, "schedule"));
    println!("{records}: {carried} carried over, {} replayed", total.stale);
    Ok(())
}

/// Measures the schedules of a package whose code another release made, on a device.
fn measure(
    records: &PackageRecords<'_>,
    database: &Database,
    device: Target,
) -> Result<(Vec<Replayed>, Summary), SessionError> {
    let (mut replayed, mut ops) = (Vec::new(), Vec::new());
    let isas = device::isas();
    for (op, lookup) in records.ops() {
        let mut buckets = Vec::new();
        for it in device_plan::variants(op, lookup, device, &isas, records.limits()) {
            let Some(choice) = it.choice.filter(|_| it.status == TuningStatus::Replayed) else {
                continue;
            };
            let recorded = choice.record.bucket(it.bucket);
            let schedules = recorded.map_or(&[][..], |it| &it.schedules);
            let is_default =
                |entry: &&Entry| entry.platform == it.platform && entry.source == Source::Default;
            replayed.push(Replayed {
                name: op.name().to_owned(),
                bucket: it.bucket.to_vec(),
                platform: it.platform,
                extents: records::extents(op, it.bucket),
                recorded_ns: choice.entry.median_ns(),
                default_ns: schedules.iter().find(is_default).and_then(Entry::median_ns),
            });
            buckets.extend(position(op, it.bucket).filter(|it| !buckets.contains(it)));
        }
        if !buckets.is_empty() {
            ops.push(OpBuckets { op, buckets });
        }
    }
    if ops.is_empty() {
        return Ok((replayed, Summary::default()));
    }
    let targets = match device {
        Target::Cpu(cpu) => {
            let is_asked = |it: &&_| replayed.iter().any(|of| of.platform == Platform::Cpu(**it));
            isas.iter().filter(is_asked).map(|isa| CpuTarget { isa: *isa, ..cpu }.into()).collect()
        }
        Target::Gpu(_) => vec![device],
    };
    let package = &records.package.name;
    // Recorded schedules and the default one are timed in any case; nothing else is tried.
    let budget = Budget { trials: 1, ..Budget::COMMAND };
    let (reuse, patience) = (Reuse::Compete, LOCK_LIMIT);
    let request = Request { package, ops, device, targets, budget, reuse, patience };
    let mut progress = Progress::new();
    let summary = session::run(&request, database, &mut |event| progress.on_event(&event))?;
    Ok((replayed, summary))
}

/// Returns the position of a bucket.
fn position(op: &Op, bucket: &[Interval]) -> Option<usize> {
    op.buckets.iter().position(|it| it == bucket)
}

/// Returns a row for each schedule that was measured; adds the names of slower kernels.
fn table(replayed: &[Replayed], summary: &Summary, slower: &mut Vec<String>) -> Table {
    let mut table =
        Table::new(["kernel", "extents", "isa", "recorded", "now", "default", "verdict"]);
    for it in replayed {
        let ranges = |of: &TaskResult| -> Vec<Interval> {
            of.task.dims.iter().map(|(_, range)| *range).collect()
        };
        let is_it = |of: &&TaskResult| {
            of.task.program == it.name && of.task.platform == it.platform && ranges(of) == it.bucket
        };
        let Some(result) = summary.results.iter().find(is_it) else { continue };
        let verdict = it.verdict(result);
        if verdict.starts_with("slower") {
            slower.push(it.name.clone());
        }
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.platform.to_string(),
            it.recorded_ns.map_or_else(|| "-".to_owned(), latency),
            latency(result.best_ns),
            latency(result.default_ns),
            verdict,
        ]);
    }
    table
}

impl Replayed {
    /// Compares what is recorded now with what was: as multiples of the default schedule, where that
    /// was recorded, since clocks differ from day to day.
    fn verdict(&self, result: &TaskResult) -> String {
        let Some(recorded_ns) = self.recorded_ns else { return "measured".to_owned() };
        let drift = self.default_ns.map_or(1.0, |it| result.default_ns / it);
        let ratio = result.best_ns / (recorded_ns * drift.min(1.0));
        match result.source {
            _ if ratio > SLOWER => format!("slower, {ratio:.2}x"),
            Source::Default => "the default is as fast".to_owned(),
            _ => "as fast".to_owned(),
        }
    }
}
