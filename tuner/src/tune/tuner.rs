//! A run: opens the sessions of tasks, and runs their rounds, within the budget.
//!
//! `scheduler.rs` chooses the next step. Sessions are opened one by one, so that no task takes the time of
//! others before these have any.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tvmtune_ir::name::ProgramName;
use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::database::{Choice, Database, DatabaseError, StoreKind};
use tvmtune_plan::record::{KEPT_PER_ISA, Source, Tier};
use tvmtune_space::operands;

use super::budget::Budget;
use super::code::{Builder, BuilderError};
use super::event::{Event, Reason, TaskName, TaskResult};
use super::log::{Log, Trial, log_file, trials};
use super::open::Limits;
use super::options::{Hardware, Options, Reuse};
use super::recipe::Recipe;
use super::scheduler::{self, Recorded, Step, TimeLeft, WaitingTask};
use super::session::{Candidate, Context, Session};
use super::shared::Shared;
use super::spent::{Activity, TimeSpent};
use super::task::{Task, Workload};
use crate::allocation::{self, Allocator, TaskState};
use crate::executor::{MachineLockError, TuningJob};
use crate::measure::{KeptCode, Measure, MeasureError};

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Tasks that were tuned, in the order they were finished.
    pub results: Vec<TaskResult>,
    /// Tasks that could not be tuned, and why.
    pub skipped: Vec<(TaskName, String)>,
    /// Tasks that the budget did not reach.
    pub unreached: Vec<TaskName>,
    /// Tasks of which a recorded schedule was good enough before.
    pub met: Vec<TaskName>,
    /// The time of the run, by activity.
    pub times: TimeSpent,
    /// Tasks whose search the budget ended: more of it may help.
    pub n_cut_off: usize,
    /// Batches that were measured again, since the machine slowed down meanwhile.
    pub n_repeated: u64,
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

/// The share of a task's time for judging, and the time of a search for which that is worth it.
const JUDGING_SHARE: f64 = 0.15;
const SMALL_SEARCH: Duration = Duration::from_secs(4);

/// The share of a task's budget for refining recorded schedules of similar devices and ranges.
const REFINING_SHARE: f64 = 0.15;

/// Tunes workloads, stage by stage as its job gets what it needs of the machine, and writes results to
/// the database's cache after every round.
///
/// # Errors
///
/// If nothing can be measured, or nothing can be written. Errors of a single task are in the
/// summary.
pub fn run(
    workloads: &[Workload],
    options: &Options,
    database: &Database,
    job: &TuningJob<'_>,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, TuneError> {
    let device = options.device;
    let mut tuner = Tuner {
        workloads,
        options,
        database,
        device: device.key(),
        job,
        measurer: match &options.hardware {
            Hardware::Worker(command) => Box::new(command.clone().measurer(&device)),
            Hardware::Log(log) => Box::new(log.clone()),
        },
        set_up: None,
        warned_of_log: false,
        shared: Shared::load(options, database),
        on_event,
        allocator: options.scheduler.allocator(options.seed),
        over: BTreeMap::new(),
        summary: Summary::default(),
        clock: Instant::now(),
    };
    tuner.measurer.set_deadline(tuner.clock.checked_add(options.budget.total));
    let mut waiting = tuner.waiting_tasks()?;
    if let Some(what) = tuner.shared.load_warning() {
        (tuner.on_event)(Event::Warning { what });
    }
    let met = waiting.extract_if(.., |it| it.is_good_enough()).map(|it| it.task.name).collect();
    tuner.summary.met = met;
    (tuner.on_event)(Event::Started { n_tasks: waiting.len() });
    let mut sessions = Vec::new();
    while let Some(step) = tuner.next_step(&waiting, &sessions) {
        let done = match step {
            Step::Open(n) => {
                let (task, n_others) = (waiting.remove(n), waiting.len());
                let opened = tuner.open(task.clone(), n_others);
                opened.map(|it| sessions.extend(it)).inspect_err(|_| waiting.push(task))
            }
            Step::Round(n) => tuner.round(&mut sessions[n]),
        };
        match done {
            // Others had the machine until the budget was spent.
            Err(TuneError::Measure(MeasureError::Machine(MachineLockError::Busy { .. })))
                if !sessions.is_empty() || !tuner.summary.results.is_empty() =>
            {
                break;
            }
            done => done?,
        }
        if let Some(n) = sessions.iter().position(Session::is_done) {
            let session = sessions.remove(n);
            tuner.finish(session)?;
        }
    }
    for session in sessions {
        tuner.finish(session)?;
    }
    tuner.summary.unreached.extend(waiting.into_iter().map(|it| it.task.name));
    if let Some(what) = tuner.shared.save_model() {
        (tuner.on_event)(Event::Warning { what });
    }
    if let Some(kept) = &tuner.shared.kept {
        kept.prune(KeptCode::MAX_BYTES);
    }
    tuner.summary.times.total = tuner.clock.elapsed();
    Ok(tuner.summary)
}

/// The state of a run.
pub(super) struct Tuner<'a> {
    pub(super) workloads: &'a [Workload],
    pub(super) options: &'a Options,
    pub(super) database: &'a Database,
    pub(super) device: DeviceKey,
    job: &'a TuningJob<'a>,
    measurer: Box<dyn Measure>,
    /// The number of the session that the measurer is set up for.
    set_up: Option<usize>,
    /// Set once the user knows that trials cannot be logged.
    warned_of_log: bool,
    shared: Shared,
    pub(super) on_event: &'a mut dyn FnMut(Event<'_>),
    /// Chooses the task of the next round.
    allocator: Box<dyn Allocator>,
    /// The states of sessions that are finished, by their numbers.
    over: BTreeMap<usize, TaskState>,
    summary: Summary,
    clock: Instant,
}

impl Tuner<'_> {
    /// Returns the tasks, with what earlier runs know of them.
    fn waiting_tasks(&self) -> Result<Vec<WaitingTask>, TuneError> {
        let mut waiting = Vec::new();
        for (n, target) in self.options.targets.iter().enumerate() {
            let share = if n == 0 { 1.0 } else { SECONDARY_SHARE };
            let builder = Builder::new(*target, self.options.nvrtc)?;
            for (n, workload) in self.workloads.iter().enumerate() {
                let task = |ranges: &Vec<_>| Task {
                    workload: n,
                    share,
                    ..Task::new(workload, ranges, &builder)
                };
                waiting.extend(workload.buckets.iter().map(|it| self.waiting_task(task(it))));
            }
        }
        Ok(waiting)
    }

    /// Returns a task with the recorded schedules for it, of all devices.
    fn waiting_task(&self, task: Task) -> WaitingTask {
        let (tier, effort) = (Tier::Default, (0, Duration::ZERO));
        if self.options.reuse == Reuse::Ignore {
            let none = Recorded { tier, effort, ..Recorded::default() };
            return WaitingTask::new(task, none);
        }
        let workload = &self.workloads[task.workload];
        let lookup =
            self.database.get(&workload.id, &ProgramName::of(&workload.dag.name), &workload.text);
        let cold = operands::recorded(&task.cold, task.platform());
        let choices = lookup.choices(&self.device, &task.bucket, task.platform(), cold.as_deref());
        let others = choices.iter().filter(|it| it.entry.source != Source::Default);
        let is_measured = |it: &Choice<'_>| matches!(it.tier, Tier::Exact | Tier::SameIsa);
        let is_default =
            |it: &&Choice<'_>| it.entry.source == Source::Default && it.tier == Tier::Exact;
        let is_shipped = |it: &Choice<'_>| it.store != StoreKind::Cache && is_measured(it);
        let is_shipped = others.clone().next().is_some_and(is_shipped);
        let recorded = Recorded {
            tier: choices.first().map_or(tier, |it| it.tier),
            default: choices.iter().find(|it| is_default(it)).map(|it| it.entry.clone()),
            entries: others.take(KEPT_PER_ISA).map(|it| it.entry.clone()).collect(),
            is_shipped,
            // A bucket counts the effort for the first target.
            effort: match choices.first() {
                Some(it) if it.tier == Tier::Exact && it.is_as_used && task.share >= 1.0 => {
                    let bucket = it.record.bucket(&task.bucket);
                    let seconds = bucket.map_or(0.0, |it| it.seconds);
                    let spent = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                    let trials = bucket.map_or(0, |it| it.trials);
                    // Time spent on judging the default schedule is not taken from the search.
                    (trials, if trials > 1 { spent } else { Duration::ZERO })
                }
                _ => effort,
            },
        };
        WaitingTask::new(task, recorded)
    }

    /// Chooses what to do next; `None` when the budget, less the time of the final rankings, is spent.
    fn next_step(&mut self, waiting: &[WaitingTask], sessions: &[Session]) -> Option<Step> {
        let reserved: Duration = sessions.iter().map(Session::final_ranking_time).sum();
        let total = self.time_left().saturating_sub(reserved);
        let time = TimeLeft { per_task: self.options.budget.per_task, total };
        let is_first = sessions.is_empty() && self.summary.results.is_empty();
        let (allocator, over) = (self.allocator.as_mut(), &self.over);
        let mut reason = Reason::FirstSearch;
        let mut chosen = || {
            let (n, saving) = choose(allocator, sessions, over)?;
            reason = saving.map_or(Reason::Turn, Reason::Saving);
            Some(n)
        };
        let step = scheduler::next_step(waiting, sessions, time, is_first, &mut chosen);
        if let Some(Step::Round(n)) = step {
            (self.on_event)(Event::Chosen { task: &sessions[n].task.name, reason });
        }
        step
    }

    /// Opens the session of a task, while others wait; `None` if it cannot be tuned.
    fn open(
        &mut self,
        waiting: WaitingTask,
        n_others: usize,
    ) -> Result<Option<Session>, TuneError> {
        let name = waiting.task.name.clone();
        let opened = match self.open_session(waiting, n_others) {
            // A worker has no memory for these arguments; for those of others it may.
            Err(MeasureError::SetUp(why)) => Err(MeasureError::SetUp(why).to_string()),
            opened => opened?,
        };
        match opened {
            Ok(session) => {
                self.save(&session, None)?;
                Ok(Some(session))
            }
            Err(why) => {
                (self.on_event)(Event::Skipped { task: &name, why: why.clone() });
                self.summary.skipped.push((name, why));
                Ok(None)
            }
        }
    }

    /// Opens the session of a task; the inner error says why it cannot be tuned.
    fn open_session(
        &mut self,
        waiting: WaitingTask,
        n_others: usize,
    ) -> Result<Result<Session, String>, MeasureError> {
        let WaitingTask { task, recorded, .. } = waiting;
        // Other ranges of the program may have been recorded since.
        let entries = self.waiting_task(task.clone()).recorded.entries;
        let (workload, seed) = (task.workload, self.options.seed);
        let is_similar = matches!(recorded.tier, Tier::SameIsa | Tier::Transferred);
        let (recipe, share) = match self.options.reuse == Reuse::Refine && is_similar {
            true => (Recipe::refine(), REFINING_SHARE),
            false => (self.options.recipe, 1.0),
        };
        let budget = self.options.budget.scaled(task.share * share);
        let limits = Limits { judging: self.judging_limit(&budget, n_others), budget };
        let logged = match self.options.reuse {
            Reuse::Ignore => Vec::new(),
            Reuse::Compete | Reuse::Refine | Reuse::CatchUp => trials(&self.log_path(workload)),
        };
        let is_catching_up = self.options.reuse == Reuse::CatchUp;
        let (opened, times) = self.with_context(workload, false, |ctx| {
            let mut session = match Session::open(task, recipe, seed, limits, ctx)? {
                Ok(session) => session,
                Err(why) => return Ok(Err(why)),
            };
            session.resume(&logged, recorded.effort.1);
            if is_catching_up {
                session.only_catch_up();
            }
            session.measure_recorded(&entries, recorded.is_shipped, ctx)?;
            if let Some(default) = &recorded.default {
                session.replace_default(default, ctx)?;
            }
            Ok(Ok(session))
        })?;
        Ok(opened.map(|mut session| {
            session.times.add(&times);
            session
        }))
    }

    /// Returns the time limit of judging a task: a share of what the task may get.
    fn judging_limit(&self, budget: &Budget, n_others: usize) -> Duration {
        let fair = self.time_left() / (n_others as u32 + 1);
        fair.max(SMALL_SEARCH).min(budget.per_task).mul_f64(JUDGING_SHARE)
    }

    /// Runs a round of a session, and saves an improvement.
    fn round(&mut self, session: &mut Session) -> Result<(), TuneError> {
        let workload = session.task.workload;
        let (improved, times) = self.with_context(workload, false, |ctx| session.round(ctx))?;
        session.times.add(&times);
        if improved {
            let id = &self.workloads[session.task.workload].id;
            session.publish(id, &mut self.shared);
            self.save(session, None)?;
        }
        Ok(())
    }

    /// Ranks the best candidates of a session, and saves them.
    fn finish(&mut self, mut session: Session) -> Result<(), TuneError> {
        let mut state = std::mem::take(&mut session.state);
        state.history.end();
        self.over.insert(session.number, state);
        self.summary.n_repeated += session.n_repeated;
        self.summary.n_cut_off += usize::from(!session.needs_no_more());
        let seed = self.options.seed;
        let ranked = self.with_context(session.task.workload, true, |ctx| {
            let clock = ctx.clock();
            let ranked = ctx.timed(Activity::Comparing, |ctx| session.final_ranking(seed, ctx))?;
            session.spent += ctx.since(clock);
            Ok(ranked)
        });
        let (ranked, times) = match ranked {
            // The records that its rounds saved stay.
            Err(MeasureError::Machine(error @ MachineLockError::Busy { .. })) => {
                let what = format!("{} was not ranked: {error}", session.task.name);
                (self.on_event)(Event::Warning { what });
                self.summary.unreached.push(session.task.name);
                return Ok(());
            }
            ranked => ranked?,
        };
        session.times.add(&times);
        session.times.total = session.spent.saturating_sub(session.spent_earlier);
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
            shipped_ns: session.shipped_ns(&ranked),
            former: session.former_code(best),
            source: best.source,
            trials: session.trials,
            seconds: session.spent.as_secs_f64(),
            times: session.times,
            failures: session.failures,
        };
        self.save(&session, Some(&ranked))?;
        self.keep(&session, best);
        (self.on_event)(Event::Finished { task: &session.task.name, result: &result });
        self.summary.results.push(result);
        Ok(())
    }

    /// Keeps the code of the best candidate, beside which a later release times what it makes of the trace.
    fn keep(&mut self, session: &Session, best: &Candidate) {
        let kept = self.shared.kept.as_ref();
        if let Some(Err(error)) = kept.map(|it| it.store(&best.job, &session.reference.cases)) {
            (self.on_event)(Event::Warning { what: error.to_string() });
        }
    }

    /// Calls `f` with the context of a session of that workload; returns its time by activity, too.
    fn with_context<R>(
        &mut self,
        workload: usize,
        is_final: bool,
        f: impl FnOnce(&mut Context<'_>) -> Result<R, MeasureError>,
    ) -> Result<(R, TimeSpent), MeasureError> {
        let mut log = Log::new(self.log_path(workload));
        let mut log_error = None;
        let mut append = |trial: &Trial| {
            if let Err(error) = log.append(trial) {
                log_error = Some(error);
            }
        };
        let mut ctx = Context {
            workload: &self.workloads[workload],
            measurer: self.measurer.as_mut(),
            set_up: &mut self.set_up,
            job: self.job,
            device: self.options.device,
            deadline: self.clock.checked_add(self.options.budget.total),
            is_final,
            shared: &mut self.shared,
            log: &mut append,
            on_event: self.on_event,
            times: TimeSpent::default(),
        };
        let result = f(&mut ctx);
        let times = ctx.times;
        self.summary.times.add(&times);
        if let Some(error) = log_error.filter(|_| !std::mem::replace(&mut self.warned_of_log, true))
        {
            let what = format!("cannot write `{}`: {error}", self.log_path(workload).display());
            (self.on_event)(Event::Warning { what });
        }
        Ok((result?, times))
    }

    /// Returns the file of the trials of a workload.
    fn log_path(&self, workload: usize) -> PathBuf {
        let Workload { id, dag, .. } = &self.workloads[workload];
        let cache = self.database.cache();
        cache.map(|it| log_file(it, &dag.name, id, &self.device)).unwrap_or_default()
    }

    /// Returns the time that is left of the budget.
    pub(super) fn time_left(&self) -> Duration {
        self.options.budget.total.saturating_sub(self.clock.elapsed())
    }
}

/// Returns the session that an allocator chooses for the next round, and the share of the time of all tasks
/// that it is expected to save. The allocator sees finished ones as well, so that the numbers of tasks stay the
/// same.
fn choose(
    allocator: &mut dyn Allocator,
    sessions: &[Session],
    over: &BTreeMap<usize, TaskState>,
) -> Option<(usize, Option<f64>)> {
    let mut all: BTreeMap<usize, &TaskState> = over.iter().map(|(n, it)| (*n, it)).collect();
    all.extend(sessions.iter().map(|it| (it.number, &it.state)));
    let states: Vec<&TaskState> = all.values().copied().collect();
    let allocation::Choice { task, saving_ns } = allocator.next(&states)?;
    let number = *all.keys().nth(task)?;
    let weighted = states.iter().map(|it| it.weight * it.history.best_ns());
    let total: f64 = weighted.filter(|it| it.is_finite()).sum();
    let saving = saving_ns.map(|it| it * states[task].weight / total).filter(|it| it.is_finite());
    Some((sessions.iter().position(|it| it.number == number)?, saving))
}
