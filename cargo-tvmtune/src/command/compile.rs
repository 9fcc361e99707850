//! `cargo tvmtune compile`: what kernels become on a GPU, by the compiler alone. Needs NVRTC, no GPU.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_cuda::Generated;
use tvmtune_cuda::codegen::Entry;
use tvmtune_ir::dag::{Dag, Dim};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::GpuTarget;
use tvmtune_schedule::Schedule;
use tvmtune_space::default;
use tvmtune_space::fits::gpu::fits;
use tvmtune_tuner::compile::{Code, Compiler, Nvrtc, Source};
use tvmtune_tuner::cost::gpu::{Estimate, KernelEstimate, estimate_at, rank};
use tvmtune_tuner::parallel::on_all_cores;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use crate::cli::Compile;
use crate::output::{eprintln, print, println};
use crate::render::{Table, count, latency};
use crate::{Exit, records, workspace};

/// One launch of a kernel for one bucket.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    arch: String,
    entry: String,
    threads: u32,
    registers: u32,
    spill_bytes: u32,
    frame_bytes: u32,
    shared_bytes: u32,
    blocks_per_multiprocessor: u32,
    occupancy: f64,
    waves: u64,
    /// None of hand-written kernels, of which the model sees nothing.
    predicted_us: Option<f64>,
    bound: Option<String>,
}

/// A kernel to compile.
struct Job<'a> {
    op: &'a Op,
    bucket: &'a [Interval],
}

pub(crate) fn run(arguments: &Compile) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Exit::NoDevice);
        }
    };
    if let Some(folder) = &arguments.write {
        std::fs::create_dir_all(folder).with_context(|| format!("`{}`", folder.display()))?;
    }
    let ops = packages.iter().flat_map(|it| &it.ops);
    let jobs = ops.flat_map(|op| op.buckets.iter().map(move |bucket| Job { op, bucket }));
    let jobs: Vec<Job<'_>> =
        jobs.filter(|it| records::contains(it.op, it.bucket, &arguments.at)).collect();
    let compiler = Compiler::new(nvrtc, None);
    let (mut lines, mut n_failed) = (Vec::new(), 0);
    for result in on_all_cores(&jobs, |it| compile(it, &compiler, arguments)) {
        match result? {
            Ok(found) => lines.extend(found),
            Err(why) => {
                n_failed += 1;
                eprintln!("error: {why}");
            }
        }
    }
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&lines)?),
        false => print!("{}", table(&lines)),
    }
    if n_failed > 0 {
        eprintln!("{} did not compile", count(n_failed, "kernel"));
        return Ok(Exit::Refused);
    }
    Ok(Exit::Done)
}

/// Schedules that are compiled of those that the model ranks.
const MAX_COMPILED: usize = 8;
/// The seed of random points: results are the same everywhere.
const SEED: u64 = 1;

/// A schedule as code.
pub(super) struct Compiled {
    pub(super) schedule: Schedule,
    pub(super) generated: Generated,
    code: Code,
    /// With the registers that the code uses.
    estimate: Estimate,
}

fn compile(
    job: &Job<'_>,
    compiler: &Compiler<'_>,
    arguments: &Compile,
) -> Result<Result<Vec<Line>, String>> {
    let name = job.op.name();
    let dag = job.op.dag.specialize(job.bucket);
    let compiled = match choose(name, &dag, compiler, arguments) {
        Ok(compiled) => compiled,
        Err(why) => {
            return Ok(Err(format!("{name} [{}]: {why}", records::extents(job.op, job.bucket))));
        }
    };
    if let Some(folder) = &arguments.write {
        let file = format!("{name}-{}", compiled.generated.artifact.0.short());
        write(folder, &file, &compiled.generated.unit.source, &compiled.code)
            .with_context(|| format!("`{}`", folder.display()))?;
    }
    Ok(Ok(lines(job, arguments.target, &compiled)))
}

/// Compiles the default schedule; or, of those that the model ranks first, the best one with its real
/// registers.
pub(super) fn choose(
    name: &str,
    dag: &Dag,
    compiler: &Compiler<'_>,
    arguments: &Compile,
) -> Result<Compiled, String> {
    let target = arguments.target;
    let Some(n) = arguments.best else {
        let schedule = default::schedule(dag, &target.into());
        return code_of(name, &schedule, compiler, arguments);
    };
    let space = Space::new(dag, &target.into());
    let ranking = rank(dag, &target, &space, n, MAX_COMPILED, &mut Random::new(SEED));
    let (mut best, mut refused): (Option<Compiled>, _) = (None, None);
    for ranked in &ranking.best {
        let schedule = Schedule::replay(dag, &space.instructions(&ranked.point));
        let schedule = schedule.map_err(|it| it.to_string())?;
        match code_of(name, &schedule, compiler, arguments) {
            Ok(compiled) if compiled.spills() => refused = Some("registers spill".to_owned()),
            Ok(compiled)
                if best.as_ref().is_some_and(|it| it.estimate.ns <= compiled.estimate.ns) => {}
            Ok(compiled) => best = Some(compiled),
            Err(why) => refused = Some(why),
        }
    }
    let dropped = || {
        let reason = |(it, n): (&&str, &usize)| format!("{it} {n}");
        let reasons: Vec<String> = ranking.dropped.iter().map(reason).collect();
        format!("no schedule of {} fits: {}", ranking.n_points, reasons.join(", "))
    };
    best.ok_or_else(|| refused.unwrap_or_else(dropped))
}

fn code_of(
    name: &str,
    schedule: &Schedule,
    compiler: &Compiler<'_>,
    Compile { target, at: extents, .. }: &Compile,
) -> Result<Compiled, String> {
    let generated = tvmtune_cuda::generate(schedule).map_err(|it| it.to_string())?;
    let misfits = fits(&generated.grid, target).err().unwrap_or_default();
    if let Some(misfit) = misfits.into_iter().find(|it| !it.runs()) {
        return Err(format!("it does not fit {}: {misfit}", target.arch));
    }
    let arch = target.arch.to_string();
    let text = &generated.unit.source;
    let source = Source { name: &format!("{name}.cu"), text, arch: &arch, options: &[] };
    let code = compiler.compile(&source).map_err(|it| it.to_string())?;
    code.check_launches(&generated).map_err(|it| it.to_string())?;
    let registers = |it: &Entry| code.usage(&it.name).map_or(0, |it| it.registers);
    let registers: Vec<u32> = generated.unit.entries.iter().map(registers).collect();
    let extent = |dim: &Dim| {
        let given = extents.iter().find(|(name, _)| *name == dim.name);
        given.map_or(dim.range.hi, |it| it.1)
    };
    let dims: Vec<i64> = generated.grid.dims.iter().map(extent).collect();
    let estimate = estimate_at(&generated.grid, target, &dims, &registers);
    let schedule = schedule.clone();
    Ok(Compiled { schedule, generated, code, estimate })
}

impl Compiled {
    /// Tells if a kernel spills registers.
    fn spills(&self) -> bool {
        self.code
            .kernels
            .iter()
            .any(|it| it.frame_bytes > 0 || it.spill_store_bytes > 0 || it.spill_load_bytes > 0)
    }
}

fn write(folder: &Path, name: &str, source: &str, code: &Code) -> std::io::Result<()> {
    std::fs::write(folder.join(format!("{name}.cu")), source)?;
    std::fs::write(folder.join(format!("{name}.ptx")), &code.ptx)?;
    std::fs::write(folder.join(format!("{name}.cubin")), &code.cubin)
}

fn lines(job: &Job<'_>, target: GpuTarget, compiled: &Compiled) -> Vec<Line> {
    let Compiled { generated, code, estimate, .. } = compiled;
    let limits = target.arch.limits();
    let is_modelled = generated.grid.hand_written.is_none();
    let line = |(entry, estimate): (&Entry, &KernelEstimate)| {
        let usage = code.usage(&entry.name)?;
        let blocks = estimate.occupancy;
        Some(Line {
            name: job.op.name().to_owned(),
            extents: records::extents(job.op, job.bucket),
            arch: target.arch.to_string(),
            entry: entry.name.clone(),
            threads: entry.n_threads(),
            registers: usage.registers,
            spill_bytes: usage.spill_store_bytes.max(usage.spill_load_bytes),
            frame_bytes: usage.frame_bytes,
            shared_bytes: entry.shared_bytes,
            blocks_per_multiprocessor: blocks,
            occupancy: f64::from(blocks * entry.n_threads()) / f64::from(limits.threads),
            waves: estimate.waves,
            predicted_us: is_modelled.then_some(estimate.ns / 1e3),
            bound: is_modelled.then(|| estimate.bound.to_string()),
        })
    };
    generated.unit.entries.iter().zip(&estimate.kernels).filter_map(line).collect()
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new([
        "kernel",
        "extents",
        "entry",
        "threads",
        "registers",
        "spills",
        "frame",
        "shared",
        "occupancy",
        "waves",
        "predicted",
        "bound",
    ]);
    for it in lines {
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.entry.clone(),
            it.threads.to_string(),
            it.registers.to_string(),
            it.spill_bytes.to_string(),
            it.frame_bytes.to_string(),
            it.shared_bytes.to_string(),
            format!("{:.0} %", it.occupancy * 100.0),
            it.waves.to_string(),
            it.predicted_us.map_or("-".to_owned(), |us| latency(us * 1e3)),
            it.bound.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}
