//! The beginning of a session: the default schedule, and what earlier sessions recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tvmtune_ir::dag::print::canonical;
use tvmtune_plan::contain::contained;
use tvmtune_plan::record::{Entry, GENERATOR, Source};
use tvmtune_schedule::Instruction;
use tvmtune_space::lower_bound::lower_bound_ns;
use tvmtune_space::work::Work;
use tvmtune_space::{default, operands};

use super::budget::Budget;
use super::code::Code;
use super::drift::DriftBaseline;
use super::event::Event;
use super::log::Trial;
use super::oracle::{Judging, Reference};
use super::recipe::Recipe;
use super::session::{Context, Proposed, Session};
use super::spent::{Activity, TimeSpent};
use super::task::Task;
use super::transfer::Received;
use crate::allocation::{History, TaskState, similarity_group};
use crate::cost::analytic::AnalyticModel;
use crate::executor::Stage;
use crate::measure::MeasureError;
use crate::outcome::{Outcome, Timing};
use crate::space::Space;

/// Runs a part of the compiler on a task; the error is its panic.
fn compiled<T>(task: &Task, compile: impl FnOnce() -> T) -> Result<T, String> {
    contained(&task.name.to_string(), || canonical(&task.dag), compile).map_err(|it| it.to_string())
}

/// Returns the trace of the default schedule, and its code.
fn default_code(task: &Task) -> Result<(Vec<Instruction>, Code), String> {
    let schedule = compiled(task, || default::schedule(&task.dag, &task.target()))?;
    let code = task.build(&schedule.trace)?;
    Ok((schedule.trace, code))
}

/// The limits of a session that is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) budget: Budget,
    /// The time of computing expected results.
    pub(super) judging: Duration,
}

impl Session {
    /// Opens the session of a task, and measures its default schedule; the inner error says why it
    /// cannot be tuned.
    pub(super) fn open(
        task: Task,
        recipe: Recipe,
        seed: u64,
        limits: Limits,
        ctx: &mut Context<'_>,
    ) -> Result<Result<Self, String>, MeasureError> {
        let clock = ctx.clock();
        let Limits { budget, judging } = limits;
        let target = task.target();
        let generated = ctx.stage(Stage::Build, |ctx| {
            Ok(ctx.timed(Activity::Generating, |_| default_code(&task)))
        })?;
        let (trace, code) = match generated {
            Ok(generated) => generated,
            Err(why) => return Ok(Err(why)),
        };
        let reference = ctx.stage(Stage::Judge, |ctx| {
            ctx.timed(Activity::Judging, |ctx| {
                let (oracle, judging) = (&mut ctx.shared.oracle, Judging { seed, limit: judging });
                oracle.reference(&task, &task.dims(), judging, ctx.measurer)
            })
        })?;
        // The oracle set the measurer up for cases of its own.
        *ctx.set_up = None;
        let reference = match reference {
            Ok(reference) => reference,
            Err(why) => return Ok(Err(why)),
        };
        let space = ctx.stage(Stage::Propose, |ctx| {
            Ok(ctx.timed(Activity::Proposing, |_| {
                compiled(&task, || recipe.space_of(&task.dag, &target))
            }))
        })?;
        let space = match space {
            Ok(space) => space,
            Err(why) => return Ok(Err(why)),
        };
        let limits = Limits { budget, judging };
        let mut session = Self::new(task, recipe, (space, reference), seed, limits, ctx);
        let ns = match session.measure_default(trace, code, ctx)? {
            Ok(timing) => timing.min_ns(),
            Err(why) => return Ok(Err(why)),
        };
        (ctx.on_event)(Event::Default { task: &session.task.name, ns });
        let policy = session.task.builder.policy();
        let baseline = session.good.first().cloned();
        session.drift = baseline.and_then(|it| DriftBaseline::new(it, policy));
        session.opening = ctx.since(clock);
        session.spent = session.opening;
        Ok(Ok(session))
    }

    /// Creates a session that has measured nothing.
    fn new(
        task: Task,
        recipe: Recipe,
        (space, reference): (Space, Reference),
        seed: u64,
        Limits { budget, judging }: Limits,
        ctx: &mut Context<'_>,
    ) -> Self {
        let (target, dims) = (task.target(), &task.dims()[0]);
        let lower_bound_ns = lower_bound_ns(&task.dag, dims, &target);
        let flops = Work::of(&task.dag, dims).flops;
        Self {
            strategy: recipe.strategy(seed, budget.trials),
            analytic: AnalyticModel::new(&task.dag, target, ctx.shared.n_threads),
            lower_bound_ns,
            state: TaskState {
                weight: task.weight * task.share,
                flops,
                bound_ns: lower_bound_ns,
                group: Some(similarity_group(&task.dag, flops)),
                history: History::default(),
            },
            task,
            space,
            recipe,
            seed,
            number: ctx.shared.add_task(),
            received: Received::default(),
            reference,
            measured: BTreeMap::new(),
            shipped: None,
            replaced: BTreeSet::new(),
            formers: Vec::new(),
            only_catches_up: false,
            origins: BTreeMap::new(),
            drift: None,
            slowdown: 1.0,
            good: Vec::new(),
            budget,
            trials: 0,
            failures: 0,
            trials_at_best: 0,
            first_trial: 0,
            spent: Duration::ZERO,
            spent_earlier: Duration::ZERO,
            opening: Duration::ZERO,
            judging,
            times: TimeSpent::default(),
            exhausted: false,
            n_repeated: 0,
        }
    }

    /// Measures the default schedule; the inner error says why nothing can be compared with it.
    fn measure_default(
        &mut self,
        trace: Vec<Instruction>,
        code: Code,
        ctx: &mut Context<'_>,
    ) -> Result<Result<Timing, String>, MeasureError> {
        let point = self.space.defaults().into_iter().next();
        let point = point.filter(|it| self.space.instructions(it) == trace);
        let proposed = Proposed { point, ..Proposed::new(Source::Default, trace) };
        let mut run = ctx.stage(Stage::Measure, |ctx| {
            self.set_up(ctx)?;
            self.run(Ok(code), self.best_ns(), ctx)
        })?;
        if matches!(run.outcome, Outcome::Wrong(_)) && self.allow_for_rounding(ctx)? {
            run = ctx.stage(Stage::Measure, |ctx| {
                self.set_up(ctx)?;
                match run.code {
                    Some(code) => self.run_again(code, self.best_ns(), ctx),
                    None => Ok(run),
                }
            })?;
        }
        let outcome = self.report(&proposed, run, ctx);
        let failed = || format!("its default schedule {outcome}");
        Ok(outcome.timing().cloned().ok_or_else(failed))
    }

    /// Gives ill-conditioned elements a larger tolerance; returns whether there are any.
    fn allow_for_rounding(&mut self, ctx: &mut Context<'_>) -> Result<bool, MeasureError> {
        let found = ctx.stage(Stage::Judge, |ctx| {
            Ok(ctx.timed(Activity::Judging, |ctx| {
                let oracle = &ctx.shared.oracle;
                oracle.with_ill_conditioned(&self.task, &self.reference, self.judging)
            }))
        })?;
        let Some(reference) = found else { return Ok(false) };
        self.reference = reference;
        *ctx.set_up = None;
        Ok(true)
    }

    /// Observes the logged trials of earlier sessions, which took at least the wall time `spent`.
    pub(super) fn resume(&mut self, trials: &[Trial], spent: Duration) {
        let (isa, bucket) = (self.task.platform().to_string(), self.task.bucket_key());
        let cold = operands::recorded(&self.task.cold, self.task.platform());
        let is_of_task = |it: &&Trial| {
            it.generator == GENERATOR && it.isa == isa && it.bucket == bucket && it.cold == cold
        };
        let mut logged = Duration::ZERO;
        let mut best_ns = f64::INFINITY;
        for trial in trials.iter().filter(is_of_task) {
            self.trials += 1;
            self.add_to_history(trial.source, &trial.outcome);
            logged += Duration::from_secs_f64((trial.generate_ms + trial.measure_ms) / 1e3);
            if let Some(timing) = trial.outcome.timing()
                && timing.min_ns() < best_ns
            {
                best_ns = timing.min_ns();
                self.trials_at_best = self.trials;
            }
            if let Some(point) = trial.point(&self.space) {
                // Only the strategy observes it: its timing is from another session.
                self.strategy.observe(&point, &trial.outcome);
            }
        }
        self.spent_earlier = logged.max(spent);
        if self.trials > 0 {
            self.state.history.end_slot(self.spent_earlier.as_secs_f64());
        }
        self.spent += self.spent_earlier;
        self.first_trial = self.trials;
    }

    /// Searches only for a candidate as fast as code of an earlier release, with a budget of its own:
    /// what other sessions spent does not count.
    pub(super) fn only_catch_up(&mut self) {
        self.only_catches_up = true;
        self.trials_at_best = self.trials;
        self.budget.trials += self.trials;
        self.budget.per_task += self.spent_earlier;
    }

    /// Measures recorded schedules, of which the first may be one that was shipped for these ranges, as
    /// if a strategy had proposed them.
    pub(super) fn measure_recorded(
        &mut self,
        entries: &[Entry],
        is_shipped: bool,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let parsed = |it: &Entry| -> Option<Vec<Instruction>> {
            it.trace.iter().map(|line| line.parse().ok()).collect()
        };
        let recorded: Vec<(&Entry, Vec<Instruction>)> =
            entries.iter().filter_map(|it| Some((it, parsed(it)?))).collect();
        if recorded.is_empty() {
            return Ok(());
        }
        let codes: Vec<Result<Code, String>> = ctx.stage(Stage::Build, |ctx| {
            Ok(ctx.timed(Activity::Generating, |_| {
                recorded.iter().map(|(_, trace)| self.task.build(trace)).collect()
            }))
        })?;
        ctx.stage(Stage::Measure, |ctx| {
            for ((entry, trace), code) in recorded.into_iter().zip(codes) {
                if is_shipped && let Ok(code) = &code {
                    self.shipped.get_or_insert(code.artifact);
                }
                self.measure_entry(entry, trace, code, ctx)?;
            }
            Ok(())
        })?;
        self.first_trial = self.trials;
        Ok(())
    }

    /// Measures the code of a recorded schedule, and that of an earlier release if it was other code.
    fn measure_entry(
        &mut self,
        entry: &Entry,
        trace: Vec<Instruction>,
        code: Result<Code, String>,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let former = entry.timed_code();
        let artifact = code.as_ref().ok().map(|it| it.artifact);
        if artifact != Some(former) {
            if artifact.is_some() {
                self.replaced.insert(former);
            }
            self.measure_former(&former, ctx)?;
        }
        // A trace that replays becomes a point, so that it has neighbors.
        let (dag, target) = (&self.task.dag, self.task.target());
        let point = code.is_ok().then(|| self.space.import_trace(dag, &target, &trace, "recorded"));
        let proposed = Proposed { point, ..Proposed::new(entry.source, trace) };
        self.measure(&proposed, code, ctx)?;
        Ok(())
    }
}
