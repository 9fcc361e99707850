//! The tuning loop: steps 3 to 9 for many candidates, of many tasks, within a budget.
//!
//! In: [`Workload`]s. Out: records in the user's cache, and a [`Summary`]. Next: the build plan
//! finds them there.
//!
//! Read `session.rs` for one task, `code.rs` for what makes its code, `round.rs` for what happens to
//! its candidates, `judge.rs` for what they must compute, `finals.rs` for how the best of them is
//! found, `keep.rs` for what is remembered, and here for who gets the next round.
//!
//! # Invariants
//!
//! - The default schedule is measured first, and is among the candidates to the end: what is
//!   remembered is never slower than it, as far as can be measured.
//! - Nothing is remembered that was not verified at every extent that is awkward, and on two sets
//!   of numbers.
//! - What was found is on disk after every round: a kill loses the trial in flight.

mod bench;
mod budget;
mod code;
mod event;
mod finals;
mod guard;
mod judge;
mod keep;
mod knowledge;
mod log;
mod recipe;
mod round;
pub mod sample;
mod session;
mod task;
mod verify;

use std::path::PathBuf;
use std::time::Duration;

use tvmtune_ir::target::{DeviceKey, Target};
use tvmtune_plan::record::{Entry, KEPT_PER_ISA, Provenance, Source, Tier};
use tvmtune_runtime::cuda::nvrtc::{Nvrtc, NvrtcError};

use crate::measure::{Exclusive, Measure, MeasureError, Replayed, WorkerCommand};
use budget::Stopwatch;
use code::Maker;
use knowledge::Knowledge;
use log::Log;
use session::{Context, Session};
use task::Task;
use tvmtune_plan::database::{Database, DatabaseError};

pub use bench::{Contestant, bench};
pub use budget::Budget;
pub use event::{Event, TaskName, TaskResult};
pub use log::{Stage, Trial, replayed, trials};
pub use recipe::{Recipe, Rules, Search, Sharing, When};
pub use task::{Tolerance, Workload};
pub use verify::verify;

/// How to tune.
#[derive(Clone, Debug)]
pub struct Options {
    /// A device of this machine, and after it what it can stand for: CPUs of a lesser instruction
    /// set. The first gets the whole budget of a task; others, for machines that have less, a fifth:
    /// what differs between instruction sets is mostly how many registers there are, which the
    /// default schedule knows.
    pub targets: Vec<Target>,
    /// What compiles for GPUs; `None` stands for the NVRTC of this machine.
    pub nvrtc: Option<&'static Nvrtc>,
    /// What may be spent.
    pub budget: Budget,
    /// Whether what was found on a near device, or for other ranges, is only refined, with a small
    /// share of the budget; else it competes with what a search finds.
    pub refines: bool,
    /// From which all random choices follow.
    pub seed: u64,
    /// What tells how long candidates take.
    pub hardware: Hardware,
    /// Threads that search; what they find does not depend on how many there are.
    pub n_threads: usize,
    /// How tasks are searched.
    pub recipe: Recipe,
    /// Whether what earlier sessions found is ignored, and what they spent.
    pub afresh: bool,
    /// What to write into records.
    pub provenance: Provenance,
}

/// What tells how long candidates take.
#[derive(Clone, Debug)]
pub enum Hardware {
    /// This machine, in a worker started like that.
    Worker(WorkerCommand),
    /// What was logged.
    Log(Replayed),
}

/// How tuning went.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Tasks that were tuned, in the order they were finished.
    pub results: Vec<TaskResult>,
    /// Tasks that could not be tuned, and why.
    pub skipped: Vec<(TaskName, String)>,
    /// Tasks that the budget did not reach.
    pub unreached: Vec<TaskName>,
    /// Wall time.
    pub seconds: f64,
    /// What of it went into generating code.
    pub generating_seconds: f64,
    /// What of it went into verifying and timing candidates.
    pub measuring_seconds: f64,
}

/// Why tuning stopped.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// Nothing can be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// Nothing compiles for a GPU.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// Results cannot be written.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Options {
    /// The device that is measured.
    ///
    /// # Panics
    ///
    /// If there is no target.
    pub fn device(&self) -> Target {
        *self.targets.first().expect("something is tuned for")
    }
}

/// The share of a task's budget for instruction sets after the first.
const SECONDARY_SHARE: f64 = 0.2;

/// The share of a task's budget for refining what is known from near devices and ranges.
const REFINING_SHARE: f64 = 0.15;

/// Tunes workloads, and writes what it finds to the database's cache as it goes.
///
/// # Errors
///
/// If nothing can be measured, or nothing can be written. What goes wrong with a single task is in
/// the summary.
pub fn run(
    workloads: &[Workload],
    options: &Options,
    database: &Database,
    _exclusive: &Exclusive,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, TuneError> {
    let device = options.device();
    let mut tuner = Tuner {
        workloads,
        options,
        database,
        device: device.key(),
        measurer: match &options.hardware {
            Hardware::Worker(command) => Box::new(command.clone().measurer(&device)),
            Hardware::Log(log) => Box::new(log.clone()),
        },
        set_up: None,
        knowledge: Knowledge::gather(options, database),
        on_event,
        summary: Summary::default(),
        watch: Stopwatch::start(),
    };
    let tasks = tuner.tasks()?;
    if let Some(what) = tuner.knowledge.trouble() {
        (tuner.on_event)(Event::Warning { what });
    }
    (tuner.on_event)(Event::Started { n_tasks: tasks.len() });
    let mut sessions = tuner.open(tasks)?;
    while let Some(next) = tuner.next(&sessions) {
        tuner.round(&mut sessions[next])?;
        if sessions[next].is_done() {
            let session = sessions.remove(next);
            tuner.finish(session)?;
        }
    }
    for session in sessions {
        tuner.finish(session)?;
    }
    if let Some(what) = tuner.knowledge.keep() {
        (tuner.on_event)(Event::Warning { what });
    }
    tuner.summary.seconds = tuner.watch.elapsed().as_secs_f64();
    Ok(tuner.summary)
}

struct Tuner<'a> {
    workloads: &'a [Workload],
    options: &'a Options,
    database: &'a Database,
    device: DeviceKey,
    measurer: Box<dyn Measure>,
    /// The number of the task that the measurer was told of last, if it is one that goes on.
    set_up: Option<usize>,
    knowledge: Knowledge,
    on_event: &'a mut dyn FnMut(Event<'_>),
    summary: Summary,
    watch: Stopwatch,
}

impl Tuner<'_> {
    /// The tasks: those of the first target before any other.
    fn tasks(&self) -> Result<Vec<Task>, TuneError> {
        let mut tasks = Vec::new();
        for (n, target) in self.options.targets.iter().enumerate() {
            let share = if n == 0 { 1.0 } else { SECONDARY_SHARE };
            let maker = Maker::new(*target, self.options.nvrtc)?;
            for workload in self.workloads.iter().enumerate() {
                let task = |bucket: &Vec<_>| Task::new(workload, bucket, &maker, share);
                tasks.extend(workload.1.buckets.iter().map(task));
            }
        }
        Ok(tasks)
    }

    /// Measures the default schedule of each task, as far as the budget goes.
    fn open(&mut self, tasks: Vec<Task>) -> Result<Vec<Session>, TuneError> {
        let mut sessions = Vec::new();
        for task in tasks {
            if self.left().is_zero() {
                self.summary.unreached.push(task.name);
                continue;
            }
            let name = task.name.clone();
            match self.open_one(task)? {
                Ok(session) => {
                    self.save(&session, None)?;
                    sessions.push(session);
                }
                Err(why) => {
                    (self.on_event)(Event::Skipped { task: &name, why: why.clone() });
                    self.summary.skipped.push((name, why));
                }
            }
        }
        Ok(sessions)
    }

    fn open_one(&mut self, task: Task) -> Result<Result<Session, String>, TuneError> {
        let (workload, seed) = (task.workload, self.options.seed);
        let (tier, known) = self.known(&task);
        let is_near = matches!(tier, Tier::SameIsa | Tier::Transferred);
        let (recipe, share) = match self.options.refines && is_near {
            true => (Recipe::REFINE, REFINING_SHARE),
            false => (self.options.recipe, 1.0),
        };
        let budget = self.options.budget.scaled(task.share * share);
        let past = match self.options.afresh {
            true => Vec::new(),
            false => trials(&self.log_path(workload)),
        };
        let opened = self.with_context(workload, |ctx| {
            let mut session = match Session::open(task, budget, (recipe, seed), ctx)? {
                Ok(session) => session,
                Err(why) => return Ok(Err(why)),
            };
            session.resume(&past);
            session.invite(&known, ctx)?;
            Ok(Ok(session))
        })?;
        Ok(opened)
    }

    /// The schedules that the database has for a task, of whichever device, and how near the best
    /// of them is; nothing where tuning starts afresh.
    fn known(&self, task: &Task) -> (Tier, Vec<Entry>) {
        if self.options.afresh {
            return (Tier::Default, Vec::new());
        }
        let workload = &self.workloads[task.workload];
        let lookup = self.database.get(&workload.id, &workload.dag.name, &workload.text);
        let choices = lookup.choices(&self.device, &task.bucket, task.platform());
        let tier = choices.first().map_or(Tier::Default, |it| it.tier);
        let others = choices.iter().filter(|it| it.entry.source != Source::Default);
        (tier, others.take(KEPT_PER_ISA).map(|it| it.entry.clone()).collect())
    }

    /// The session that gets the next round; `None` when all is done or spent but for the finals.
    fn next(&self, sessions: &[Session]) -> Option<usize> {
        let finals: Duration = sessions.iter().map(Session::finals_time).sum();
        if self.left() <= finals {
            return None;
        }
        let gain = |it: &(usize, &Session)| it.1.expected_gain();
        let gains = sessions.iter().enumerate().map(|it| (gain(&it), it.0));
        // Of equals the first, so that every task gets its first round in order.
        let best = gains.fold(None, |best: Option<(f64, usize)>, it| match best {
            Some(best) if best.0 >= it.0 => Some(best),
            _ => Some(it),
        });
        best.map(|(_, n)| n)
    }

    fn round(&mut self, session: &mut Session) -> Result<(), TuneError> {
        if session.is_done() {
            return Ok(());
        }
        let is_set_up = self.set_up == Some(session.number);
        let improved = self.with_context(session.task.workload, |ctx| {
            if !is_set_up {
                session.set_up(ctx)?;
            }
            session.round(ctx)
        })?;
        self.set_up = Some(session.number);
        if improved {
            let id = &self.workloads[session.task.workload].id;
            self.knowledge.publish(session, id);
            self.save(session, None)?;
        }
        Ok(())
    }

    fn finish(&mut self, mut session: Session) -> Result<(), TuneError> {
        let watch = Stopwatch::start();
        let seed = self.options.seed;
        self.set_up = None;
        let ranked = self.with_context(session.task.workload, |ctx| session.finals(seed, ctx))?;
        session.spent += watch.elapsed();
        let default = ranked.iter().find(|it| it.source == Source::Default);
        let (Some(best), Some(default)) = (ranked.first(), default) else {
            let why = "nothing that was fast was right every time".to_owned();
            (self.on_event)(Event::Skipped { task: &session.task.name, why: why.clone() });
            self.summary.skipped.push((session.task.name, why));
            return Ok(());
        };
        let found = ranked.iter().find(|it| it.source != Source::Default);
        let result = TaskResult {
            found_ns: found.map(|it| it.timing.typical_ns()),
            task: session.task.name.clone(),
            default_ns: default.timing.typical_ns(),
            best_ns: best.timing.typical_ns(),
            source: best.source,
            trials: session.trials,
            seconds: session.spent.as_secs_f64(),
            failures: session.failures,
        };
        self.save(&session, Some(&ranked))?;
        (self.on_event)(Event::Finished { task: &session.task.name, result: &result });
        self.summary.results.push(result);
        Ok(())
    }

    /// Calls `f` with what a session of that workload needs.
    fn with_context<R>(
        &mut self,
        workload: usize,
        f: impl FnOnce(&mut Context<'_>) -> Result<R, MeasureError>,
    ) -> Result<R, MeasureError> {
        let mut log = Log::new(self.log_path(workload));
        let mut trouble = None;
        let (mut generate_ms, mut measure_ms) = (0.0, 0.0);
        let mut append = |trial: &Trial| {
            generate_ms += trial.generate_ms;
            measure_ms += trial.measure_ms;
            if let Err(error) = log.append(trial) {
                trouble = Some(error);
            }
        };
        let result = f(&mut Context {
            workload: &self.workloads[workload],
            measurer: self.measurer.as_mut(),
            knowledge: &mut self.knowledge,
            log: &mut append,
            on_event: self.on_event,
        });
        self.summary.generating_seconds += generate_ms / 1e3;
        self.summary.measuring_seconds += measure_ms / 1e3;
        if let Some(error) = trouble {
            let what = format!("cannot write `{}`: {error}", self.log_path(workload).display());
            (self.on_event)(Event::Warning { what });
        }
        result
    }

    /// Where the trials of a workload go.
    fn log_path(&self, workload: usize) -> PathBuf {
        let Workload { id, dag, .. } = &self.workloads[workload];
        let trials =
            self.database.cache().map(tvmtune_plan::database::Cache::trials).unwrap_or_default();
        let device = self.device.0.replace(':', "_");
        trials.join(&dag.name).join(format!("{}.{device}.jsonl", &id[..12.min(id.len())]))
    }

    /// What is left of the budget.
    fn left(&self) -> Duration {
        self.options.budget.total.saturating_sub(self.watch.elapsed())
    }
}
