//! `cargo tvmtune emulate`: hand-written kernels on the emulator, against their definition. Needs NVRTC,
//! no GPU.
//!
//! Each setting of the knobs is compiled with line information and run at the least extents of a bucket
//! and at odd ones that are small enough. A wrong result, a race, a missing barrier or an access out of
//! bounds is an error by the line of the author's file. Settings that are right are listed by an estimate
//! of the cycles that a multiprocessor takes for what they execute: see [`cycles`].

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_cuda::Generated;
use tvmtune_cuda::codegen::Entry;
use tvmtune_emulator::{Module, Options, Report};
use tvmtune_ir::dag::{Dag, KernelTemplate};
use tvmtune_ir::interp::Mismatch;
use tvmtune_ir::poly::Interval;
use tvmtune_schedule::Schedule;
use tvmtune_space::fits::gpu::fits;
use tvmtune_tuner::compile::{Compiler, LINES, Nvrtc, Source};
use tvmtune_tuner::definition::Definition;
use tvmtune_tuner::measure::CaseSpec;
use tvmtune_tuner::parallel::on_all_cores;

use crate::cli::Emulate;
use crate::cycles::{self, Cycles, Resources};
use crate::output::{eprintln, print, println};
use crate::render::{Table, count};
use crate::{Exit, emulate, records, workspace};

/// Settings that are run at most.
const MAX_SETTINGS: usize = 256;
/// Iterations of the definition, and elements of tensors, at extents that nobody chose.
const MAX_WORK: f64 = 4e6;
/// The seed of arguments: results are the same everywhere.
const SEED: u64 = 1;

/// One setting of a kernel's knobs, for one bucket.
#[derive(Serialize)]
struct Line {
    name: String,
    extents: String,
    setting: String,
    /// None if it is right.
    error: Option<String>,
    /// Of the launches at the largest extents that were run.
    #[serde(flatten)]
    counts: Cycles,
}

/// A setting to run.
struct Job<'a> {
    op: &'a Op,
    definition: &'a Definition,
    dag: Arc<Dag>,
    template: &'a KernelTemplate,
    bucket: &'a [Interval],
    values: Vec<u64>,
}

pub(crate) fn run(arguments: &Emulate) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Exit::NoDevice);
        }
    };
    let ops = packages.iter().flat_map(|it| &it.ops).map(|it| (it, Definition::default()));
    let ops: Vec<(&Op, Definition)> = ops.collect();
    let mut jobs = Vec::new();
    for (op, definition) in &ops {
        let Some(template) = &op.dag.kernel_template else { continue };
        for bucket in op.buckets.iter().filter(|it| records::contains(op, it, &arguments.at)) {
            let dag = Arc::new(op.dag.specialize(bucket));
            let job = |values| Job { op, definition, dag: dag.clone(), template, bucket, values };
            jobs.extend(settings(template, arguments.all).into_iter().map(job));
        }
    }
    if jobs.is_empty() {
        bail!(
            "no kernel here is hand-written: name the file of one by `template = \"kernels/name.cu\"` in its \
             attribute"
        );
    }
    let compiler = Compiler::new(nvrtc, None);
    let mut lines = on_all_cores(&jobs, |it| line(it, &compiler, arguments));
    let is_right = |it: &Line| it.error.is_none();
    lines.sort_by(|a, b| {
        let place = |it: &Line| (it.name.clone(), it.extents.clone(), !is_right(it));
        place(a).cmp(&place(b)).then(a.counts.cycles.total_cmp(&b.counts.cycles))
    });
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&lines)?),
        false => print!("{}", table(&lines)),
    }
    let n_wrong = lines.iter().filter(|it| !is_right(it)).count();
    let mut said = BTreeSet::new();
    for it in &lines {
        // A mistake of the file is an error of every setting: it is printed once.
        if let Some(error) = it.error.as_ref().filter(|it| said.insert(*it)) {
            eprintln!("error: {} [{}] with {}: {error}", it.name, it.extents, it.setting);
        }
    }
    if n_wrong == 0 {
        return Ok(Exit::Done);
    }
    eprintln!("{} of {} failed", n_wrong, count(lines.len(), "setting"));
    Ok(Exit::Refused)
}

/// The settings to run: the default first.
fn settings(template: &KernelTemplate, all: bool) -> Vec<Vec<u64>> {
    let default = template.default_values();
    let mut found = vec![default.clone()];
    if all {
        let mut every = vec![Vec::new()];
        for knob in &template.knobs {
            let with = |it: &Vec<u64>| {
                let it = it.clone();
                knob.values.iter().map(move |value| [it.as_slice(), &[*value]].concat())
            };
            every = every.iter().flat_map(with).take(MAX_SETTINGS * MAX_SETTINGS).collect();
        }
        found.extend(every);
    } else {
        for (n, knob) in template.knobs.iter().enumerate() {
            let with = |value: &u64| {
                let mut values = default.clone();
                values[n] = *value;
                values
            };
            found.extend(knob.values[1..].iter().map(with));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|it| template.allows(it) && seen.insert(it.clone()));
    found.truncate(MAX_SETTINGS);
    found
}

fn line(job: &Job<'_>, compiler: &Compiler<'_>, arguments: &Emulate) -> Line {
    let setting = job.template.setting(&job.values);
    let setting = if setting.is_empty() { "-".to_owned() } else { setting };
    let counts = counts(job, compiler, arguments);
    Line {
        name: job.op.name().to_owned(),
        extents: records::extents(job.op, job.bucket),
        setting,
        error: counts.as_ref().err().cloned(),
        counts: counts.unwrap_or_default(),
    }
}

/// Compiles and runs a setting at each of some extents; returns the counts at the last ones.
fn counts(job: &Job<'_>, compiler: &Compiler<'_>, arguments: &Emulate) -> Result<Cycles, String> {
    let mut schedule = Schedule::new(&job.dag);
    schedule.set_knobs(&job.values).map_err(|it| it.to_string())?;
    let generated = tvmtune_cuda::generate(&schedule).map_err(|it| it.to_string())?;
    let target = arguments.target;
    let misfits = fits(&generated.grid, &target).err().unwrap_or_default();
    if let Some(misfit) = misfits.into_iter().find(|it| !it.runs()) {
        return Err(format!("it does not fit {}: {misfit}", target.arch));
    }
    let (module, resources) = compile(job.op.name(), &generated, compiler, arguments)?;
    let mut reports = Vec::new();
    for dims in extents(&job.dag, job.bucket, &arguments.at) {
        reports = check(job, &generated, &module, &dims)?;
    }
    let run: Vec<_> = reports.into_iter().zip(resources.iter().copied()).collect();
    cycles::estimate(&run, &target).ok_or_else(|| {
        let most = resources.iter().max_by_key(|it| it.threads * it.registers);
        let most = most.map_or(String::new(), |it| {
            format!(": a block has {} threads of {} registers", it.threads, it.registers)
        });
        format!(
            "it does not fit {}{most}; have the compiler use fewer by `__launch_bounds__`, or constrain \
             the knobs",
            target.arch
        )
    })
}

/// Compiles a setting; returns its code, and what a block of each launch takes.
fn compile(
    name: &str,
    generated: &Generated,
    compiler: &Compiler<'_>,
    arguments: &Emulate,
) -> Result<(Module, Vec<Resources>), String> {
    let arch = arguments.target.arch.to_string();
    let text = &generated.unit.source;
    let source = Source { name: &format!("{name}.cu"), text, arch: &arch, options: &[LINES] };
    let code = compiler.compile(&source).map_err(|it| it.to_string())?;
    code.check_launches(generated).map_err(|it| it.to_string())?;
    let module = Module::parse(&code.ptx).map_err(|it| it.to_string())?;
    let resources = |it: &Entry| {
        let usage = code.usage(&it.name)?;
        let of_file = u32::try_from(usage.static_shared_bytes).unwrap_or(u32::MAX);
        Some(Resources {
            threads: it.n_threads(),
            registers: usage.registers,
            shared_bytes: it.shared_bytes.saturating_add(of_file),
        })
    };
    Ok((module, generated.unit.entries.iter().filter_map(resources).collect()))
}

/// Runs code at some extents, and compares its results with the definition.
fn check(
    job: &Job<'_>,
    generated: &Generated,
    module: &Module,
    dims: &[i64],
) -> Result<Vec<Report>, String> {
    let tolerance = (job.op.tolerance.rel, job.op.tolerance.abs);
    let case = CaseSpec::new(&job.dag, dims, SEED, &|_| tolerance);
    let (params, scalars) = (case.params(), case.scalars());
    let expected = job.definition.results(&job.dag, dims, &params, &scalars)?;
    let options = Options { profile: true, ..Options::default() };
    let at = || {
        let dims = job.dag.dims.iter().zip(dims);
        let dims: Vec<String> = dims.map(|(dim, it)| format!("{} = {it}", dim.name)).collect();
        if dims.is_empty() { String::new() } else { format!("at {}: ", dims.join(", ")) }
    };
    let run = emulate::run_reporting(generated, module, dims, &params, &scalars, &options);
    let (results, reports) = run.map_err(|fault| format!("{}{fault}", at()))?;
    for (n, (result, expected)) in results.iter().zip(&expected).enumerate() {
        if let Some(mismatch) = result.max_error(expected, tolerance.0, tolerance.1) {
            let Mismatch { index, got, want, count } = mismatch;
            return Err(format!(
                "{}element {index:?} of result {n} is {got}, and {want} by the definition; {count} differ",
                at()
            ));
        }
    }
    Ok(reports)
}

/// The extents at which a bucket is run: those that were asked for, or the least and some odd ones.
fn extents(dag: &Dag, bucket: &[Interval], asked: &[(String, i64)]) -> Vec<Vec<i64>> {
    let least: Vec<i64> = bucket.iter().map(|it| it.lo).collect();
    let mut large: Vec<i64> = bucket.iter().map(|it| it.hi).collect();
    while work(dag, &large) > MAX_WORK {
        let shrinks = |n: &usize| large[*n] > bucket[*n].lo;
        let Some(n) = (0..large.len()).filter(shrinks).max_by_key(|n| large[*n]) else { break };
        large[n] = ((large[n] / 2) | 1).max(bucket[n].lo);
    }
    let given = |mut dims: Vec<i64>| {
        for (dim, extent) in dag.dims.iter().zip(&mut dims) {
            if let Some((_, asked)) = asked.iter().find(|it| it.0 == dim.name) {
                *extent = *asked;
            }
        }
        dag.raised_to_lower_ends(&dims)
    };
    let mut all = vec![given(least), given(large)];
    all.dedup();
    all
}

/// The iterations of the definition, with the elements of tensors.
fn work(dag: &Dag, dims: &[i64]) -> f64 {
    let product =
        |extents: &mut dyn Iterator<Item = i64>| extents.map(|it| it as f64).product::<f64>();
    let tensors = dag.tensors.iter();
    let elements = tensors.map(|it| product(&mut it.shape.iter().map(|it| it.eval_dims(dims))));
    let axes = dag.computes.iter().map(|it| &it.axes);
    let iterations = axes.map(|it| product(&mut it.iter().map(|it| it.extent.eval_dims(dims))));
    elements.chain(iterations).sum()
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new([
        "kernel",
        "extents",
        "setting",
        "result",
        "cycles",
        "instructions",
        "sectors",
        "wavefronts",
        "conflicts",
        "barriers",
        "registers",
        "occupancy",
    ]);
    for it in lines {
        let counts = &it.counts;
        let of_run = |text: String| if it.error.is_some() { "-".to_owned() } else { text };
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.setting.clone(),
            if it.error.is_some() { "failed" } else { "right" }.to_owned(),
            of_run(format!("{:.0}", counts.cycles)),
            of_run(counts.instructions.to_string()),
            of_run(counts.global_sectors.to_string()),
            of_run(counts.shared_wavefronts.to_string()),
            of_run(counts.conflicts.to_string()),
            of_run(counts.barriers.to_string()),
            of_run(counts.registers.to_string()),
            of_run(format!("{:.0} %", counts.occupancy * 100.0)),
        ]);
    }
    table
}
