//! `cargo tvmtune upgrade`: records of earlier releases become records of this one.
//!
//! First, schedules that still make the code that was measured get the identities of this release,
//! with their times. Of the others the traces are replayed by builds, and their times say nothing, which
//! their records say from then on, whatever device they are of: on the machine at hand what they make now is verified, and timed beside the default schedule and the
//! code of the earlier release, where this machine kept that. The best of this release is recorded.
//! A search follows if the earlier code is faster; a kernel that stays slower is named, and its
//! record counts as unfinished.

use anyhow::{Result, bail};
use tvmtune_build::config::Budget;
use tvmtune_build::op::Op;
use tvmtune_build::report::TuningStatus;
use tvmtune_build::tune::session::{self, OpBuckets, Request, SessionError};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Platform, Target};
use tvmtune_plan::database::{CacheUse, Database};
use tvmtune_plan::device;
use tvmtune_plan::migrate::{Marked, mark_replayed, migrate};
use tvmtune_plan::printable::shown;
use tvmtune_plan::record::{Entry, Source};
use tvmtune_space::default;
use tvmtune_tuner::tune::{Reuse, Summary, TaskResult};

use super::tune::is_of_device;
use crate::cli::Upgrade;
use crate::device_plan::{self, for_each_device};
use crate::output::{eprintln, print, println};
use crate::progress::Progress;
use crate::records::{self, PackageRecords};
use crate::render::{Table, count, latency};
use crate::{Exit, workspace};

/// The latency relative to what was recorded from which a kernel counts as slower: times of different
/// days differ by some percent.
const SLOWER: f64 = 1.1;
/// The latency relative to that of the earlier code, timed beside it, from which a kernel counts as faster.
const FASTER: f64 = 0.97;

/// A schedule whose code another release made.
struct Replayed {
    name: String,
    bucket: Vec<Interval>,
    platform: Platform,
    extents: String,
    /// The recorded time of it.
    recorded_ns: Option<f64>,
    /// That of the default schedule, if it is still the one.
    default_ns: Option<f64>,
}

pub(crate) fn run(arguments: &Upgrade) -> Result<Exit> {
    carry_over(arguments)?;
    if arguments.without_measuring {
        return Ok(Exit::Done);
    }
    let mut outcome = Outcome::default();
    let exit = for_each_device(&arguments.selection, None, |records, database, device| {
        let (replayed, summary) = match measure(records, database, device) {
            Ok(measured) => measured,
            Err(error) if is_of_device(&error) => {
                eprintln!("error: package `{}`: {error}", records.package.name);
                return Ok(Exit::NoDevice);
            }
            Err(error) => bail!("package `{}`: {error}", records.package.name),
        };
        if !replayed.is_empty() {
            records.package.plan_again()?;
            print!("{}", outcome.table(&replayed, &summary));
        }
        for (task, why) in &summary.skipped {
            println!("{task}: {why}");
        }
        for task in &summary.unreached {
            println!("{task}: not reached within the budget; run `cargo tvmtune upgrade` again");
        }
        Ok(Exit::Done)
    })?;
    outcome.print();
    Ok(exit)
}

/// The outcome for kernels whose code is another one by now.
#[derive(Default)]
struct Outcome {
    /// Lines about kernels that the earlier code ran faster.
    behind: Vec<String>,
    /// The names of kernels that are slower than was recorded.
    slower: Vec<String>,
    /// The number of kernels whose earlier code this machine did not keep.
    n_not_kept: usize,
}

/// Gives schedules that make the same code the identities of this release, and marks those that make other
/// code: their times are not believed any more.
fn carry_over(arguments: &Upgrade) -> Result<()> {
    let (mut n_records, mut n_carried, mut n_replayed) = (0, 0, 0);
    for package in &workspace::packages(&arguments.selection)? {
        let cache = if arguments.shipped { CacheUse::Exclude } else { CacheUse::Include };
        let database = Database::discover(&package.search_dirs(cache));
        for (op, lookup) in PackageRecords::new(package, &database).ops() {
            for found in &lookup.records {
                let (mut migrated, mut marked, mut is_renamed) = (None, Marked::default(), false);
                let changed = database.rewrite(&found.path, |record| {
                    is_renamed = record.workload != found.record.workload;
                    record.workload = found.record.workload;
                    record.dag.clone_from(&found.record.dag);
                    migrated = migrate(record, &op.dag);
                    marked = mark_replayed(record, &op.dag);
                    is_renamed || migrated.is_some() || marked.replayed > 0
                })?;
                let (path, Marked { replayed, broken }) = (shown(&found.path), marked);
                if is_renamed {
                    println!("{path}: an earlier release gave the program another identity");
                }
                n_records += usize::from(changed);
                n_carried += migrated.map_or(0, |it| it.carried);
                n_replayed += replayed;
                if replayed > 0 {
                    println!("{path}: {} replayed", count(replayed, "schedule"));
                }
                if broken > 0 {
                    println!(
                        "{path}: {} of no use: a trace does not apply",
                        count(broken, "schedule")
                    );
                }
            }
        }
        package.plan_again()?;
    }
    let (records, carried) = (count(n_records, "record"), count(n_carried, "schedule"));
    println!("{records}: {carried} carried over, {n_replayed} replayed");
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
            // The time of another default schedule, or of other code, says nothing about this machine's load.
            let default = default_trace(op, it.bucket, it.platform, device);
            let is_default = |entry: &&Entry| {
                entry.platform == it.platform
                    && entry.source == Source::Default
                    && entry.measured_code.is_none()
                    && entry.trace == default
            };
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
            ops.push(OpBuckets::new(op, buckets));
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
    let (limits, variable) = (&records.package.config.budget, std::env::var("TVMTUNE_BUDGET").ok());
    let budget = Budget::COMMAND.resolved(limits, variable.as_deref());
    let budget = budget.unwrap_or(Budget::COMMAND.limited(limits));
    let request =
        Request { package, ops, device, targets, budget, reuse: Reuse::CatchUp, good_enough: None };
    let mut progress = Progress::new();
    let summary = session::run(&request, database, &mut |event| progress.on_event(&event))?;
    Ok((replayed, summary))
}

/// Returns the trace of the default schedule of this release.
fn default_trace(op: &Op, bucket: &[Interval], platform: Platform, device: Target) -> Vec<String> {
    let target = match (device, platform) {
        (Target::Cpu(cpu), Platform::Cpu(isa)) => CpuTarget { isa, ..cpu }.into(),
        _ => device,
    };
    let schedule = default::schedule(&op.dag.specialize(bucket), &target);
    schedule.trace.iter().map(ToString::to_string).collect()
}

/// Returns the position of a bucket.
fn position(op: &Op, bucket: &[Interval]) -> Option<usize> {
    op.buckets.iter().position(|it| it == bucket)
}

impl Outcome {
    /// Returns a row for each schedule that was measured, and notes what became of it.
    fn table(&mut self, replayed: &[Replayed], summary: &Summary) -> Table {
        let header = ["kernel", "extents", "isa", "before", "now", "default", "verdict"];
        let mut table = Table::new(header);
        for it in replayed {
            let Some(result) = summary.results.iter().find(|of| it.is_of(of)) else { continue };
            let verdict = self.verdict(it, result);
            let before_ns = result.former.map(|it| it.ns).or(it.recorded_ns);
            table.row([
                it.name.clone(),
                it.extents.clone(),
                it.platform.to_string(),
                before_ns.map_or_else(|| "-".to_owned(), latency),
                latency(result.best_ns),
                latency(result.default_ns),
                verdict,
            ]);
        }
        table
    }

    /// Compares what is recorded now with the code of the earlier release, or else with its time.
    fn verdict(&mut self, replayed: &Replayed, result: &TaskResult) -> String {
        let Some(former) = result.former else { return self.verdict_by_record(replayed, result) };
        let ratio = result.best_ns / former.ns;
        if former.is_faster {
            let (before, now) = (latency(former.ns), latency(result.best_ns));
            self.behind.push(format!("{}: {before} before, {now} now", result.task));
            return format!("slower, {ratio:.2}x");
        }
        if ratio < FASTER { format!("faster, {ratio:.2}x") } else { "as fast".to_owned() }
    }

    /// Compares multiples of the default schedule, where that was recorded, since clocks differ from day
    /// to day.
    fn verdict_by_record(&mut self, replayed: &Replayed, result: &TaskResult) -> String {
        self.n_not_kept += 1;
        let Some(recorded_ns) = replayed.recorded_ns else { return "measured".to_owned() };
        let drift = replayed.default_ns.map_or(1.0, |it| result.default_ns / it);
        let ratio = result.best_ns / (recorded_ns * drift.min(1.0));
        match result.source {
            _ if ratio > SLOWER => {
                self.slower.push(replayed.name.clone());
                format!("slower than recorded, {ratio:.2}x")
            }
            Source::Default => "the default is as fast as recorded".to_owned(),
            _ => "as fast as recorded".to_owned(),
        }
    }

    /// Says which kernels are slower, and what to do about it.
    fn print(&self) {
        let Self { behind, slower, n_not_kept } = self;
        if *n_not_kept > 0 {
            println!(
                "this machine did not keep the earlier code of {}: compared with recorded times",
                count(*n_not_kept, "kernel")
            );
        }
        if !behind.is_empty() {
            println!(
                "the earlier code of {} is faster than all that was tried; their records count as \
                 unfinished, and builds go on searching:",
                count(behind.len(), "kernel")
            );
        }
        behind.iter().for_each(|it| println!("  {it}"));
        if !behind.is_empty() || !slower.is_empty() {
            println!("run `cargo tvmtune tune -k NAME` to search again where a kernel is slower");
        }
    }
}

impl Replayed {
    /// Tells if that is the result of this schedule's task.
    fn is_of(&self, result: &TaskResult) -> bool {
        let ranges: Vec<Interval> = result.task.dims.iter().map(|(_, range)| *range).collect();
        result.task.program == self.name
            && result.task.platform == self.platform
            && ranges == self.bucket
    }
}
