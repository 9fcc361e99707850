//! Searches for better schedules of what a bundle times, for as long as it may.
//!
//! The tuner's own engine does it, as it does in a build: see [`tvmtune_tuner::tune`]. The program
//! with the most to gain is next, relative to what the GPU could do at most. The best of each is
//! timed once more at length, beside what `run` timed. Every trial is in a log, from which an
//! interrupted session goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::record::{Entry, Provenance};
use tvmtune_runtime::cuda::nvrtc::{Nvrtc, find};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_tuner::compile::Compiler;
use tvmtune_tuner::measure::{Exclusive, WorkerCommand};
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::tune::{self, Budget, Event, Hardware, Options, Recipe, Reuse, Workload};

use crate::item::{self, Goal, Item, Manifest};
use crate::judge::Judge;
use crate::results::{Line, Results, unix_ms};
use crate::subject::Subject;
use crate::{Exit, bundle, run};

/// Where records and trials of sessions are, below the folder of results.
pub const FOLDER: &str = "tuning";
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
    let Some(target) = tvmtune_tuner::device::gpu_target(judge.gpu()) else {
        eprintln!("error: no code is generated for this GPU");
        return Ok(Exit::NoDevice);
    };
    let subjects = Subject::all(&manifest, wanted.only)?;
    let workloads: Vec<Workload> = subjects.iter().map(|it| it.workload(&target)).collect();
    let cache = Cache::new(&out.join(FOLDER));
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    let database = Database::new(vec![store], Some(cache.clone()));
    let exclusive = Exclusive::acquire(&cache, &target.key(), PATIENCE)?;
    let total = wanted.budget.saturating_sub(LENGTH * subjects.len() as u32);
    let options = Options {
        targets: vec![target.into()],
        nvrtc: Some(nvrtc),
        budget: Budget { trials: wanted.trials, per_task: total, total },
        seed: SEED,
        hardware: Hardware::Worker(WorkerCommand::this_executable()?),
        n_threads: n_cores(),
        recipe: Recipe::default(),
        reuse: Reuse::Compete,
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
