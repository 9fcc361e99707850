//! Searches for better schedules of what a bundle times, for as long as it may.
//!
//! The program with the most to gain is next: how far its best schedule is from what the GPU could
//! do at most, less for each batch that found nothing better. The strategy is that of the tuner:
//! evolution and droplet search, guided by the model of the GPU and then by one that learns from all
//! programs together. What it proposes is compiled on all cores while another batch is measured; what
//! it can't decide between is measured side by side. What is better than all before is measured once
//! more, at length, and recorded with its code. Every trial is in a log, from which an interrupted
//! session goes on.

mod keep;
mod task;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tvmtune_core::target::GpuTarget;
use tvmtune_core::target::gpu::Arch;
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_tuner::compile::Compiler;
use tvmtune_tuner::cost::model::CostModel;
use tvmtune_tuner::outcome::Timing;
use tvmtune_tuner::space::Point;

use crate::Exit;
use crate::item::{Goal, Item, Manifest};
use crate::pool::Pool;
use crate::protocol::{Device, Outcome};
use crate::results::{Line, Results, unix_ms};
use crate::run;
use keep::Keeper;
use task::{Candidate, Task};

/// Candidates that are compiled and measured at a time.
const BATCH: usize = 16;
/// A candidate that takes so many times as long as the best one is given up.
const HOPELESS: f64 = 2.0;
/// What is faster by so much than the best one is measured again.
const BETTER: f64 = 0.99;
/// How often rivals are measured side by side.
const RIVAL_ROUNDS: usize = 2;

/// What is asked of a session.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Cases whose name contains this.
    pub only: &'a str,
    /// Nothing is begun after this.
    pub budget: Duration,
    /// Nothing is begun after so many candidates.
    pub trials: usize,
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
    run_by(Pool::new(folder)?, &nvrtc, folder, out, wanted)
}

/// The same, by workers that may be other programs.
///
/// # Errors
///
/// As `run`.
pub fn run_by(
    mut pool: Pool,
    nvrtc: &Nvrtc,
    folder: &Path,
    out: &Path,
    wanted: &Wanted<'_>,
) -> Result<Exit> {
    let left = Left { deadline: Instant::now() + wanted.budget, trials: wanted.trials };
    let manifest = Manifest::read(folder)?;
    let Some((device, results, _watch)) = run::begin(&mut pool, out)? else {
        return Ok(Exit::NoDevice);
    };
    let Some(target) = target(&device) else {
        eprintln!("error: nothing is generated for {}", device.arch);
        return Ok(Exit::NoDevice);
    };
    let keeper = Keeper::new(out, target, Compiler::new(nvrtc, None));
    let mut model = CostModel::new();
    let tasks = tasks(&manifest, wanted.only, &results, &keeper, &mut model)?;
    model.train();
    let mut session = Session { folder, keeper, pool, results, tasks, model, n_wrong: 0 };
    session.tune(left)?;
    println!("\n{}", session.summary());
    Ok(if session.n_wrong == 0 { Exit::Done } else { Exit::Refused })
}

/// What the model knows of a device.
fn target(device: &Device) -> Option<GpuTarget> {
    let generic = GpuTarget::generic(Arch::from_name(&device.arch)?);
    let number = |value: usize, otherwise: u32| match u32::try_from(value) {
        Ok(0) | Err(_) => otherwise,
        Ok(value) => value,
    };
    Some(GpuTarget {
        multiprocessors: number(device.multiprocessors, generic.multiprocessors),
        l2_bytes: if device.l2_bytes == 0 { generic.l2_bytes } else { device.l2_bytes as u64 },
        clock_mhz: number(device.clock_khz / 1000, generic.clock_mhz),
        ..generic
    })
}

/// NVRTC, where it usually is, or where Python has it.
fn find_nvrtc() -> Result<Nvrtc, String> {
    let mut why = String::new();
    let candidates = tvmtune_runtime::cuda::nvrtc::find::candidates();
    for path in candidates.into_iter().chain(of_python()) {
        match Nvrtc::open(&path) {
            Ok(nvrtc) => return Ok(nvrtc),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!(
        "{why}; set `TVMTUNE_NVRTC` to the library, or `python3 -m pip install nvidia-cuda-nvrtc`"
    ))
}

/// Where the packages of `python3` have it.
fn of_python() -> Vec<std::path::PathBuf> {
    let script = "import glob, nvidia\n\
                  for it in nvidia.__path__: print(*glob.glob(it + '/*/lib/libnvrtc.so.1?'), sep='\\n')";
    let said = std::process::Command::new("python3").args(["-c", script]).output();
    let said = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    said.lines().filter(|it| !it.is_empty()).map(Into::into).collect()
}

/// A task for each program that is timed, with what is known of it.
fn tasks(
    manifest: &Manifest,
    only: &str,
    results: &Results,
    keeper: &Keeper<'_>,
    model: &mut CostModel,
) -> Result<Vec<Task>> {
    let mut tasks: Vec<Task> = Vec::new();
    let timed = manifest.items.iter().filter(|it| it.goal == Goal::Time && it.case.contains(only));
    for item in timed {
        let is_of = |it: &&mut Task| it.case == item.case && it.dims == item.dims;
        let task = match tasks.iter_mut().find(is_of) {
            Some(task) => task,
            None => {
                let task = Task::new(item, keeper.target(), tasks.len());
                let mut task = task.map_err(anyhow::Error::msg)?;
                task.learn(&keeper.trials(&task), model);
                tasks.push(task);
                tasks.last_mut().expect("it was pushed")
            }
        };
        if let Some(times) = results.outcome(item).and_then(Outcome::times) {
            task.observe_time(times.median_ns());
        }
    }
    Ok(tasks)
}

struct Session<'a> {
    folder: &'a Path,
    keeper: Keeper<'a>,
    pool: Pool,
    results: Results,
    tasks: Vec<Task>,
    /// Learns from all of them.
    model: CostModel,
    /// Candidates that computed something else, or took their worker down.
    n_wrong: usize,
}

/// What a session may still spend.
struct Left {
    deadline: Instant,
    trials: usize,
}

impl Left {
    fn any(&self) -> bool {
        self.trials > 0 && Instant::now() < self.deadline
    }
}

/// Candidates of one task.
struct Batch {
    task: usize,
    /// The identity of its workload.
    id: String,
    candidates: Vec<Candidate>,
}

impl Batch {
    /// Of no task.
    fn none() -> Self {
        Self { task: usize::MAX, id: String::new(), candidates: Vec::new() }
    }
}

impl Session<'_> {
    fn tune(&mut self, mut left: Left) -> Result<()> {
        let mut measured = Batch::none();
        while left.any() {
            let Some(next) = self.next(measured.task) else {
                if measured.candidates.is_empty() {
                    break;
                }
                // The only task that is left: its candidates are measured first.
                let batch = std::mem::replace(&mut measured, Batch::none());
                let limit_ns = self.limit_ns(&batch);
                let by = (&mut self.pool, &self.keeper);
                let outcomes = measure(by, limit_ns, &batch, &mut left)?;
                self.conclude(batch, outcomes, &mut left)?;
                continue;
            };
            let limit_ns = self.limit_ns(&measured);
            let Self { pool, tasks, keeper, folder, model, .. } = self;
            let prepared = std::thread::scope(|scope| -> Result<_> {
                let measuring =
                    scope.spawn(|| measure((pool, keeper), limit_ns, &measured, &mut left));
                let candidates = tasks[next].propose(BATCH, model, keeper, folder)?;
                let outcomes = measuring.join().unwrap_or_else(|_| Ok(Vec::new()))?;
                Ok((candidates, outcomes))
            });
            let (candidates, outcomes) = prepared?;
            let id = self.tasks[next].id.clone();
            let batch = std::mem::replace(&mut measured, Batch { task: next, id, candidates });
            self.conclude(batch, outcomes, &mut left)?;
        }
        Ok(())
    }

    /// The task with the most to gain among those that nothing is measured of now.
    fn next(&self, busy: usize) -> Option<usize> {
        let open = (0..self.tasks.len()).filter(|it| *it != busy && !self.tasks[*it].is_over());
        open.max_by(|a, b| self.tasks[*a].gain().total_cmp(&self.tasks[*b].gain()))
    }

    /// When candidates of a batch are given up.
    fn limit_ns(&self, batch: &Batch) -> f64 {
        let task = self.tasks.get(batch.task);
        task.and_then(Task::best_ns).map_or(1e9, |it| it * HOPELESS)
    }

    /// Learns from a batch: what was better is measured again and recorded.
    fn conclude(
        &mut self,
        batch: Batch,
        outcomes: Vec<(Outcome, f64)>,
        left: &mut Left,
    ) -> Result<()> {
        let Some(task) = self.tasks.get_mut(batch.task) else { return Ok(()) };
        let before = task.best_ns();
        for (candidate, (outcome, seconds)) in batch.candidates.into_iter().zip(outcomes) {
            task.seconds += seconds;
            if !outcome.is_fine() {
                println!("{}: {outcome}", candidate.item.title());
                self.n_wrong += 1;
            }
            let outcome = task::told(&outcome);
            task.observe(&candidate.point, &outcome);
            task.note(candidate.features, &outcome, &mut self.model);
            let Some(timing) = outcome.timing() else { continue };
            task.keep(candidate.point, candidate.item.clone());
            let is_better = task.best_ns().is_none_or(|it| timing.median_ns() < it * BETTER);
            if !is_better {
                continue;
            }
            let item = Item { goal: Goal::Time, ..candidate.item };
            let Outcome::Timed(times) = self.pool.attempt(&item, None)? else { continue };
            if task.observe_time(times.median_ns()) {
                println!(
                    "{} [{}]: {:.2} us, {} trials",
                    task.case,
                    task.dims,
                    times.median_ns() / 1e3,
                    task.trials
                );
                self.keeper.record(task, &item, &times)?;
                let (item, outcome) = (Box::new(item), Outcome::Timed(times));
                self.results.add(Line::Tried { unix_ms: unix_ms(), item, outcome })?;
            }
        }
        task.after_batch(before);
        self.model.train();
        self.n_wrong += compare(task, (&mut self.pool, &self.keeper, self.folder), left)?;
        Ok(())
    }

    fn summary(&self) -> String {
        let line = |it: &Task| {
            let best = it.best_ns().map_or("-".to_owned(), |ns| format!("{:.2} us", ns / 1e3));
            format!(
                "{} [{}]: {best} after {} trials, {:.2} us at the very least\n",
                it.case,
                it.dims,
                it.trials,
                it.floor_ns / 1e3
            )
        };
        self.tasks.iter().map(line).collect()
    }
}

/// Measures side by side what the strategy of a task can't decide between, if there is time for it;
/// each is a trial. Gives how many of them computed something else, or took their worker down: those
/// are out.
fn compare(
    task: &mut Task,
    (pool, keeper, folder): (&mut Pool, &Keeper<'_>, &Path),
    left: &mut Left,
) -> Result<usize> {
    if !left.any() {
        return Ok(0);
    }
    let mut rivals = task.rivals(keeper, folder)?;
    let n_rivals = rivals.len();
    if n_rivals < 2 || left.trials < n_rivals {
        return Ok(0);
    }
    left.trials -= n_rivals;
    let mut samples: BTreeMap<Point, Vec<f64>> = BTreeMap::new();
    for _ in 0..RIVAL_ROUNDS {
        let mut wrong = Vec::new();
        for (point, item) in &rivals {
            match pool.attempt(item, None)? {
                Outcome::Timed(times) => {
                    samples.entry(point.clone()).or_default().extend(times.samples_ns);
                }
                outcome if !outcome.is_fine() => {
                    println!("{}: {outcome}", item.title());
                    samples.remove(point);
                    task.observe(point, &task::told(&outcome));
                    wrong.push(point.clone());
                }
                _ => {}
            }
        }
        rivals.retain(|(point, _)| !wrong.contains(point));
    }
    let timings = samples.into_iter();
    let timings: Vec<_> =
        timings.filter_map(|(point, samples)| Some((point, Timing::new(samples)?))).collect();
    task.compared(&timings);
    Ok(n_rivals - rivals.len())
}

/// What becomes of candidates, and how many seconds each took. What there is no time for is left.
fn measure(
    (pool, keeper): (&mut Pool, &Keeper<'_>),
    limit_ns: f64,
    batch: &Batch,
    left: &mut Left,
) -> Result<Vec<(Outcome, f64)>> {
    let mut outcomes = Vec::new();
    for candidate in &batch.candidates {
        if !left.any() {
            break;
        }
        left.trials -= 1;
        let began = Instant::now();
        let outcome = pool.attempt(&candidate.item, Some(limit_ns))?;
        let seconds = began.elapsed().as_secs_f64();
        keeper.log(&batch.id, candidate, task::told(&outcome), seconds)?;
        outcomes.push((outcome, seconds));
    }
    Ok(outcomes)
}
