//! Makes a bundle: a folder with this program, code for one architecture, and the script for peers.
//!
//! In: the cases, and NVRTC. Out: all that a machine with a GPU needs, driver excepted. Checks have
//! the default schedule and sampled ones; benchmarks have the default one, and the best of those
//! that the model of the GPU ranks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tvmtune_cuda::Generated;
use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::database::Cache;
use tvmtune_plan::record::{GENERATOR, Source};
use tvmtune_schedule::Schedule;
use tvmtune_space::default;
use tvmtune_tuner::compile::{self, Code, Compiler, Nvrtc};
use tvmtune_tuner::cost::gpu::rank;
use tvmtune_tuner::parallel::on_all_cores;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use crate::candidate::{Candidate, Goal, Manifest, NewCandidate, generate};
use crate::case::{self, Case};
use crate::problem::Problem;

/// Points of a program's sketches that are checked beside the default schedule, unless more are asked
/// for.
pub const SAMPLED: usize = 3;
/// The seed of random points.
const SEED: u64 = 11;
/// The number of best-ranked schedules that are compiled.
const COMPILED: usize = 4;

/// The options of a bundle.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// The target of code.
    pub target: GpuTarget,
    /// Selects cases whose name contains this.
    pub only: &'a str,
    /// Random points of each program that are checked.
    pub sampled: usize,
    /// Points that the model ranks for each program that is timed; 0 for none.
    pub ranked: usize,
    /// Carries PTX, for that architecture and later ones, and not machine code.
    pub ptx: bool,
}

/// A program at some extents.
#[derive(Clone, Copy)]
pub struct Job {
    /// The goal of its evaluation.
    pub goal: Goal,
    /// The program.
    pub case: &'static Case,
    /// Its extents.
    pub dims: &'static str,
}

/// Candidates with their compiled code.
pub type Compiled = Vec<(Candidate, Vec<u8>)>;

/// Writes a bundle; returns the number of its candidates, and the failures.
///
/// # Errors
///
/// If there is no NVRTC, or the system refuses.
pub fn write(folder: &Path, recipe: &Recipe<'_>) -> Result<(usize, Vec<String>)> {
    let nvrtc = Nvrtc::get().map_err(|it| anyhow::anyhow!("{it}"))?;
    let compiler = Compiler::new(nvrtc, Cache::discover().as_ref());
    let images = folder.join("images");
    fs::create_dir_all(&images).with_context(|| format!("`{}`", images.display()))?;
    let jobs = jobs(recipe.only);
    let (mut candidates, mut failures) = (Vec::new(), Vec::new());
    for made in on_all_cores(&jobs, |it| compile_job(it, recipe, &compiler)) {
        match made {
            Ok((made, refused)) => {
                failures.extend(refused);
                for (candidate, code) in made {
                    fs::write(folder.join(&candidate.image), code)?;
                    candidates.push(candidate);
                }
            }
            Err(why) => failures.push(why),
        }
    }
    let (major, minor) = compiler.version();
    let manifest = Manifest {
        generator: GENERATOR,
        arch: recipe.target.arch.to_string(),
        nvrtc: format!("{major}.{minor}"),
        candidates,
    };
    manifest.write(folder)?;
    fs::write(folder.join("peers.py"), include_str!("../bundle/peers.py"))?;
    fs::write(folder.join("README.md"), include_str!("../bundle/README.md"))?;
    let program = std::env::current_exe().context("which program this is")?;
    fs::copy(program, folder.join("acceptance"))?;
    Ok((manifest.candidates.len(), failures))
}

/// The case that comes first. Few other kernels use tensor maps with element strides whose boxes begin
/// before the tensor: an H200 ran them, and if another driver refuses them, the rest is to be seen in
/// that light.
const FIRST: &str = "conv_nhwc_strided_f16";

/// Returns the jobs of a bundle: checks, then benchmarks. Of these, the first extents of each case come
/// before the second ones, so that a run that ends early has seen every class.
fn jobs(only: &str) -> Vec<Job> {
    let mut cases: Vec<&Case> = case::all().filter(|it| it.name().contains(only)).collect();
    cases.sort_by_key(|it| it.name() != FIRST);
    let check = |case: &'static Case| {
        case.checks.iter().map(move |it| Job { goal: Goal::Check, case, dims: it.dims })
    };
    let time = |case: &'static Case| {
        case.times.iter().map(move |dims| Job { goal: Goal::Time, case, dims }).enumerate()
    };
    let mut times: Vec<(usize, Job)> = cases.iter().copied().flat_map(time).collect();
    times.sort_by_key(|(n, _)| *n);
    let checks = cases.iter().copied().flat_map(check);
    checks.chain(times.into_iter().map(|(_, it)| it)).collect()
}

/// Returns the schedules of a program that are checked: the default one, and random ones, `sampled` less
/// those that the target does not run.
///
/// # Errors
///
/// If it does not run the default one.
pub fn checked(
    problem: &Problem,
    target: &GpuTarget,
    sampled: usize,
) -> Result<Vec<Proposal>, String> {
    let default = default::schedule(&problem.dag, &(*target).into());
    let generated = generate(&default, target)?;
    let mut all = vec![(Source::Default, default, generated)];
    let space = Space::new(&problem.dag, &(*target).into());
    let mut random = Random::new(SEED);
    for _ in 0..sampled {
        let trace = space.instructions(&space.random(&mut random));
        let Ok(schedule) = Schedule::replay(&problem.dag, &trace) else { continue };
        let Ok(generated) = generate(&schedule, target) else { continue };
        all.push((Source::Random, schedule, generated));
    }
    Ok(all)
}

/// A schedule with its proposer and its generated code.
pub type Proposal = (Source, Schedule, Generated);

/// Compiles the candidates of a job; also returns why some have no code.
///
/// # Errors
///
/// The reason why there are no candidates.
pub fn compile_job(
    job: &Job,
    recipe: &Recipe<'_>,
    compiler: &Compiler<'_>,
) -> Result<(Compiled, Vec<String>), String> {
    let Job { goal, case, dims } = *job;
    let target = &recipe.target;
    let problem = Problem::new(case, dims)?;
    let failed = |why: String| format!("{} [{dims}]: {why}", case.name());
    let finish = |(source, schedule, generated): Proposal| -> Result<(Candidate, Vec<u8>), String> {
        let arch = match recipe.ptx {
            true => target.arch.to_string().replace("sm_", "compute_"),
            false => target.arch.to_string(),
        };
        let code = compile(compiler, case.name(), &generated, &arch).map_err(failed)?;
        let candidate = Candidate::new(&NewCandidate {
            goal,
            case: case.name(),
            dims,
            problem: &problem,
            source,
            schedule: &schedule,
            generated: &generated,
            code: &code,
            target,
        });
        let image = if recipe.ptx { code.ptx.into_bytes() } else { code.cubin };
        Ok((candidate, image))
    };
    let sampled = if goal == Goal::Check { recipe.sampled } else { 0 };
    let candidates = checked(&problem, target, sampled).map_err(failed)?;
    let (mut made, mut refused) = (Compiled::new(), Vec::new());
    for candidate in candidates.into_iter().map(finish) {
        match candidate {
            Ok(candidate) => made.push(candidate),
            Err(why) => refused.push(why),
        }
    }
    if goal == Goal::Time && recipe.ranked > 0 {
        made.extend(best_ranked(&problem, recipe).into_iter().flat_map(finish).min_by(faster));
    }
    let mut seen = BTreeSet::new();
    made.retain(|(candidate, _)| seen.insert(candidate.artifact.clone()));
    Ok((made, refused))
}

/// Orders candidates by prediction; those that spill come last.
fn faster(a: &(Candidate, Vec<u8>), b: &(Candidate, Vec<u8>)) -> std::cmp::Ordering {
    let key = |(candidate, _): &(Candidate, Vec<u8>)| {
        let predicted = candidate.predicted.as_ref();
        let spills = predicted.is_some_and(|it| it.kernels.iter().any(|it| it.frame_bytes > 0));
        (spills, predicted.map_or(f64::INFINITY, |it| it.ns))
    };
    let ((a_spills, a_ns), (b_spills, b_ns)) = (key(a), key(b));
    a_spills.cmp(&b_spills).then(a_ns.total_cmp(&b_ns))
}

fn best_ranked(problem: &Problem, Recipe { target, ranked, .. }: &Recipe<'_>) -> Vec<Proposal> {
    let space = Space::new(&problem.dag, &(*target).into());
    let ranking = rank(&problem.dag, target, &space, *ranked, COMPILED, &mut Random::new(SEED));
    let proposal = |it: tvmtune_tuner::cost::gpu::Ranked| {
        let schedule = Schedule::replay(&problem.dag, &space.instructions(&it.point)).ok()?;
        let generated = generate(&schedule, target).ok()?;
        Some((Source::Random, schedule, generated))
    };
    ranking.best.into_iter().filter_map(proposal).collect()
}

/// Compiles a candidate for an architecture: `sm_90a`, or `compute_90` for PTX only.
///
/// # Errors
///
/// The log of the compiler.
pub fn compile(
    compiler: &Compiler<'_>,
    name: &str,
    generated: &Generated,
    arch: &str,
) -> Result<Code, String> {
    let file = format!("{name}.cu");
    let text = &generated.unit.source;
    let source = compile::Source { name: &file, text, arch, options: &[] };
    compiler.compile(&source).map_err(|it| it.to_string())
}
