//! The beginning of a session: the default schedule, and what earlier sessions recorded.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tvmtune_plan::record::{Entry, GENERATOR, Source};
use tvmtune_schedule::Instruction;
use tvmtune_space::default;

use super::budget::Budget;
use super::drift::DriftBaseline;
use super::event::Event;
use super::log::Trial;
use super::recipe::{Recipe, Rules};
use super::session::{Context, Proposed, Session, lines};
use super::task::Task;
use super::transfer::Received;
use super::{lower_bound, oracle};
use crate::cost::analytic::AnalyticModel;
use crate::measure::MeasureError;
use crate::space::{Point, Space};

impl Session {
    /// Opens the session of a task, and measures its default schedule; the inner error says why it
    /// cannot be tuned.
    pub(super) fn open(
        task: Task,
        recipe: Recipe,
        seed: u64,
        budget: Budget,
        ctx: &mut Context<'_>,
    ) -> Result<Result<Self, String>, MeasureError> {
        let clock = Instant::now();
        let target = task.target();
        let schedule = default::schedule(&task.dag, &target);
        let code = match task.build(&schedule.trace) {
            Ok(code) => code,
            Err(why) => return Ok(Err(why)),
        };
        let reference = match oracle::reference(&task, &task.dims(), seed, ctx.measurer)? {
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
            analytic: AnalyticModel::new(&task.dag, target, ctx.shared.n_threads),
            lower_bound_ns: lower_bound::lower_bound_ns(&task.dag, &task.dims()[0], &target),
            task,
            space,
            recipe,
            number: ctx.shared.add_task(),
            received: Received::default(),
            reference,
            measured: BTreeMap::new(),
            origins: BTreeMap::new(),
            drift: None,
            slowdown: 1.0,
            good: Vec::new(),
            last_round: None,
            budget,
            trials: 0,
            failures: 0,
            trials_at_best: 0,
            spent: Duration::ZERO,
            preparation: clock.elapsed(),
            exhausted: false,
        };
        session.set_up(ctx)?;
        let point = session.space.defaults().into_iter().next();
        let point = point.filter(|it| session.space.instructions(it) == schedule.trace);
        let proposed = Proposed { point, ..Proposed::new(Source::Default, schedule.trace) };
        let outcome = session.measure(&proposed, Ok(code), ctx)?;
        let Some(timing) = outcome.timing() else {
            return Ok(Err(format!("its default schedule {outcome}")));
        };
        (ctx.on_event)(Event::Default { task: &session.task.name, ns: timing.min_ns() });
        let policy = session.task.builder.policy();
        let baseline = session.good.first().cloned();
        session.drift = baseline.and_then(|it| DriftBaseline::new(it, policy));
        session.spent = clock.elapsed();
        Ok(Ok(session))
    }

    /// Observes the logged trials of earlier sessions.
    pub(super) fn resume(&mut self, trials: &[Trial]) {
        let (isa, bucket) = (self.task.platform().to_string(), self.task.bucket_key());
        let is_of_task =
            |it: &&Trial| it.generator == GENERATOR && it.isa == isa && it.bucket == bucket;
        for trial in trials.iter().filter(is_of_task) {
            self.trials += 1;
            self.spent += Duration::from_secs_f64((trial.generate_ms + trial.measure_ms) / 1e3);
            if let Some(point) = self.point(trial) {
                // Only the strategy observes it: its timing is from another session.
                self.strategy.observe(&point, &trial.outcome);
            }
        }
        self.trials_at_best = self.trials;
    }

    /// Returns the point of a trial, if the space still has it with the same trace.
    fn point(&self, trial: &Trial) -> Option<Point> {
        let sketch = self.space.sketches.iter().position(|it| it.name == trial.sketch)?;
        let decisions = &self.space.sketches[sketch].decisions;
        let fits = decisions.len() == trial.choices.len()
            && decisions.iter().zip(&trial.choices).all(|(it, n)| (*n as usize) < it.options.len());
        let point = Point { sketch: sketch as u16, choices: trial.choices.clone() };
        (fits && lines(&self.space.instructions(&point)) == trial.trace).then_some(point)
    }

    /// Measures recorded schedules, as if a strategy had proposed them.
    pub(super) fn measure_recorded(
        &mut self,
        entries: &[Entry],
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        for entry in entries {
            let parsed: Result<Vec<Instruction>, _> =
                entry.trace.iter().map(|it| it.parse()).collect();
            if let Ok(trace) = parsed {
                let code = self.task.build(&trace);
                // A trace that replays becomes a point, so that it has neighbors.
                let target = self.task.target();
                let point = code
                    .is_ok()
                    .then(|| self.space.import_trace(&self.task.dag, &target, &trace, "recorded"));
                let proposed = Proposed { point, ..Proposed::new(entry.source, trace) };
                self.measure(&proposed, code, ctx)?;
            }
        }
        Ok(())
    }
}
