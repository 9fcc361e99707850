//! `cargo tvmtune compile`: what kernels become on a GPU, by the compiler alone. Needs NVRTC, no GPU.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anstream::{print, println};
use anyhow::{Context, Result};
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_core::codegen::{self, GeneratedCuda};
use tvmtune_core::poly::Interval;
use tvmtune_core::schedule::default;
use tvmtune_core::target::GpuTarget;

use tvmtune_tuner::compile::{Code, Compiler, Nvrtc, Source};

use crate::Exit;
use crate::cli::Compile;
use crate::known;
use crate::render::{Table, count};
use crate::workspace;

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
    let jobs: Vec<Job<'_>> =
        ops.flat_map(|op| op.buckets.iter().map(move |bucket| Job { op, bucket })).collect();
    let mut results = compile_all(&jobs, Compiler::new(nvrtc, None), arguments)?;
    results.sort_by_key(|it| it.0);
    let (mut lines, mut n_failed) = (Vec::new(), 0);
    for (_, result) in results {
        match result {
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

type Compiled = (usize, Result<Vec<Line>, String>);

/// Compiles on all cores.
fn compile_all(
    jobs: &[Job<'_>],
    compiler: Compiler<'_>,
    arguments: &Compile,
) -> Result<Vec<Compiled>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(n) else { return Ok(()) };
            let result = compile(job, &compiler, arguments)?;
            results.lock().expect("no one panics while holding it").push((n, result));
        }
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|it| it.join().expect("workers return their errors"))
    })?;
    Ok(results.into_inner().expect("no one panics while holding it"))
}

fn compile(
    job: &Job<'_>,
    compiler: &Compiler<'_>,
    arguments: &Compile,
) -> Result<Result<Vec<Line>, String>> {
    let target = arguments.target;
    let name = job.op.name();
    let schedule = default::schedule(&job.op.dag.narrow(job.bucket), &target.into());
    let place = || format!("{name} [{}]", known::extents(job.op, job.bucket));
    let generated = match codegen::generate_cuda(&schedule) {
        Ok(generated) => generated,
        Err(why) => return Ok(Err(format!("{}: {why}", place()))),
    };
    let arch = target.arch.to_string();
    let text = &generated.unit.source;
    let source = Source { name: &format!("{name}.cu"), text, arch: &arch, options: &[] };
    let code = match compiler.compile(&source) {
        Ok(code) => code,
        Err(why) => return Ok(Err(format!("{}: {why}", place()))),
    };
    if let Some(folder) = &arguments.write {
        let file = format!("{name}-{}", &generated.artifact.0[..12]);
        write(folder, &file, text, &code).with_context(|| format!("`{}`", folder.display()))?;
    }
    Ok(Ok(lines(job, target, &generated, &code)))
}

fn write(folder: &Path, name: &str, source: &str, code: &Code) -> std::io::Result<()> {
    std::fs::write(folder.join(format!("{name}.cu")), source)?;
    std::fs::write(folder.join(format!("{name}.ptx")), &code.ptx)?;
    std::fs::write(folder.join(format!("{name}.cubin")), &code.cubin)
}

fn lines(job: &Job<'_>, target: GpuTarget, generated: &GeneratedCuda, code: &Code) -> Vec<Line> {
    let limits = target.arch.limits();
    let line = |entry: &codegen::cuda::Entry| {
        let usage = code.usage(&entry.name)?;
        let blocks = target.occupancy(entry.threads, usage.registers, entry.shared_bytes);
        Some(Line {
            name: job.op.name().to_owned(),
            extents: known::extents(job.op, job.bucket),
            arch: target.arch.to_string(),
            entry: entry.name.clone(),
            threads: entry.threads,
            registers: usage.registers,
            spill_bytes: usage.spill_store_bytes.max(usage.spill_load_bytes),
            frame_bytes: usage.frame_bytes,
            shared_bytes: entry.shared_bytes,
            blocks_per_multiprocessor: blocks,
            occupancy: f64::from(blocks * entry.threads) / f64::from(limits.threads),
        })
    };
    generated.unit.entries.iter().filter_map(line).collect()
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
        ]);
    }
    table
}
