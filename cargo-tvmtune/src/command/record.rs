//! `cargo tvmtune compile --record`: kernels for a GPU that need not be here, prepared to be shipped.

use std::sync::Mutex;

use anstream::println;
use anyhow::Result;
use tvmtune_build::op::Op;
use tvmtune_build::tune::session::provenance;
use tvmtune_core::codegen;
use tvmtune_core::poly::Interval;
use tvmtune_core::record::{Bucket, End, Entry, GENERATOR, Record, Source, schema};
use tvmtune_core::schedule::default;
use tvmtune_core::target::GpuTarget;
use tvmtune_tuner::compile::{Compiler, Nvrtc};
use tvmtune_tuner::database::{Database, Files};

use crate::Exit;
use crate::cli::Compile;
use crate::known;
use crate::render::count;
use crate::workspace;

/// Compiles the default schedules of all kernels, and puts them into the user's cache.
pub(crate) fn run(arguments: &Compile) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Exit::NoDevice);
        }
    };
    let compiler = Compiler::new(nvrtc, None);
    let (mut n_recorded, mut n_failed) = (0, 0);
    for package in &packages {
        let database = Database::discover(&package.places(false));
        for result in on_all_cores(&package.ops, |op| record(op, arguments.target, &compiler)) {
            match result {
                Ok((record, files)) => {
                    database.put(&record, &files)?;
                    n_recorded += 1;
                }
                Err(why) => {
                    eprintln!("error: {why}");
                    n_failed += 1;
                }
            }
        }
    }
    println!("{} recorded for {}", count(n_recorded, "kernel"), arguments.target.arch);
    if n_failed > 0 {
        eprintln!("{} did not compile", count(n_failed, "kernel"));
        return Ok(Exit::Refused);
    }
    println!("`cargo tvmtune accept` moves them into the crate");
    Ok(Exit::Done)
}

/// What a function makes of each, in order.
fn on_all_cores<T: Sync, R: Send>(items: &[T], function: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (todo, done) = (Mutex::new(items.iter().enumerate()), Mutex::new(Vec::new()));
    let work = || {
        let next = || todo.lock().expect("no one panics while holding it").next();
        while let Some((n, item)) = next() {
            let result = function(item);
            done.lock().expect("no one panics while holding it").push((n, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().expect("no one panics while holding it");
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The record of an op for a GPU: the default schedule of each bucket, compiled.
fn record(op: &Op, target: GpuTarget, compiler: &Compiler<'_>) -> Result<(Record, Files), String> {
    let mut files = Files::default();
    let mut bucket = |ranges: &Vec<Interval>| {
        let entry = entry(op, ranges, target, compiler, &mut files);
        let place = || format!("{} [{}]", op.name(), known::extents(op, ranges));
        let schedules = vec![entry.map_err(|why| format!("{}: {why}", place()))?];
        Ok(Bucket { dims: ranges.clone(), schedules, ..Bucket::default() })
    };
    let buckets = op.buckets.iter().map(&mut bucket).collect::<Result<_, String>>()?;
    let record = Record {
        schema: schema(&target.key()),
        workload: op.id.to_string(),
        name: op.name().to_owned(),
        device: target.key(),
        generator: GENERATOR,
        dag: op.text.clone(),
        provenance: provenance(),
        buckets,
        end: End {},
    };
    Ok((record, files))
}

fn entry(
    op: &Op,
    bucket: &[Interval],
    target: GpuTarget,
    compiler: &Compiler<'_>,
    files: &mut Files,
) -> Result<Entry, String> {
    let schedule = default::schedule(&op.dag.narrow(bucket), &target.into());
    let generated = codegen::generate_cuda(&schedule).map_err(|it| it.to_string())?;
    let source = (&*format!("{}.cu", op.name()), &*generated.unit.source);
    let images = compiler.images(source, target.arch, files).map_err(|it| it.to_string())?;
    Ok(Entry {
        platform: target.arch.into(),
        artifact: generated.artifact.0,
        source: Source::Default,
        trace: schedule.trace.iter().map(ToString::to_string).collect(),
        measured: None,
        lineage: Vec::new(),
        images,
    })
}
