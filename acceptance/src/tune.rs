//! Searches for better schedules of a bundle's benchmarks, within a budget.
//!
//! The tuner's own engine does it, as it does in a build: see [`tvmtune_tuner::tune`]. The program
//! with the most to gain is next, relative to its roofline. The best of each is
//! timed once more at length, beside what `run` timed. Every trial is in a log, from which an
//! interrupted session goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::record::{Entry, Provenance};
use tvmtune_runtime::cuda::nvrtc::{Nvrtc, find};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::compile::Compiler;
use tvmtune_tuner::executor::{MachineLock, TuningJob};
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{self, Budget, Event, Hardware, Options, Recipe, Reuse, Workload};

use crate::benchmark::Benchmark;
use crate::candidate::{Candidate, Goal, Manifest, NewCandidate, generate};
use crate::evaluator::Evaluator;
use crate::results::{Line, Results, unix_ms};
use crate::{Exit, bundle, run};

/// The folder of records and trials of tuning sessions, below the folder of results.
pub const FOLDER: &str = "tuning";
/// From the same seed follow the same candidates.
const SEED: u64 = 17;
/// The timeout for the lock on this GPU.
const PATIENCE: Duration = Duration::from_secs(60);
/// The approximate duration of timing a program at length.
const TIMING_DURATION: Duration = Duration::from_millis(500);

/// Options of a tuning session.
#[derive(Clone, Copy, Debug)]
pub struct TuneOptions<'a> {
    /// Selects cases whose name contains this.
    pub only: &'a str,
    /// Begins no candidate after this.
    pub budget: Duration,
    /// Candidates of each program.
    pub trials: u64,
}

/// Tunes the benchmarks of the bundle in a folder; results go to another one.
///
/// # Errors
///
/// If the bundle can't be read, or results can't be written.
pub fn run(folder: &Path, out: &Path, requested: &TuneOptions<'_>) -> Result<Exit> {
    let nvrtc = match find_nvrtc() {
        Ok(nvrtc) => nvrtc,
        Err(why) => {
            eprintln!("error: {why}");
            return Ok(Exit::NoDevice);
        }
    };
    let manifest = Manifest::read(folder)?;
    let Some((evaluator, results, _monitor)) = run::begin(folder, out)? else {
        return Ok(Exit::NoDevice);
    };
    let Some(target) = tvmtune_tuner::device::gpu_target(evaluator.gpu()) else {
        eprintln!("error: no code is generated for this GPU");
        return Ok(Exit::NoDevice);
    };
    let benchmarks = Benchmark::all(&manifest, requested.only)?;
    let workloads: Vec<Workload> = benchmarks.iter().map(|it| it.workload(&target)).collect();
    let cache = Cache::new(&out.join(FOLDER));
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    let database = Database::new(vec![store], Some(cache.clone()));
    let lock = MachineLock::of_device(&cache, &target.into(), PATIENCE)?;
    let total = requested.budget.saturating_sub(TIMING_DURATION * benchmarks.len() as u32);
    let options = Options {
        device: target.into(),
        targets: vec![target.into()],
        nvrtc: Some(nvrtc),
        budget: Budget { trials: requested.trials, per_task: total, total },
        seed: SEED,
        hardware: Hardware::Worker(WorkerCommand::this_executable()?),
        n_threads: n_cores(),
        recipe: Recipe::default(),
        scheduler: Scheduler::default(),
        reuse: Reuse::Compete,
        provenance: Provenance {
            tool: concat!("tvmtune ", env!("CARGO_PKG_VERSION")).to_owned(),
            host: std::env::consts::ARCH.to_owned(),
            peaks: None,
        },
    };
    let mut n_wrong = 0;
    let job = TuningJob::holding(&lock);
    tune::run(&workloads, &options, &database, &job, &mut |event| say(&event, &mut n_wrong))?;
    drop(job);
    drop(lock);
    let compiler = Compiler::new(nvrtc, None);
    let mut best = BestSchedules { folder, target, compiler, evaluator, results };
    for (benchmark, workload) in benchmarks.iter().zip(&workloads) {
        let lookup =
            database.get(&workload.id, &ProgramName::of(&workload.dag.name), &workload.text);
        if let Some(choice) = lookup.best(&target.key(), &[], target.arch) {
            n_wrong += usize::from(!best.time(benchmark, choice.entry)?);
        }
    }
    Ok(if n_wrong == 0 { Exit::Done } else { Exit::Refused })
}

/// Finds NVRTC in its usual places or in packages of Python; it is never unloaded.
fn find_nvrtc() -> Result<&'static Nvrtc, String> {
    let mut why = String::new();
    for path in find::candidates().into_iter().chain(python_packages()) {
        match Nvrtc::open(&path) {
            Ok(nvrtc) => return Ok(Box::leak(Box::new(nvrtc))),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!(
        "{why}; set `TVMTUNE_NVRTC` to the library, or `python3 -m pip install nvidia-cuda-nvrtc`"
    ))
}

/// Returns the libraries in packages of `python3`.
fn python_packages() -> Vec<PathBuf> {
    let script = "import glob, nvidia\n\
                  for it in nvidia.__path__: print(*glob.glob(it + '/*/lib/libnvrtc.so.1?'), sep='\\n')";
    let said = std::process::Command::new("python3").args(["-c", script]).output();
    let said = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    said.lines().filter(|it| !it.is_empty()).map(Into::into).collect()
}

/// Prints notable events, and counts candidates that are wrong, or that crash their worker.
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
        Event::Waiting { .. }
        | Event::Started { .. }
        | Event::Chosen { .. }
        | Event::Default { .. }
        | Event::Trial { .. }
        | Event::Saved { .. } => {}
    }
}

/// The evaluation of the best schedules, as `run` does it.
struct BestSchedules<'a> {
    folder: &'a Path,
    target: GpuTarget,
    compiler: Compiler<'a>,
    evaluator: Evaluator,
    results: Results,
}

impl BestSchedules<'_> {
    /// Times the best schedule of a program at length; false if its results are wrong.
    fn time(&mut self, benchmark: &Benchmark, best: &Entry) -> Result<bool> {
        let candidate = self.candidate(benchmark, best).map_err(|it| anyhow!(it))?;
        let evaluation = self.evaluator.evaluate(&candidate)?;
        println!("{}: {evaluation}", candidate.title());
        let is_fine = evaluation.is_fine();
        self.results.add(Line::Tried {
            unix_ms: unix_ms(),
            candidate: Box::new(candidate),
            evaluation,
        })?;
        Ok(is_fine)
    }

    /// Returns the schedule as a candidate, with its code in the folder of the bundle.
    fn candidate(&self, benchmark: &Benchmark, best: &Entry) -> Result<Candidate, String> {
        let trace = best.trace.iter().map(|it| it.parse().map_err(|it| format!("{it}")));
        let trace = trace.collect::<Result<Vec<Instruction>, String>>()?;
        let Benchmark { case, dims, problem } = benchmark;
        let schedule = Schedule::replay(&problem.dag, &trace).map_err(|it| it.to_string())?;
        let generated = generate(&schedule, &self.target)?;
        let arch = self.target.arch.to_string();
        let code = bundle::compile(&self.compiler, case, &generated, &arch)?;
        let candidate = Candidate::new(&NewCandidate {
            goal: Goal::Time,
            case,
            dims,
            problem,
            source: best.source,
            schedule: &schedule,
            generated: &generated,
            code: &code,
            target: &self.target,
        });
        let written = std::fs::create_dir_all(self.folder.join("images"))
            .and_then(|()| std::fs::write(self.folder.join(&candidate.image), &code.cubin));
        written.map(|()| candidate).map_err(|it| it.to_string())
    }
}
