//! Allocates the budget of a run to tasks, round by round.
//!
//! The next round goes to the task with the highest expected gain per second: Ansor's task scheduler.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::database::{Cache, Database, DatabaseError, folder_name};
use tvmtune_plan::record::{Entry, KEPT_PER_ISA, Source, Tier};

use super::code::{Builder, BuilderError};
use super::event::{Event, TaskName, TaskResult};
use super::log::{Log, Trial, trials};
use super::options::{Hardware, Options, Reuse};
use super::recipe::Recipe;
use super::session::{Context, Session};
use super::shared::Shared;
use super::task::{Task, Workload};
use crate::measure::{Exclusive, Measure, MeasureError};

/// The results of a run.
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
    /// The part of it spent on generating code.
    pub generating_seconds: f64,
    /// The part of it spent on verifying and timing candidates.
    pub measuring_seconds: f64,
}

/// The error that stopped a run.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// Nothing can be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// No code can be built for a target.
    #[error(transparent)]
    Builder(#[from] BuilderError),
    /// Results cannot be written.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// The share of a task's budget for instruction sets after the first.
const SECONDARY_SHARE: f64 = 0.2;

/// The share of a task's budget for refining recorded schedules of similar devices and ranges.
const REFINING_SHARE: f64 = 0.15;

/// Tunes workloads, and writes results to the database's cache after every round.
///
/// # Errors
///
/// If nothing can be measured, or nothing can be written. Errors of a single task are in the
/// summary.
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
        shared: Shared::load(options, database),
        on_event,
        summary: Summary::default(),
        clock: Instant::now(),
    };
    let tasks = tuner.tasks()?;
    if let Some(what) = tuner.shared.load_warning() {
        (tuner.on_event)(Event::Warning { what });
    }
    (tuner.on_event)(Event::Started { n_tasks: tasks.len() });
    let mut sessions = tuner.open(tasks)?;
    while let Some(next) = tuner.next_session(&sessions) {
        tuner.round(&mut sessions[next])?;
        if sessions[next].is_done() {
            let session = sessions.remove(next);
            tuner.finish(session)?;
        }
    }
    for session in sessions {
        tuner.finish(session)?;
    }
    if let Some(what) = tuner.shared.save_model() {
        (tuner.on_event)(Event::Warning { what });
    }
    tuner.summary.seconds = tuner.clock.elapsed().as_secs_f64();
    Ok(tuner.summary)
}

/// The state of a run.
pub(super) struct Tuner<'a> {
    pub(super) workloads: &'a [Workload],
    pub(super) options: &'a Options,
    pub(super) database: &'a Database,
    pub(super) device: DeviceKey,
    measurer: Box<dyn Measure>,
    /// The number of the task that the measurer is set up for.
    set_up: Option<usize>,
    shared: Shared,
    pub(super) on_event: &'a mut dyn FnMut(Event<'_>),
    summary: Summary,
    clock: Instant,
}

impl Tuner<'_> {
    /// Returns the tasks, those of the first target before any other.
    fn tasks(&self) -> Result<Vec<Task>, TuneError> {
        let mut tasks = Vec::new();
        for (n, target) in self.options.targets.iter().enumerate() {
            let share = if n == 0 { 1.0 } else { SECONDARY_SHARE };
            let builder = Builder::new(*target, self.options.nvrtc)?;
            for (n, workload) in self.workloads.iter().enumerate() {
                let task = |ranges: &Vec<_>| Task {
                    workload: n,
                    share,
                    ..Task::new(workload, ranges, &builder)
                };
                tasks.extend(workload.buckets.iter().map(task));
            }
        }
        Ok(tasks)
    }

    /// Opens a session for each task, within the budget.
    fn open(&mut self, tasks: Vec<Task>) -> Result<Vec<Session>, TuneError> {
        let mut sessions = Vec::new();
        for task in tasks {
            if self.time_left().is_zero() {
                self.summary.unreached.push(task.name);
                continue;
            }
            let name = task.name.clone();
            match self.open_session(task)? {
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

    /// Opens the session of a task; the inner error says why it cannot be tuned.
    fn open_session(&mut self, task: Task) -> Result<Result<Session, String>, TuneError> {
        let (workload, seed) = (task.workload, self.options.seed);
        let (tier, recorded) = self.recorded(&task);
        let is_similar = matches!(tier, Tier::SameIsa | Tier::Transferred);
        let (recipe, share) = match self.options.reuse == Reuse::Refine && is_similar {
            true => (Recipe::refine(), REFINING_SHARE),
            false => (self.options.recipe, 1.0),
        };
        let budget = self.options.budget.scaled(task.share * share);
        let logged = match self.options.reuse {
            Reuse::Ignore => Vec::new(),
            Reuse::Compete | Reuse::Refine => trials(&self.log_path(workload)),
        };
        let opened = self.with_context(workload, |ctx| {
            let mut session = match Session::open(task, recipe, seed, budget, ctx)? {
                Ok(session) => session,
                Err(why) => return Ok(Err(why)),
            };
            session.resume(&logged);
            session.measure_recorded(&recorded, ctx)?;
            Ok(Ok(session))
        })?;
        Ok(opened)
    }

    /// Returns the recorded schedules for a task, of all devices, with the tier of the best one.
    fn recorded(&self, task: &Task) -> (Tier, Vec<Entry>) {
        if self.options.reuse == Reuse::Ignore {
            return (Tier::Default, Vec::new());
        }
        let workload = &self.workloads[task.workload];
        let lookup = self.database.get(&workload.id, &workload.dag.name, &workload.text);
        let choices = lookup.choices(&self.device, &task.bucket, task.platform());
        let tier = choices.first().map_or(Tier::Default, |it| it.tier);
        let others = choices.iter().filter(|it| it.entry.source != Source::Default);
        (tier, others.take(KEPT_PER_ISA).map(|it| it.entry.clone()).collect())
    }

    /// Chooses the session of the next round; `None` when the budget, less the time of the final
    /// rankings, is spent.
    fn next_session(&self, sessions: &[Session]) -> Option<usize> {
        let reserved: Duration = sessions.iter().map(Session::final_ranking_time).sum();
        if self.time_left() <= reserved {
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

    /// Runs a round of a session, and saves an improvement.
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
            session.publish(id, &mut self.shared);
            self.save(session, None)?;
        }
        Ok(())
    }

    /// Ranks the best candidates of a session, and saves them.
    fn finish(&mut self, mut session: Session) -> Result<(), TuneError> {
        let clock = Instant::now();
        let seed = self.options.seed;
        self.set_up = None;
        let ranked =
            self.with_context(session.task.workload, |ctx| session.final_ranking(seed, ctx))?;
        session.spent += clock.elapsed();
        let default = ranked.iter().find(|it| it.source == Source::Default);
        let (Some(best), Some(default)) = (ranked.first(), default) else {
            let why = "no candidate was right in every verification".to_owned();
            (self.on_event)(Event::Skipped { task: &session.task.name, why: why.clone() });
            self.summary.skipped.push((session.task.name, why));
            return Ok(());
        };
        let searched = ranked.iter().find(|it| it.source != Source::Default);
        let result = TaskResult {
            found_ns: searched.map(|it| it.timing.typical_ns()),
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

    /// Calls `f` with the context of a session of that workload.
    fn with_context<R>(
        &mut self,
        workload: usize,
        f: impl FnOnce(&mut Context<'_>) -> Result<R, MeasureError>,
    ) -> Result<R, MeasureError> {
        let mut log = Log::new(self.log_path(workload));
        let mut log_error = None;
        let (mut generate_ms, mut measure_ms) = (0.0, 0.0);
        let mut append = |trial: &Trial| {
            generate_ms += trial.generate_ms;
            measure_ms += trial.measure_ms;
            if let Err(error) = log.append(trial) {
                log_error = Some(error);
            }
        };
        let result = f(&mut Context {
            workload: &self.workloads[workload],
            measurer: self.measurer.as_mut(),
            shared: &mut self.shared,
            log: &mut append,
            on_event: self.on_event,
        });
        self.summary.generating_seconds += generate_ms / 1e3;
        self.summary.measuring_seconds += measure_ms / 1e3;
        if let Some(error) = log_error {
            let what = format!("cannot write `{}`: {error}", self.log_path(workload).display());
            (self.on_event)(Event::Warning { what });
        }
        result
    }

    /// Returns the file of the trials of a workload.
    fn log_path(&self, workload: usize) -> PathBuf {
        let Workload { id, dag, .. } = &self.workloads[workload];
        let trials = self.database.cache().map(Cache::trials).unwrap_or_default();
        let device = self.device.0.replace(':', "_");
        trials
            .join(folder_name(&dag.name))
            .join(format!("{}.{device}.jsonl", &id[..12.min(id.len())]))
    }

    /// Returns the time that is left of the budget.
    fn time_left(&self) -> Duration {
        self.options.budget.total.saturating_sub(self.clock.elapsed())
    }
}
