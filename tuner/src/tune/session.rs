//! One task while it is tuned: what was tried, what is best, what is left to spend.

use std::collections::BTreeMap;
use std::time::Duration;

use tvmtune_ir::target::Target;
use tvmtune_plan::record::{Entry, GENERATOR, Source};
use tvmtune_schedule::Instruction;
use tvmtune_space::default;

use super::budget::{Budget, Stopwatch};
use super::event::Event;
use super::guard::{self, Canary};
use super::judge::{self, Reference};
use super::knowledge::{Knowledge, Visits};
use super::log::Trial;
use super::recipe::{Recipe, Rules};
use super::round::{Origin, Proposed};
use super::task::{Task, Workload};
use crate::cost;
use crate::measure::{Job, Measure, MeasureError};
use crate::outcome::{Outcome, Timing};
use crate::search::{Score, Strategy};
use crate::space::{Point, Space};

/// Candidates of one round: enough to learn from, and few enough to turn to another task.
pub(super) const ROUND: usize = 32;
/// Trials in a row without a better candidate after which a task is done.
const STALE: u64 = 300;
/// A candidate that works.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Where it is in the space, if it is from there.
    pub(super) point: Option<Point>,
    pub(super) trace: Vec<Instruction>,
    pub(super) artifact: String,
    pub(super) source: Source,
    /// Threads that run it.
    pub(super) threads: u32,
    pub(super) job: Job,
    pub(super) timing: Timing,
}

/// A task that is being tuned.
pub(super) struct Session {
    pub(super) task: Task,
    pub(super) space: Space,
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) recipe: Recipe,
    pub(super) draft: Box<dyn Score>,
    /// The task's number in the cost model.
    pub(super) number: usize,
    pub(super) visits: Visits,
    pub(super) reference: Reference,
    /// What became of code, by its identity: different points may make the same.
    pub(super) seen: BTreeMap<String, Outcome>,
    /// Where what was measured came from.
    pub(super) origins: BTreeMap<Point, Origin>,
    pub(super) canary: Option<Canary>,
    /// How many times as slow the machine is now as when the task began.
    pub(super) slowdown: f64,
    /// No timing below this is true.
    pub(super) limit_ns: f64,
    /// What works, fastest first; the default schedule is among them, wherever it stands.
    pub(super) good: Vec<Candidate>,
    /// The best latency when the last round began, and how long that round took.
    pub(super) last_round: Option<(f64, Duration)>,
    budget: Budget,
    pub(super) trials: u64,
    pub(super) failures: u64,
    pub(super) trials_at_best: u64,
    pub(super) spent: Duration,
    /// The time it took to find out what to compute.
    pub(super) preparation: Duration,
    pub(super) exhausted: bool,
}

/// What a session needs of the world.
pub(super) struct Context<'a> {
    pub(super) workload: &'a Workload,
    pub(super) measurer: &'a mut dyn Measure,
    pub(super) knowledge: &'a mut Knowledge,
    /// Where trials go.
    pub(super) log: &'a mut dyn FnMut(&Trial),
    pub(super) on_event: &'a mut dyn FnMut(Event<'_>),
}

impl Session {
    /// Prepares a task, and measures its default schedule; the inner error says why it cannot be
    /// tuned.
    pub(super) fn open(
        task: Task,
        budget: Budget,
        (recipe, seed): (Recipe, u64),
        ctx: &mut Context<'_>,
    ) -> Result<Result<Self, String>, MeasureError> {
        let watch = Stopwatch::start();
        let target = task.target();
        let schedule = default::schedule(&task.dag, &target);
        let code = match task.make(&schedule.trace) {
            Ok(code) => code,
            Err(why) => return Ok(Err(why)),
        };
        let reference = match judge::reference(&task, &task.dims(), seed, ctx.measurer)? {
            Ok(reference) => reference,
            Err(why) => return Ok(Err(why)),
        };
        let space = match recipe.space {
            Rules::Tvmtune => Space::new(&task.dag, &target),
            Rules::Ansor => Space::ansor(&task.dag, &target),
        };
        let is_analytic = space.is_analytic && recipe.analytic;
        let space = Space { is_analytic, ..space };
        let mut session = Self {
            strategy: recipe.strategy(seed, budget.trials),
            draft: draft(&task, ctx.knowledge.n_threads),
            limit_ns: guard::limit_ns(&task.dag, &task.dims()[0], &target),
            task,
            space,
            recipe,
            number: ctx.knowledge.n_tasks(),
            visits: Visits::default(),
            reference,
            seen: BTreeMap::new(),
            origins: BTreeMap::new(),
            canary: None,
            slowdown: 1.0,
            good: Vec::new(),
            last_round: None,
            budget,
            trials: 0,
            failures: 0,
            trials_at_best: 0,
            spent: Duration::ZERO,
            preparation: watch.elapsed(),
            exhausted: false,
        };
        session.set_up(ctx)?;
        let point = session.space.defaults().into_iter().next();
        let point = point.filter(|it| session.space.instructions(it) == schedule.trace);
        let proposed = Proposed { point, ..Proposed::new(Source::Default, schedule.trace) };
        let outcome = session.try_out(&proposed, Ok(code), ctx)?;
        let Some(timing) = outcome.timing() else {
            return Ok(Err(format!("its default schedule {outcome}")));
        };
        (ctx.on_event)(Event::Default { task: &session.task.name, ns: timing.min_ns() });
        let policy = session.task.maker.policy();
        session.canary = session.good.first().cloned().and_then(|it| Canary::new(it, policy));
        session.spent = watch.elapsed();
        Ok(Ok(session))
    }

    /// Tells the worker what this task computes.
    pub(super) fn set_up(&self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        ctx.measurer.set_up(&self.reference.cases, Some(&self.reference.expected))
    }

    /// Learns what earlier sessions found out.
    pub(super) fn resume(&mut self, trials: &[Trial]) {
        let (isa, bucket) = (self.task.platform().to_string(), self.task.bucket_key());
        let of_this =
            |it: &&Trial| it.generator == GENERATOR && it.isa == isa && it.bucket == bucket;
        for trial in trials.iter().filter(of_this) {
            self.trials += 1;
            self.spent += Duration::from_secs_f64((trial.generate_ms + trial.measure_ms) / 1e3);
            if let Some(point) = self.point(trial) {
                // Code that was fast on another day competes again in the finals; here it only
                // shows where to look.
                self.strategy.observe(&point, &trial.outcome);
            }
        }
        self.trials_at_best = self.trials;
    }

    /// The point of a trial, if the space still has it and it still means the same.
    fn point(&self, trial: &Trial) -> Option<Point> {
        let sketch = self.space.sketches.iter().position(|it| it.name == trial.sketch)?;
        let decisions = &self.space.sketches[sketch].decisions;
        let fits = decisions.len() == trial.choices.len()
            && decisions.iter().zip(&trial.choices).all(|(it, n)| (*n as usize) < it.options.len());
        let point = Point { sketch: sketch as u16, choices: trial.choices.clone() };
        (fits && lines(&self.space.instructions(&point)) == trial.trace).then_some(point)
    }

    /// Lets schedules that a database has compete, as if they were proposed.
    pub(super) fn invite(
        &mut self,
        entries: &[Entry],
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        for entry in entries {
            let parsed: Result<Vec<Instruction>, _> =
                entry.trace.iter().map(|it| it.parse()).collect();
            if let Ok(trace) = parsed {
                let code = self.task.make(&trace);
                // What replays is a point, so that it has neighbors.
                let target = self.task.target();
                let point = code
                    .is_ok()
                    .then(|| self.space.import_trace(&self.task.dag, &target, &trace, "recorded"));
                let proposed = Proposed { point, ..Proposed::new(entry.source, trace) };
                self.try_out(&proposed, code, ctx)?;
            }
        }
        Ok(())
    }

    /// Whether code of that identity was measured in this session.
    pub(super) fn was_measured(&self, artifact: &str) -> bool {
        self.seen.contains_key(artifact)
    }

    /// What it may spend.
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether there is nothing left to try, or to spend but for the finals.
    pub(super) fn is_done(&self) -> bool {
        self.is_complete()
            || self.trials >= self.budget.trials
            || self.spent + self.finals_time() >= self.budget.per_task
    }

    /// Whether there is nothing left to try, or little hope.
    pub(super) fn is_complete(&self) -> bool {
        self.exhausted || self.trials >= self.trials_at_best + STALE
    }

    /// The latency of the best candidate.
    pub(super) fn best_ns(&self) -> f64 {
        // What analysis chose does not count where search has to do without it.
        let counts = |it: &&Candidate| self.recipe.analytic || it.source != Source::Default;
        self.good.iter().find(counts).map_or(f64::INFINITY, |it| it.timing.min_ns())
    }

    /// What another second spent here may gain, in ns for each time the program runs: what the
    /// last round gained, but never nothing, and much while little was tried.
    pub(super) fn expected_gain(&self) -> f64 {
        let hope = self.best_ns() / (1.0 + self.trials as f64 / ROUND as f64);
        let rate = self.last_round.map_or(f64::INFINITY, |(before, time)| {
            let gained = (before - self.best_ns()).max(0.05 * hope);
            gained / time.as_secs_f64().max(1e-3)
        });
        self.task.weight * rate
    }
}

impl Task {
    /// The ranges, as the log keeps them.
    pub(super) fn bucket_key(&self) -> Vec<(i64, i64)> {
        self.bucket.iter().map(|it| (it.lo, it.hi)).collect()
    }
}

/// What analysis says of the points of a task.
fn draft(task: &Task, n_threads: usize) -> Box<dyn Score> {
    match task.target() {
        Target::Cpu(cpu) => Box::new(cost::Draft::new(&task.dag, cpu).with_threads(n_threads)),
        Target::Gpu(gpu) => Box::new(cost::gpu::AnalyticModel::new(&task.dag, gpu)),
    }
}

/// A trace as records keep it.
pub(super) fn lines(trace: &[Instruction]) -> Vec<String> {
    trace.iter().map(ToString::to_string).collect()
}
