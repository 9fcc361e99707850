//! `cargo tvmtune buckets`: the fewest buckets that are good enough at the extents of an application.
//!
//! All recorded schedules of a kernel are timed at all extents that occur in a profile, beside the default
//! ones. A schedule is timed as the code of its own bucket, which is extended to the extent if that lies
//! outside of it.

use anyhow::{Result, bail};
use tvmtune_build::op::Op;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::dsl::Residence;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_plan::database::{Database, Lookup};
use tvmtune_plan::record::{KEPT_PER_ISA, Source};
use tvmtune_schedule::Instruction;
use tvmtune_space::{default, operands};
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::tune::{self, Bench, Bucket, Workload};

use crate::Exit;
use crate::cli::Buckets;
use crate::device_plan::{self, LOCK_LIMIT, for_each_device};
use crate::output::{eprintln, print, println};
use crate::profile::proposal::{Points, Proposal, Times};
use crate::profile::runs::{Runs, is_inside};
use crate::records::PackageRecords;
use crate::render::{Table, count, latency};

/// Number of timings of each schedule at each extent in a pass; those of one bucket alternate.
const ROUNDS: usize = 7;
/// Number of passes over all buckets, of which the fastest counts: schedules of different buckets are timed one
/// after the other, and the machine may be slower meanwhile.
const PASSES: usize = 3;

/// A schedule of an op.
struct Candidate {
    /// The bucket that it was made for.
    bucket: Vec<Interval>,
    trace: Vec<Instruction>,
    source: &'static str,
}

/// The schedules of an op on a device.
struct Candidates {
    all: Vec<Candidate>,
    /// For each bucket of the op, the position of the schedule that a build has.
    built: Vec<usize>,
}

pub(crate) fn run(arguments: &Buckets) -> Result<Exit> {
    let runs = Runs::read(&arguments.file)?;
    let mut proposals = Vec::new();
    let exit =
        for_each_device(&arguments.selection, arguments.target, |records, database, device| {
            let Some(lock) = lock(database, &device)? else { return Ok(Exit::NoDevice) };
            runs.compare(records.ops().map(|it| it.0));
            for (op, lookup) in records.ops() {
                match propose((op, lookup), records, (device, &lock), (&runs, arguments)) {
                    Ok(found) => proposals.extend(found),
                    Err(why) => eprintln!("no buckets for `{}`: {why}", op.name()),
                }
            }
            Ok(Exit::Done)
        })?;
    if exit != Exit::Done {
        return Ok(exit);
    }
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&proposals)?),
        false => print!("{}", text(&proposals)),
    }
    Ok(Exit::Done)
}

/// Locks a device; `None`, with an error on standard error, if others keep it.
fn lock(database: &Database, device: &Target) -> Result<Option<MachineLock>> {
    let Some(cache) = database.cache() else {
        bail!("there is no folder for locks; set `TVMTUNE_CACHE` to one");
    };
    let lock = MachineLock::of_device(cache, device, LOCK_LIMIT);
    Ok(lock.inspect_err(|error| eprintln!("error: {error}")).ok())
}

/// Times the schedules of an op at the extents of a profile; returns the buckets that follow, none if it did
/// not run or nothing varies.
fn propose(
    (op, lookup): (&Op, &Lookup),
    records: &PackageRecords<'_>,
    (device, lock): (Target, &MachineLock),
    (runs, arguments): (&Runs, &Buckets),
) -> Result<Option<Proposal>, String> {
    let most = usize::from(arguments.extents);
    let Some(points) = Points::of(op, runs, most)? else { return Ok(None) };
    let Candidates { all, built } = candidates((op, lookup), records, device)?;
    let workload = OpBuckets::new(op, Vec::new()).workload();
    let mut of_schedules = vec![Vec::new(); all.len()];
    for extents in &points.extents {
        let times = times(&workload, &all, extents, (device, lock))?;
        of_schedules.iter_mut().zip(times).for_each(|it| it.0.push(it.1));
    }
    let bucket = |extents: &Vec<i64>| op.buckets.iter().position(|it| is_inside(extents, it));
    let built = points.extents.iter().map(|it| bucket(it).map_or(0, |n| built[n])).collect();
    let origins = all.into_iter().map(|it| (it.bucket, it.source)).collect();
    let times = Times { of_schedules, origins, built };
    let platform = device.platform().to_string();
    let found = Proposal::new((op, &platform), &points, &times, arguments.within / 100.0);
    found.map(Some).ok_or_else(|| "no schedule could be timed at some of its extents".to_owned())
}

/// Returns the schedules of an op: what a build has in each bucket, default ones, and the best recorded ones.
fn candidates(
    (op, lookup): (&Op, &Lookup),
    records: &PackageRecords<'_>,
    device: Target,
) -> Result<Candidates, String> {
    let mut found = Candidates { all: Vec::new(), built: Vec::new() };
    let isas: Vec<Isa> = match device {
        Target::Cpu(cpu) => vec![cpu.isa],
        Target::Gpu(_) => Vec::new(),
    };
    let variants = device_plan::variants(op, lookup, device, &isas, records.limits());
    for bucket in &op.buckets {
        let default = default::schedule(&op.dag.specialize(bucket), &device).trace;
        let variant = variants.iter().find(|it| it.bucket == bucket);
        let choice = variant.and_then(|it| it.choice);
        let trace = match variant.map(|it| it.trace.clone()) {
            Some(trace) => trace.map_err(|it| it.to_string())?,
            None => None,
        };
        let source = choice.map_or(Source::Default, |it| it.entry.source).name();
        let built = found.add(bucket, trace.unwrap_or_else(|| default.clone()), source);
        found.built.push(built);
        found.add(bucket, default, Source::Default.name());
    }
    for bucket in lookup.records.iter().flat_map(|it| &it.record.buckets) {
        if bucket.dims.len() != op.dag.dims.len() {
            continue;
        }
        let entries = bucket.schedules.iter().filter(|it| it.platform == device.platform());
        for entry in entries.take(KEPT_PER_ISA) {
            // What does not parse is said by `cargo tvmtune verify`.
            let trace = entry.trace.iter().map(|it| it.parse().ok()).collect();
            let Some(trace) = trace else { continue };
            found.add(&bucket.dims, trace, entry.source.name());
        }
    }
    Ok(found)
}

impl Candidates {
    /// Adds a schedule, unless it is there; returns its position.
    fn add(&mut self, bucket: &[Interval], trace: Vec<Instruction>, source: &'static str) -> usize {
        let mut all = self.all.iter();
        all.position(|it| it.bucket == bucket && it.trace == trace).unwrap_or_else(|| {
            self.all.push(Candidate { bucket: bucket.to_vec(), trace, source });
            self.all.len() - 1
        })
    }
}

/// Returns the time of each schedule at some extents, in ns; infinite where it does not work.
fn times(
    workload: &Workload,
    all: &[Candidate],
    extents: &[i64],
    (device, lock): (Target, &MachineLock),
) -> Result<Vec<f64>, String> {
    let workload = &with_operands_of(workload, extents, &device);
    let mut times = vec![f64::INFINITY; all.len()];
    for _ in 0..PASSES {
        let pass = times_of_pass(workload, all, extents, (device, lock))?;
        times.iter_mut().zip(pass).for_each(|it| *it.0 = it.0.min(it.1));
    }
    Ok(times)
}

/// Returns the time of each schedule in one pass.
fn times_of_pass(
    workload: &Workload,
    all: &[Candidate],
    extents: &[i64],
    (device, lock): (Target, &MachineLock),
) -> Result<Vec<f64>, String> {
    let mut times = vec![f64::INFINITY; all.len()];
    let mut left: Vec<usize> = (0..all.len()).collect();
    while let Some(first) = left.first() {
        let ranges = extended(&all[*first].bucket, extents);
        let (alike, others): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|it| extended(&all[**it].bucket, extents) == ranges);
        let traces: Vec<_> = alike.iter().map(|it| all[*it].trace.clone()).collect();
        let bucket = Bucket { workload, ranges: &ranges };
        let outcomes = tune::bench(
            &Bench { bucket, dims: Some(extents), target: device, rounds: ROUNDS },
            &traces,
            WorkerCommand::this_executable().map_err(|it| it.to_string())?,
            lock,
        );
        for (n, outcome) in alike.iter().zip(outcomes.map_err(|it| it.to_string())??) {
            times[*n] = outcome.timing().map_or(f64::INFINITY, |it| it.typical_ns());
        }
        left = others;
    }
    Ok(times)
}

/// Returns a workload whose operands lie where launches with these extents find them: by default a bucket's
/// largest extents tell, and the same launch would be timed in two ways.
fn with_operands_of(workload: &Workload, extents: &[i64], device: &Target) -> Workload {
    let cold = operands::cold(&workload.dag, extents, &workload.residence, device);
    let residence = |is_cold| Some(if is_cold { Residence::Cold } else { Residence::Warm });
    Workload { residence: cold.into_iter().map(residence).collect(), ..workload.clone() }
}

/// Returns a bucket that is just large enough to hold some extents as well.
fn extended(bucket: &[Interval], extents: &[i64]) -> Vec<Interval> {
    let both = bucket.iter().zip(extents);
    both.map(|(range, it)| Interval { lo: range.lo.min(*it), hi: range.hi.max(*it) }).collect()
}

/// Formats the buckets, and what each of them costs.
fn text(proposals: &[Proposal]) -> String {
    if proposals.is_empty() {
        return "nothing to choose: no kernel with a range of extents ran\n".to_owned();
    }
    let mut table = Table::new([
        "kernel",
        "isa",
        "bucket",
        "extents",
        "launches",
        "schedule",
        "over the fastest",
    ]);
    let mut lines = String::new();
    for it in proposals {
        for bucket in &it.buckets {
            let range = |[lo, hi]: [i64; 2]| format!("{} {lo}..={hi}", it.dim);
            table.row([
                it.name.clone(),
                it.isa.clone(),
                range(bucket.range),
                bucket.extents.len().to_string(),
                bucket.launches.to_string(),
                format!("of {} ({})", range(bucket.schedule_of), bucket.source),
                format!("{:.1} % at {}", bucket.worst * 100.0, bucket.worst_extent),
            ]);
        }
        lines += &summary(it);
    }
    format!("{table}\n{lines}")
}

/// Formats the buckets of an op as its attribute has them, and the time of all its launches.
fn summary(it: &Proposal) -> String {
    let us = |it: f64| latency(it * 1e3);
    let now = it.now_us.map_or_else(|| "no time".to_owned(), us);
    let mut text = format!(
        "{}: buckets({dim} = {:?}), by now {:?}; the launches take {} ({now} by now, {} with the fastest of \
         {} at each extent)\n",
        it.name,
        it.ends,
        it.ends_now,
        us(it.proposed_us),
        us(it.fastest_us),
        count(it.schedules, "schedule"),
        dim = it.dim,
    );
    if it.left_out > 0.0 {
        let share = it.left_out * 100.0;
        text +=
            &format!("  extents with {share:.1} % of its time were not timed; see `--extents`\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_extended_as_far_as_needed() {
        let bucket = [Interval { lo: 9, hi: 64 }, Interval { lo: 1, hi: 4 }];
        let extended = |extents: [i64; 2]| {
            extended(&bucket, &extents).iter().map(|it| [it.lo, it.hi]).collect::<Vec<_>>()
        };
        assert_eq!(extended([10, 4]), [[9, 64], [1, 4]]);
        assert_eq!(extended([2, 7]), [[2, 64], [1, 7]]);
    }
}
