//! One round of a session: proposals are built and measured, and strategies observe the outcomes.

use std::time::{Duration, Instant};

use tvmtune_ir::target::Target;
use tvmtune_plan::record::Source;
use tvmtune_schedule::Instruction;

use super::code::Code;
use super::event::Event;
use super::log::{Stage, Trial};
use super::session::{Context, LastRound, Proposed, ROUND, Session};
use super::spent::Activity;
use crate::measure::{Job, MeasureError};
use crate::outcome::{Outcome, Timing};
use crate::parallel::map_ahead;
use crate::search::{Proposal, Score, SearchContext};
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

/// The limit of a round that has begun.
#[derive(Clone, Copy, Debug)]
struct RoundClock {
    started: Instant,
    limit: Duration,
}

impl Session {
    /// Measures up to [`ROUND`] candidates; tells if the best one changed.
    pub(super) fn round(&mut self, ctx: &mut Context<'_>) -> Result<bool, MeasureError> {
        let mut clock = RoundClock { started: Instant::now(), limit: MAX_ROUND_TIME };
        let (before, first) = (self.best_ns(), self.trials);
        self.receive_transfers(ctx.shared);
        // Some strategies propose few candidates at a time, and setting up a task takes a while.
        while !self.exhausted
            && !self.is_over(clock)
            && self.trials < self.budget.trials.min(first + ROUND as u64)
        {
            let n = self.budget.trials.min(first + ROUND as u64) - self.trials;
            self.burst(self.batch_size(n as usize), &mut clock, ctx)?;
        }
        ctx.timed(Activity::Proposing, |ctx| ctx.shared.train());
        let time = clock.started.elapsed();
        self.spent += time;
        self.last_round = Some(LastRound { best_before_ns: before, time });
        Ok(self.best_ns() < before)
    }

    /// Tells if the time of a round is spent.
    fn is_over(&self, round: RoundClock) -> bool {
        let elapsed = round.started.elapsed();
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

    /// Measures one batch of proposals.
    fn burst(
        &mut self,
        n: usize,
        round: &mut RoundClock,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let clock = Instant::now();
        ctx.timed(Activity::Measuring, |ctx| self.measure_drift(ctx))?;
        let before = self.best_ns();
        let choosing = Instant::now();
        let proposals = ctx.timed(Activity::Proposing, |ctx| self.propose(n, ctx));
        self.exhausted = proposals.is_empty();
        // A batch that took long to choose is measured for as long.
        round.limit = round.limit.max(round.started.elapsed() + choosing.elapsed());
        // Building code on the CPU would disturb timings on it, but not those on a GPU.
        let n_builders = match self.task.target() {
            Target::Cpu(_) => 0,
            Target::Gpu(_) => ctx.shared.n_threads,
        };
        let task = self.task.clone();
        let build = |(trace, _): &(Vec<Instruction>, Proposal)| {
            let clock = Instant::now();
            let code = task.build(trace);
            (code, clock.elapsed().as_secs_f64() * 1e3)
        };
        let (building, earlier) = (Instant::now(), ctx.times.activities());
        map_ahead(n_builders, &proposals, build, |(trace, proposal), (code, generate_ms)| {
            self.measure_proposal(proposal, trace, code, generate_ms, ctx)?;
            Ok(!self.is_over(*round))
        })?;
        // The rest of this time went into code: on this thread, or into waiting for builders.
        let others = ctx.times.activities().saturating_sub(earlier);
        ctx.times.spend(Activity::Generating, building.elapsed().saturating_sub(others));
        ctx.timed(Activity::Comparing, |ctx| self.compare_finalists(ctx))?;
        let gain = if before.is_finite() { (before / self.best_ns()).ln() } else { 0.0 };
        self.strategy.reward(gain, clock.elapsed().as_secs_f64());
        Ok(())
    }

    /// Returns up to `n` proposals of the strategy, with their traces.
    fn propose(&mut self, n: usize, ctx: &Context<'_>) -> Vec<(Vec<Instruction>, Proposal)> {
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

    /// Measures the code of a proposal, unless the same code was measured before.
    fn measure_proposal(
        &mut self,
        proposal: &Proposal,
        trace: &[Instruction],
        code: Result<Code, String>,
        generate_ms: f64,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let Proposal { point, source, parent } = proposal.clone();
        let earlier = code.as_ref().ok().and_then(|it| self.measured.get(&it.artifact));
        let Some(outcome) = earlier.cloned() else {
            let (point, trace) = (Some(point), trace.to_vec());
            let proposed = Proposed { source, point, parent, trace, generate_ms };
            return self.measure(&proposed, code, ctx).map(|_| ());
        };
        self.strategy.observe(&point, &outcome);
        self.add_origin(&point, source, parent, &outcome);
        Ok(())
    }

    /// Times the drift baseline.
    fn measure_drift(&mut self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        let Some(drift) = &mut self.drift else { return Ok(()) };
        self.slowdown = drift.slowdown(ctx.measurer)?.unwrap_or(1.0);
        if let Some(what) = drift.warning(self.slowdown) {
            (ctx.on_event)(Event::Warning { what: format!("{}: {what}", self.task.name) });
        }
        Ok(())
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
        let clock = Instant::now();
        let policy = self.task.builder.policy();
        let timings = ctx.measurer.compare(&jobs, COMPARE_ROUNDS, &policy)?;
        let measure_ms = clock.elapsed().as_secs_f64() * 1e3 / finalists.len() as f64;
        let Ok(timings) = timings else { return Ok(()) };
        let mut compared = Vec::new();
        for ((point, trace, code), timing) in finalists.into_iter().zip(timings) {
            let outcome = Outcome::Timed(timing.clone());
            self.trials += 1;
            let source = self.origins.get(&point).map_or(Source::Droplet, |it| it.source);
            let proposed = Proposed { point: Some(point.clone()), ..Proposed::new(source, trace) };
            let trial = self.trial(
                &proposed,
                code.artifact.to_string(),
                outcome,
                Stage::Compare,
                measure_ms,
            );
            (ctx.log)(&Trial { workload: ctx.workload.id.to_string(), ..trial });
            compared.push((point, timing));
        }
        self.strategy.compared(&compared);
        Ok(())
    }
}
