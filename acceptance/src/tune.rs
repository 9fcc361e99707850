//! Searches for better schedules of what a bundle times, for as long as it may.
//!
//! The tuner's own engine does it, as it does in a build: see [`tvmtune_tuner::tune`]. The program
//! with the most to gain is next, relative to what the GPU could do at most. The best of each is
//! timed once more at length, beside what `run` timed. Every trial is in a log, from which an
//! interrupted session goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tvmtune_core::dag::{Dag, Expr, UnaryOp, print};
use tvmtune_core::record::{Entry, Provenance};
use tvmtune_core::schedule::{Instruction, Schedule};
use tvmtune_core::target::GpuTarget;
use tvmtune_core::workload;
use tvmtune_runtime::cuda::nvrtc::{Nvrtc, find};
use tvmtune_tuner::compile::Compiler;
use tvmtune_tuner::cost::work::Work;
use tvmtune_tuner::database::{Cache, Database, Layer, LayerKind};
use tvmtune_tuner::device;
use tvmtune_tuner::measure::{Exclusive, WorkerCommand};
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{self, Budget, Event, Hardware, Options, Recipe, Workload};

use crate::Exit;
use crate::bundle;
use crate::item::{self, Goal, Item, Manifest};
use crate::judge::Judge;
use crate::problem::Problem;
use crate::results::{Line, Results, unix_ms};
use crate::run;

/// From the same seed follow the same candidates.
const SEED: u64 = 17;
/// How long others may measure on this GPU before this gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// What timing a program at length takes, about.
const LENGTH: Duration = Duration::from_millis(500);

/// What is asked of a session.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Cases whose name contains this.
    pub only: &'a str,
    /// Nothing is begun after this.
    pub budget: Duration,
    /// Candidates of each program.
    pub trials: u64,
}

/// Tunes what the bundle in a folder times; results go to another one.
///
/// # Errors
///
/// If the bundle can't be read, or results can't be written.
pub fn run(folder: &Path, out: &Path, wanted: &Wanted<'_>) -> Result<Exit> {
    let nvrtc = match find_nvrtc() {
        Ok(nvrtc) => nvrtc,
        Err(why) => {
            eprintln!("error: {why}");
            return Ok(Exit::NoDevice);
        }
    };
    let manifest = Manifest::read(folder)?;
    let Some((judge, results, _watch)) = run::begin(folder, out)? else {
        return Ok(Exit::NoDevice);
    };
    let Some(target) = device::gpu_target(judge.gpu()) else {
        eprintln!("error: no code is generated for this GPU");
        return Ok(Exit::NoDevice);
    };
    let subjects = subjects(&manifest, wanted.only)?;
    let workloads: Vec<Workload> = subjects.iter().map(|it| it.workload(&target)).collect();
    let cache = Cache::new(&out.join("tuning"));
    let layer = Layer { kind: LayerKind::Cache, dir: cache.records() };
    let database = Database::new(vec![layer], Some(cache.clone()));
    let exclusive = Exclusive::acquire(&cache, &target.key(), PATIENCE)?;
    let total = wanted.budget.saturating_sub(LENGTH * subjects.len() as u32);
    let options = Options {
        targets: vec![target.into()],
        nvrtc: Some(nvrtc),
        budget: Budget { trials: wanted.trials, per_task: total, total },
        refines: false,
        seed: SEED,
        hardware: Hardware::Worker(WorkerCommand::this_executable()?),
        n_threads: n_cores(),
        recipe: Recipe::default(),
        afresh: false,
        provenance: Provenance {
            tool: concat!("tvmtune ", env!("CARGO_PKG_VERSION")).to_owned(),
            host: std::env::consts::ARCH.to_owned(),
        },
    };
    let mut n_wrong = 0;
    tune::run(&workloads, &options, &database, &exclusive, &mut |event| say(&event, &mut n_wrong))?;
    drop(exclusive);
    let compiler = Compiler::new(nvrtc, None);
    let mut best = Best { folder, target, compiler, judge, results };
    for (subject, workload) in subjects.iter().zip(&workloads) {
        let lookup = database.get(&workload.id, &workload.dag.name, &workload.text);
        if let Some(choice) = lookup.best(&target.key(), &[], target.arch) {
            n_wrong += usize::from(!best.time(subject, choice.entry)?);
        }
    }
    Ok(if n_wrong == 0 { Exit::Done } else { Exit::Refused })
}

/// NVRTC, where it usually is, or where Python has it; never unloaded.
fn find_nvrtc() -> Result<&'static Nvrtc, String> {
    let mut why = String::new();
    for path in find::candidates().into_iter().chain(of_python()) {
        match Nvrtc::open(&path) {
            Ok(nvrtc) => return Ok(Box::leak(Box::new(nvrtc))),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!(
        "{why}; set `TVMTUNE_NVRTC` to the library, or `python3 -m pip install nvidia-cuda-nvrtc`"
    ))
}

/// Where the packages of `python3` have it.
fn of_python() -> Vec<PathBuf> {
    let script = "import glob, nvidia\n\
                  for it in nvidia.__path__: print(*glob.glob(it + '/*/lib/libnvrtc.so.1?'), sep='\\n')";
    let said = std::process::Command::new("python3").args(["-c", script]).output();
    let said = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    said.lines().filter(|it| !it.is_empty()).map(Into::into).collect()
}

/// A program of a bundle.
struct Subject {
    case: String,
    dims: String,
    problem: Problem,
}

/// What a bundle times, each program once.
fn subjects(manifest: &Manifest, only: &str) -> Result<Vec<Subject>> {
    let mut subjects: Vec<Subject> = Vec::new();
    let timed = manifest.items.iter().filter(|it| it.goal == Goal::Time && it.case.contains(only));
    for item in timed {
        if !subjects.iter().any(|it| it.case == item.case && it.dims == item.dims) {
            let (_, problem) = item.problem().map_err(|it| anyhow!(it))?;
            subjects.push(Subject { case: item.case.clone(), dims: item.dims.clone(), problem });
        }
    }
    Ok(subjects)
}

impl Subject {
    /// As the tuner has it. What there is to gain counts relative to what it takes at least.
    fn workload(&self, target: &GpuTarget) -> Workload {
        let Problem { dag, tolerance, .. } = &self.problem;
        Workload {
            id: workload::id(dag).to_string(),
            text: print::canonical(dag),
            buckets: vec![Vec::new()],
            weight: 1.0 / floor_ns(&self.problem, target),
            ..Workload::new((**dag).clone(), Vec::new(), *tolerance)
        }
    }
}

/// Prints what is worth it, and counts candidates that compute something else, or take their worker
/// down.
fn say(event: &Event<'_>, n_wrong: &mut usize) {
    match event {
        Event::Trial {
            task, outcome: outcome @ (Outcome::Wrong(_) | Outcome::Crashed(_)), ..
        } => {
            println!("{task}: {outcome}");
            *n_wrong += 1;
        }
        Event::Improved { task, to_ns, source, .. } => {
            println!("{task}: {:.2} us by {source}", to_ns / 1e3);
        }
        Event::Skipped { task, why } => println!("{task} is not tuned: {why}"),
        Event::Finished { task, result } => {
            let (default, best) = (result.default_ns / 1e3, result.best_ns / 1e3);
            println!("{task}: {default:.2} us -> {best:.2} us, {} trials", result.trials);
        }
        Event::Warning { what } => println!("{what}"),
        Event::Started { .. }
        | Event::Default { .. }
        | Event::Trial { .. }
        | Event::Saved { .. } => {}
    }
}

/// Times the best schedules as `run` does.
struct Best<'a> {
    folder: &'a Path,
    target: GpuTarget,
    compiler: Compiler<'a>,
    judge: Judge,
    results: Results,
}

impl Best<'_> {
    /// Times the best schedule of a program at length; false if it computes something else.
    fn time(&mut self, subject: &Subject, best: &Entry) -> Result<bool> {
        let item = self.item(subject, best).map_err(|it| anyhow!(it))?;
        let outcome = self.judge.attempt(&item)?;
        println!("{}: {outcome}", item.title());
        let is_fine = outcome.is_fine();
        self.results.add(Line::Tried { unix_ms: unix_ms(), item: Box::new(item), outcome })?;
        Ok(is_fine)
    }

    /// The schedule with its code in the folder of the bundle.
    fn item(&self, subject: &Subject, best: &Entry) -> Result<Item, String> {
        let trace = best.trace.iter().map(|it| it.parse().map_err(|it| format!("{it}")));
        let trace = trace.collect::<Result<Vec<Instruction>, String>>()?;
        let Subject { case, dims, problem } = subject;
        let schedule = Schedule::replay(&problem.dag, &trace).map_err(|it| it.to_string())?;
        let generated = item::generate(&schedule, &self.target)?;
        let arch = self.target.arch.to_string();
        let code = bundle::compile(&self.compiler, case, &generated, &arch)?;
        let what = (Goal::Time, case.as_str(), dims.as_str());
        let code_of = (&code, &self.target);
        let item = item::item(what, (best.source, &schedule), problem, &generated, code_of);
        let written = std::fs::create_dir_all(self.folder.join("images"))
            .and_then(|()| std::fs::write(self.folder.join(&item.image), &code.cubin));
        written.map(|()| item).map_err(|it| it.to_string())
    }
}

/// What no kernel is faster than: the arithmetic at the peak of what could do it, every byte once.
fn floor_ns(problem: &Problem, target: &GpuTarget) -> f64 {
    let work = Work::of(&problem.dag, &problem.largest());
    let limits = target.arch.limits();
    let is_wide = |id| problem.dag.tensor(id).dtype.bytes() >= 4;
    let fma = if !problem.dag.params().any(is_wide) {
        limits.tensor_fma.max(limits.fma)
    } else if rounds_to_tf32(&problem.dag) {
        (limits.tensor_fma / 2).max(limits.fma)
    } else {
        limits.fma
    };
    let per_ns =
        2.0 * f64::from(fma) * f64::from(target.multiprocessors) * f64::from(target.clock_mhz)
            / 1e3;
    let memory_ns = work.bytes / f64::from(target.bandwidth_gbps);
    memory_ns.max(work.flops / per_ns)
}

/// Whether matrix instructions may multiply `f32`.
fn rounds_to_tf32(dag: &Dag) -> bool {
    let mut found = false;
    for compute in &dag.computes {
        compute.body.walk(&mut |it| found |= matches!(it, Expr::Unary(UnaryOp::Tf32, _)));
    }
    found
}

#[cfg(test)]
mod tests {
    use tvmtune_core::target::gpu::Arch;

    use super::*;
    use crate::case;

    #[test]
    fn nothing_is_faster_than_the_peak_of_what_could_do_it() {
        let target = GpuTarget::generic(Arch { sm: 90, exact: true });
        let near = |case: &str, dims: &str, ns: f64| {
            let problem = Problem::new(case::named(case).unwrap(), dims).unwrap();
            let floor_ns = floor_ns(&problem, &target);
            assert!((floor_ns / ns - 1.0).abs() < 0.1, "{floor_ns}");
        };
        // 989 TFLOP/s, 494 TFLOP/s, 62 TFLOP/s and 4800 GB/s are what the vendor says at this clock.
        near("linear_bf16", "M = 8192, N = 8192, K = 8192", 2.0 * 8192_f64.powi(3) / 989e3);
        near("matmul_f32", "M = 4096, N = 4096, K = 4096", 2.0 * 4096_f64.powi(3) / 62e3);
        near("linear_tf32", "M = 4096, N = 4096, K = 4096", 2.0 * 4096_f64.powi(3) / 494e3);
        near("softmax_f32", "R = 8192, D = 4096", 8.0 * 8192.0 * 4096.0 / 4800.0);
    }
}
