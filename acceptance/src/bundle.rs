//! Makes a bundle: a folder with this program, code for one architecture, and the script for peers.
//!
//! In: the cases, and NVRTC. Out: all that a machine with a GPU needs, driver excepted. Checks have
//! the default schedule and sampled ones; what is timed has the default one, and the best of those
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

use crate::case::{self, Case};
use crate::item::{self, Goal, Item, Manifest};
use crate::problem::Problem;

/// Points of a program's sketches that are checked beside the default schedule.
pub const SAMPLED: usize = 3;
/// Where random points start.
const SEED: u64 = 11;
/// Of what the model ranks, so much is compiled.
const COMPILED: usize = 4;

/// What a bundle is made of.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// What code is for.
    pub target: GpuTarget,
    /// Cases whose name contains this.
    pub only: &'a str,
    /// Points that the model ranks for each program that is timed; 0 for none.
    pub ranked: usize,
    /// Whether code is PTX, for that architecture and later ones, and not machine code.
    pub ptx: bool,
}

/// A program at some extents.
#[derive(Clone, Copy)]
pub struct Job {
    /// What is done with it.
    pub goal: Goal,
    /// The program.
    pub case: &'static Case,
    /// Its extents.
    pub dims: &'static str,
}

/// Candidates with their code.
pub type Made = Vec<(Item, Vec<u8>)>;

/// Makes a bundle; gives the number of its items, and what could not be made.
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
    let (mut items, mut failures) = (Vec::new(), Vec::new());
    for made in on_all_cores(&jobs, |it| make(it, recipe, &compiler)) {
        match made {
            Ok(made) => {
                for (item, code) in made {
                    fs::write(folder.join(&item.image), code)?;
                    items.push(item);
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
        items,
    };
    manifest.write(folder)?;
    fs::write(folder.join("peers.py"), include_str!("../bundle/peers.py"))?;
    fs::write(folder.join("README.md"), include_str!("../bundle/README.md"))?;
    let program = std::env::current_exe().context("which program this is")?;
    fs::copy(program, folder.join("acceptance"))?;
    Ok((manifest.items.len(), failures))
}

/// What is checked, then what is timed.
fn jobs(only: &str) -> Vec<Job> {
    let cases: Vec<&Case> = case::all().filter(|it| it.name.contains(only)).collect();
    let check = |case: &'static Case| {
        case.checks.iter().map(move |it| Job { goal: Goal::Check, case, dims: it.dims })
    };
    let time = |case: &'static Case| {
        case.times.iter().map(move |dims| Job { goal: Goal::Time, case, dims })
    };
    let checks = cases.iter().copied().flat_map(check);
    checks.chain(cases.iter().copied().flat_map(time)).collect()
}

/// The schedules of a program that are checked: the default one, and sampled ones that a target
/// runs.
///
/// # Errors
///
/// If it does not run the default one.
pub fn checked(problem: &Problem, target: &GpuTarget) -> Result<Vec<Candidate>, String> {
    let default = default::schedule(&problem.dag, &(*target).into());
    let generated = item::generate(&default, target)?;
    let mut all = vec![(Source::Default, default, generated)];
    let space = Space::new(&problem.dag, &(*target).into());
    let mut random = Random::new(SEED);
    for _ in 0..SAMPLED {
        let trace = space.instructions(&space.random(&mut random));
        let Ok(schedule) = Schedule::replay(&problem.dag, &trace) else { continue };
        let Ok(generated) = item::generate(&schedule, target) else { continue };
        all.push((Source::Random, schedule, generated));
    }
    Ok(all)
}

/// A schedule with who proposed it, and its code.
pub type Candidate = (Source, Schedule, Generated);

/// Makes the candidates of a program.
///
/// # Errors
///
/// Why there is no code.
pub fn make(job: &Job, recipe: &Recipe<'_>, compiler: &Compiler<'_>) -> Result<Made, String> {
    let Job { goal, case, dims } = *job;
    let target = &recipe.target;
    let problem = Problem::new(case, dims)?;
    let failed = |why: String| format!("{} [{dims}]: {why}", case.name);
    let finish = |(source, schedule, generated): Candidate| -> Result<(Item, Vec<u8>), String> {
        let arch = match recipe.ptx {
            true => target.arch.to_string().replace("sm_", "compute_"),
            false => target.arch.to_string(),
        };
        let code = compile(compiler, case.name, &generated, &arch).map_err(failed)?;
        let (what, how) = ((goal, case.name, dims), (source, &schedule));
        let item = item::item(what, how, &problem, &generated, (&code, target));
        let image = if recipe.ptx { code.ptx.into_bytes() } else { code.cubin };
        Ok((item, image))
    };
    let mut candidates = checked(&problem, target).map_err(failed)?;
    if goal == Goal::Time {
        candidates.truncate(1);
    }
    let mut made = candidates.into_iter().map(finish).collect::<Result<Made, _>>()?;
    if goal == Goal::Time && recipe.ranked > 0 {
        made.extend(best_ranked(&problem, recipe).into_iter().flat_map(finish).min_by(faster));
    }
    let mut seen = BTreeSet::new();
    made.retain(|(item, _)| seen.insert(item.artifact.clone()));
    Ok(made)
}

/// What spills is worst, whatever the model says.
fn faster(a: &(Item, Vec<u8>), b: &(Item, Vec<u8>)) -> std::cmp::Ordering {
    let key = |(item, _): &(Item, Vec<u8>)| {
        let predicted = item.predicted.as_ref();
        let spills = predicted.is_some_and(|it| it.kernels.iter().any(|it| it.frame_bytes > 0));
        (spills, predicted.map_or(f64::INFINITY, |it| it.ns))
    };
    let ((a_spills, a_ns), (b_spills, b_ns)) = (key(a), key(b));
    a_spills.cmp(&b_spills).then(a_ns.total_cmp(&b_ns))
}

fn best_ranked(problem: &Problem, Recipe { target, ranked, .. }: &Recipe<'_>) -> Vec<Candidate> {
    let space = Space::new(&problem.dag, &(*target).into());
    let ranking = rank(&problem.dag, target, &space, *ranked, COMPILED, &mut Random::new(SEED));
    let candidate = |it: tvmtune_tuner::cost::gpu::Ranked| {
        let schedule = Schedule::replay(&problem.dag, &space.instructions(&it.point)).ok()?;
        let generated = item::generate(&schedule, target).ok()?;
        Some((Source::Random, schedule, generated))
    };
    ranking.best.into_iter().filter_map(candidate).collect()
}

/// The code of a candidate for an architecture: `sm_90a`, or `compute_90` for PTX only.
///
/// # Errors
///
/// What the compiler says.
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
