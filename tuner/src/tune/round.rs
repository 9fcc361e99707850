//! One round of a session: proposals are built and measured, and strategies observe the outcomes.

use std::time::Duration;

use tvmtune_plan::record::Source;
use tvmtune_schedule::Instruction;

use super::batch::{RoundClock, Traced};
use super::code::Code;
use super::log::{self, Trial};
use super::session::{Context, Proposed, ROUND, Session};
use super::spent::Activity;
use crate::executor::Stage;
use crate::measure::{Job, MeasureError};
use crate::outcome::{Outcome, Timing};
use crate::search::{Score, SearchContext};
use crate::space::Point;

/// The time of a round, at most, unless choosing candidates takes most of it.
const MAX_ROUND_TIME: Duration = Duration::from_secs(3);
/// The fewest candidates of a batch, and the launches that each takes; an estimate.
const MIN_BATCH: usize = 4;
const LAUNCHES_PER_TRIAL: f64 = 8.0;
/// Timings of each finalist of a strategy, side by side.
const COMPARE_ROUNDS: usize = 7;
/// The latency up to which finalists are timed side by side: longer launches tell them apart when
/// screened.
const MAX_COMPARED_NS: f64 = 2e6;

impl Session {
    /// Measures up to [`ROUND`] candidates; tells if the best one changed.
    pub(super) fn round(&mut self, ctx: &mut Context<'_>) -> Result<bool, MeasureError> {
        let started = ctx.clock();
        let mut round = RoundClock { started, limit: MAX_ROUND_TIME };
        let (before, first) = (self.best_ns(), self.trials);
        self.receive_transfers(ctx.shared);
        // Some strategies propose few candidates at a time, and setting up a task takes a while.
        let searched = loop {
            let limit = self.budget.trials.min(first + ROUND as u64);
            if self.exhausted || self.is_over(round, ctx) || self.trials >= limit {
                break Ok(());
            }
            let n = self.batch_size((limit - self.trials) as usize);
            if let Err(error) = self.burst(n, &mut round, ctx) {
                break Err(error);
            }
        };
        let time = ctx.since(started);
        self.spent += time;
        self.state.history.end_slot(time.as_secs_f64());
        searched?;
        ctx.stage(Stage::Learn, |ctx| {
            ctx.timed(Activity::Proposing, |ctx| ctx.shared.train());
            Ok(())
        })?;
        self.spent += ctx.since(started).saturating_sub(time);
        Ok(self.best_ns() < before)
    }

    /// Tells if the time of a round is spent.
    pub(super) fn is_over(&self, round: RoundClock, ctx: &Context<'_>) -> bool {
        let elapsed = ctx.since(round.started);
        elapsed > round.limit
            || self.spent + elapsed + self.final_ranking_time() > self.budget.per_task
    }

    /// Returns the size of a batch that can be measured in a round: what is proposed and not measured
    /// is lost.
    fn batch_size(&self, n: usize) -> usize {
        let launch_ns = self.good.first().map_or(0.0, |it| it.timing.min_ns());
        let in_a_round = MAX_ROUND_TIME.as_nanos() as f64 / (LAUNCHES_PER_TRIAL * launch_ns);
        n.min((in_a_round as usize).max(MIN_BATCH))
    }

    /// Chooses and measures one batch of proposals.
    fn burst(
        &mut self,
        n: usize,
        round: &mut RoundClock,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let clock = ctx.clock();
        let before = self.best_ns();
        let proposals = ctx.stage(Stage::Propose, |ctx| {
            Ok(ctx.timed(Activity::Proposing, |ctx| self.propose(n, ctx)))
        })?;
        self.exhausted = proposals.is_empty();
        // A batch that took long to choose is measured for as long.
        round.limit = round.limit.max(ctx.since(round.started) + ctx.since(clock));
        if !proposals.is_empty() {
            self.measure_batch(&proposals, *round, ctx)?;
        }
        self.compare_finalists(ctx)?;
        let gain = if before.is_finite() { (before / self.best_ns()).ln() } else { 0.0 };
        self.strategy.reward(gain, ctx.since(clock).as_secs_f64());
        Ok(())
    }

    /// Returns up to `n` proposals of the strategy, with their traces.
    fn propose(&mut self, n: usize, ctx: &Context<'_>) -> Vec<Traced> {
        let target = self.task.target();
        let learned = ctx.shared.learned(&self.task.dag, &target);
        let context = SearchContext {
            space: &self.space,
            analytic: self.recipe.analytic_model.then_some(&self.analytic as &dyn Score),
            model: learned.as_ref().map(|it| it as &dyn Score),
        };
        let proposals = self.strategy.propose(&context, n);
        proposals.into_iter().map(|it| (self.space.instructions(&it.point), it)).collect()
    }

    /// Times the finalists of the strategy side by side. Each is a trial.
    fn compare_finalists(&mut self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        let mut finalists = Vec::new();
        let left = self.budget.trials.saturating_sub(self.trials) as usize;
        for point in self.strategy.finalists().into_iter().take(left) {
            let trace = self.space.instructions(&point);
            if let Ok(code) = self.task.build(&trace) {
                finalists.push((point, trace, code));
            }
        }
        if finalists.len() < 2 {
            return Ok(());
        }
        if self.best_ns() > MAX_COMPARED_NS {
            let screened = |it: &(Point, Vec<Instruction>, Code)| {
                let outcome = self.measured.get(&it.2.artifact)?;
                Some((it.0.clone(), outcome.timing()?.clone()))
            };
            let screened: Vec<(Point, Timing)> = finalists.iter().filter_map(screened).collect();
            self.strategy.compared(&screened);
            return Ok(());
        }
        let jobs: Vec<Job> = finalists.iter().map(|it| it.2.job(&self.reference.cases)).collect();
        let jobs: Vec<&Job> = jobs.iter().collect();
        let clock = ctx.clock();
        let policy = self.task.builder.policy();
        let timings = ctx.stage(Stage::Measure, |ctx| {
            self.set_up(ctx)?;
            ctx.timed(Activity::Comparing, |ctx| {
                ctx.measurer.compare(&jobs, COMPARE_ROUNDS, &policy)
            })
        })?;
        let measure_ms = ctx.since(clock).as_secs_f64() * 1e3 / finalists.len() as f64;
        let Ok(timings) = timings else { return Ok(()) };
        let mut compared = Vec::new();
        for ((point, trace, code), timing) in finalists.into_iter().zip(timings) {
            let outcome = Outcome::Timed(timing.clone());
            self.trials += 1;
            let source = self.origins.get(&point).map_or(Source::Droplet, |it| it.source);
            self.add_to_history(source, &outcome);
            let proposed = Proposed { point: Some(point.clone()), ..Proposed::new(source, trace) };
            let trial = self.trial(
                &proposed,
                code.artifact.to_string(),
                outcome,
                log::Stage::Compare,
                measure_ms,
            );
            (ctx.log)(&Trial { workload: ctx.workload.id.to_string(), ..trial });
            compared.push((point, timing));
        }
        self.strategy.compared(&compared);
        Ok(())
    }
}
