//! `cargo tvmtune verify --bits`: kernels with fixed numerics have the bits of their definition by every schedule
//! in the database and by default ones, on every instruction set and on several numbers of threads.

use std::num::NonZero;

use anyhow::Result;
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::dag::Numerics;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa, Platform};
use tvmtune_plan::database::{CacheUse, Lookup};
use tvmtune_plan::device;
use tvmtune_schedule::Instruction;
use tvmtune_space::default;
use tvmtune_tuner::measure::{Measurer, WorkerCommand};
use tvmtune_tuner::tune;

use crate::cli::Verify;
use crate::output::println;
use crate::records::{self, PackageRecords};
use crate::render::{Table, count};
use crate::{Exit, workspace};

/// The variable that says how many threads a worker has.
const THREADS: &str = "TVMTUNE_THREADS";

/// The result of running a schedule on a number of threads.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    isa: &'static str,
    /// `default`, or the file of a record.
    schedule: String,
    threads: usize,
    /// The extents at which it was run.
    places: usize,
    /// The first difference, or the reason why it did not run; none if all bits are those of the definition.
    refusal: Option<String>,
}

/// A schedule of a kernel for one of its buckets.
struct Candidate {
    isa: Isa,
    /// `default`, or the file of a record.
    name: String,
    /// The steps, or the reason why there are none.
    trace: Result<Vec<Instruction>, String>,
}

/// The number of kernels of each kind.
#[derive(Default)]
struct Kernels {
    /// With fixed numerics and machine code.
    fixed: usize,
    /// With fixed numerics, and portable code alone, which is part of the application.
    portable: usize,
    /// With free numerics.
    free: usize,
}

/// Workers with that many threads.
struct Workers {
    threads: usize,
    measurer: Measurer,
}

pub(super) fn run(arguments: &Verify) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let mut workers = workers()?;
    let mut lines = Vec::new();
    let mut kernels = Kernels::default();
    for package in &packages {
        let cache = if arguments.shipped { CacheUse::Exclude } else { CacheUse::Include };
        let records = PackageRecords::discover(package, cache);
        for (op, lookup) in records.ops() {
            if op.dag.numerics == Numerics::Free {
                kernels.free += 1;
                continue;
            }
            let n_before = lines.len();
            for bucket in &op.buckets {
                for candidate in candidates(op, bucket, lookup) {
                    lines.extend(of_candidate(op, bucket, &candidate, &mut workers)?);
                }
            }
            let has_run = lines.len() > n_before;
            *if has_run { &mut kernels.fixed } else { &mut kernels.portable } += 1;
        }
    }
    let n_refused = lines.iter().filter(|it| it.refusal.is_some()).count();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
    } else {
        if n_refused > 0 {
            println!("{}", table(&lines));
        }
        println!("{}", summary(&lines, &kernels, &workers));
    }
    Ok(if n_refused == 0 { Exit::Done } else { Exit::Refused })
}

/// Workers with one thread, two, three, and as many as the machine has.
fn workers() -> Result<Vec<Workers>> {
    let all = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut counts = vec![1, 2, 3, all];
    counts.sort_unstable();
    counts.dedup();
    let command = WorkerCommand::this_executable()?;
    let of = |threads: usize| {
        let command = command.clone().env(THREADS, threads.to_string());
        Workers { threads, measurer: Measurer::new(command) }
    };
    Ok(counts.into_iter().map(of).collect())
}

/// Returns the schedules of a kernel for a bucket that this machine runs: default ones that have machine code, and
/// recorded ones.
fn candidates(op: &Op, bucket: &[Interval], lookup: &Lookup) -> Vec<Candidate> {
    let mut found = Vec::new();
    let dag = op.dag.specialize(bucket);
    for isa in device::isas() {
        let schedule = default::schedule(&dag, &CpuTarget::generic(isa).into());
        if tvmtune_cpu::generate(&schedule, isa).is_ok() {
            found.push(Candidate { isa, name: "default".to_owned(), trace: Ok(schedule.trace) });
        }
        for stored in &lookup.records {
            let buckets = stored.record.buckets.iter().filter(|it| it.dims == bucket);
            let entries = buckets.flat_map(|it| &it.schedules);
            for entry in entries.filter(|it| it.platform == Platform::Cpu(isa)) {
                let step = |it: &String| it.parse().map_err(|it| format!("{it}"));
                let trace = entry.trace.iter().map(step).collect();
                let name = stored.path.display().to_string();
                found.push(Candidate { isa, name, trace });
            }
        }
    }
    found
}

/// Runs a schedule on each number of threads.
fn of_candidate(
    op: &Op,
    bucket: &[Interval],
    candidate: &Candidate,
    workers: &mut [Workers],
) -> Result<Vec<Line>> {
    let workload = OpBuckets::new(op, Vec::new()).workload();
    let target = CpuTarget::generic(candidate.isa).into();
    let mut lines = Vec::new();
    for Workers { threads, measurer } in workers {
        let of_bucket = tune::Bucket { workload: &workload, ranges: bucket };
        let ran = match &candidate.trace {
            Ok(trace) => tune::verify(of_bucket, target, trace, measurer)?,
            Err(why) => Err(why.clone()),
        };
        lines.push(Line {
            name: op.name().to_owned(),
            extents: records::extents(op, bucket),
            isa: candidate.isa.name(),
            schedule: candidate.name.clone(),
            threads: *threads,
            places: *ran.as_ref().unwrap_or(&0),
            refusal: ran.err(),
        });
    }
    Ok(lines)
}

fn summary(lines: &[Line], kernels: &Kernels, workers: &[Workers]) -> String {
    let n_schedules = lines.len() / workers.len();
    let others = lines.iter().filter(|it| it.refusal.is_some()).count();
    let isas: Vec<&str> = device::isas().into_iter().map(Isa::name).collect();
    let threads: Vec<String> = workers.iter().map(|it| it.threads.to_string()).collect();
    let (isas, threads) = (isas.join(", "), threads.join(", "));
    let left_out = |n: usize, kind: &str| match n {
        0 => String::new(),
        n => format!("; {} with {kind} left out", count(n, "kernel")),
    };
    let free = left_out(kernels.free, "free numerics");
    let portable = left_out(kernels.portable, "portable code alone");
    format!(
        "{} of {} with fixed numerics, on {isas}, with {threads} threads: {others} runs with other bits than \
         the definition's{free}{portable}",
        count(n_schedules, "schedule"),
        count(kernels.fixed, "kernel"),
    )
}

/// Returns the runs with other bits.
fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(["kernel", "extents", "isa", "schedule", "threads", "difference"]);
    for it in lines {
        let Some(refusal) = &it.refusal else { continue };
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.isa.to_owned(),
            it.schedule.clone(),
            it.threads.to_string(),
            refusal.clone(),
        ]);
    }
    table
}
