//! One round of a session: proposals are built and measured, and strategies observe the outcomes.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tvmtune_ir::target::Target;
use tvmtune_plan::record::{Ancestor, GENERATOR, Source};
use tvmtune_schedule::Instruction;

use super::code::Code;
use super::drift::DriftBaseline;
use super::event::Event;
use super::log::{Stage, Trial};
use super::lower_bound;
use super::session::{
    Candidate, Context, LastRound, Origin, Proposed, ROUND, Session, lines, tenths,
};
use crate::measure::{Job, MeasureError, Policy};
use crate::outcome::{Outcome, Timing};
use crate::parallel::map_ahead;
use crate::search::{Proposal, Score, SearchContext};
use crate::space::Point;

/// The time limit of a round.
const MAX_ROUND_TIME: Duration = Duration::from_secs(3);
/// The maximum number of candidates in the final ranking.
const MAX_CANDIDATES: usize = 12;
/// Timings of each finalist of a strategy, side by side.
const COMPARE_ROUNDS: usize = 7;

impl Session {
    /// Measures up to [`ROUND`] candidates; tells if the best one changed.
    pub(super) fn round(&mut self, ctx: &mut Context<'_>) -> Result<bool, MeasureError> {
        let clock = Instant::now();
        let (before, first) = (self.best_ns(), self.trials);
        self.receive_transfers(ctx.shared);
        // Some strategies propose few candidates at a time, and setting up a task takes a while.
        while !self.exhausted
            && !self.is_over(clock)
            && self.trials < self.budget.trials.min(first + ROUND as u64)
        {
            let n = self.budget.trials.min(first + ROUND as u64) - self.trials;
            self.burst(n as usize, clock, ctx)?;
        }
        ctx.shared.train();
        self.spent += clock.elapsed();
        self.last_round = Some(LastRound { best_before_ns: before, time: clock.elapsed() });
        Ok(self.best_ns() < before)
    }

    /// Tells if the time of a round is spent.
    fn is_over(&self, round: Instant) -> bool {
        let elapsed = round.elapsed();
        elapsed > MAX_ROUND_TIME
            || self.spent + elapsed + self.final_ranking_time() > self.budget.per_task
    }

    /// Measures one batch of proposals.
    fn burst(
        &mut self,
        n: usize,
        round: Instant,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let clock = Instant::now();
        self.measure_drift(ctx)?;
        let before = self.best_ns();
        let target = self.task.target();
        let learned = ctx.shared.learned(&self.task.dag, &target);
        let context = SearchContext {
            space: &self.space,
            analytic: self.recipe.analytic_model.then_some(&self.analytic as &dyn Score),
            model: learned.as_ref().map(|it| it as &dyn Score),
        };
        let proposals = self.strategy.propose(&context, n);
        self.exhausted = proposals.is_empty();
        let traced: Vec<(Vec<Instruction>, Proposal)> =
            proposals.into_iter().map(|it| (self.space.instructions(&it.point), it)).collect();
        // Building code on the CPU would disturb timings on it, but not those on a GPU.
        let n_builders = match target {
            Target::Cpu(_) => 0,
            Target::Gpu(_) => ctx.shared.n_threads,
        };
        let task = self.task.clone();
        let build = |(trace, _): &(Vec<Instruction>, Proposal)| {
            let clock = Instant::now();
            let code = task.build(trace);
            (code, clock.elapsed().as_secs_f64() * 1e3)
        };
        map_ahead(n_builders, &traced, build, |(trace, proposal), (code, generate_ms)| {
            self.measure_proposal(proposal, trace, code, generate_ms, ctx)?;
            Ok(!self.is_over(round))
        })?;
        self.compare_finalists(ctx)?;
        let gain = if before.is_finite() { (before / self.best_ns()).ln() } else { 0.0 };
        self.strategy.reward(gain, clock.elapsed().as_secs_f64());
        Ok(())
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
            let trial = self.trial(&proposed, code.artifact, outcome, Stage::Compare, measure_ms);
            (ctx.log)(&Trial { workload: ctx.workload.id.clone(), ..trial });
            compared.push((point, timing));
        }
        self.strategy.compared(&compared);
        Ok(())
    }

    /// Measures one candidate, and reports its outcome to the strategy, the log, the cost model and
    /// the transfer source.
    pub(super) fn measure(
        &mut self,
        proposed: &Proposed,
        code: Result<Code, String>,
        ctx: &mut Context<'_>,
    ) -> Result<Outcome, MeasureError> {
        let clock = Instant::now();
        let from_ns = self.best_ns();
        let source = proposed.source;
        let mut artifact = String::new();
        let outcome = match code {
            Err(why) => Outcome::Invalid(why),
            Ok(it) => {
                let job = it.job(&self.reference.cases);
                let best_ns = Some(from_ns).filter(|it| it.is_finite());
                let policy = Policy { best_ns, ..self.task.builder.policy() };
                let outcome = ctx.measurer.measure(&job, &policy)?;
                let outcome = lower_bound::check(outcome, self.lower_bound_ns);
                let outcome = DriftBaseline::corrected(outcome, self.slowdown);
                artifact = it.artifact.clone();
                self.measured.insert(artifact.clone(), outcome.clone());
                let latency_ns = outcome.timing().map(Timing::min_ns);
                let features = || self.task.features(&proposed.trace);
                ctx.shared.add_sample(self.number, features, latency_ns);
                if let Outcome::Timed(timing) = &outcome {
                    let Proposed { point, trace, .. } = proposed.clone();
                    let (artifact, timing) = (artifact.clone(), timing.clone());
                    self.add_candidate(Candidate {
                        point,
                        trace,
                        artifact,
                        source,
                        threads: it.threads,
                        job,
                        timing,
                    });
                }
                outcome
            }
        };
        if let Some(point) = &proposed.point {
            self.strategy.observe(point, &outcome);
            self.report_transfer(point, &outcome, from_ns, ctx.shared);
            self.add_origin(point, source, proposed.parent.clone(), &outcome);
        }
        self.trials += 1;
        self.failures += u64::from(outcome.timing().is_none());
        let measure_ms = clock.elapsed().as_secs_f64() * 1e3;
        let trial = self.trial(proposed, artifact, outcome.clone(), Stage::Screen, measure_ms);
        (ctx.log)(&Trial { workload: ctx.workload.id.clone(), ..trial });
        let (task, best_ns) = (&self.task.name, self.best_ns());
        (ctx.on_event)(Event::Trial { task, trial: self.trials, outcome: &outcome, best_ns });
        if best_ns < from_ns {
            self.trials_at_best = self.trials;
            if from_ns.is_finite() {
                (ctx.on_event)(Event::Improved { task, from_ns, to_ns: best_ns, source });
            }
        }
        Ok(outcome)
    }

    /// Returns a trial as the log has it, without its workload.
    fn trial(
        &self,
        proposed: &Proposed,
        artifact: String,
        outcome: Outcome,
        stage: Stage,
        measure_ms: f64,
    ) -> Trial {
        let sketch = proposed.point.as_ref().map(|it| self.space.sketch(it).name.clone());
        let choices = |it: &Point| it.choices.clone();
        Trial {
            workload: String::new(),
            generator: GENERATOR,
            bucket: self.task.bucket_key(),
            isa: self.task.platform().to_string(),
            source: proposed.source,
            stage,
            sketch: sketch.unwrap_or_default(),
            choices: proposed.point.as_ref().map(choices).unwrap_or_default(),
            parent: proposed.parent.as_ref().map(choices).unwrap_or_default(),
            trace: lines(&proposed.trace),
            artifact,
            outcome,
            slowdown: self.slowdown,
            generate_ms: proposed.generate_ms,
            measure_ms,
            unix_ms: unix_ms(),
        }
    }

    /// Adds the origin of a point that works.
    fn add_origin(
        &mut self,
        point: &Point,
        source: Source,
        parent: Option<Point>,
        outcome: &Outcome,
    ) {
        let Some(timing) = outcome.timing() else { return };
        let origin = Origin { source, median_ns: timing.median_ns(), parent };
        self.origins.entry(point.clone()).or_insert(origin);
    }

    /// Returns the lineage of a candidate, oldest ancestor first.
    pub(super) fn lineage(&self, candidate: &Candidate) -> Vec<Ancestor> {
        let (mut line, mut child) = (Vec::new(), candidate.point.as_ref());
        // A point is measured before anything is derived from it, so this ends.
        while let Some(point) = child {
            let parent = self.origins.get(point).and_then(|it| it.parent.as_ref());
            if let Some((parent, origin)) = parent.and_then(|it| self.origins.get_key_value(it)) {
                let ancestor = Ancestor::new(origin.source, tenths(origin.median_ns));
                line.push(ancestor.moved(self.space.describe_differences(parent, point)));
            } else {
                let transfer = self.received.transfers.get(point);
                line.extend(transfer.map(|it| it.ancestor(&self.task.target().key())));
            }
            child = parent;
        }
        line.reverse();
        line
    }

    /// Adds a candidate if it is among the best, or the default schedule.
    fn add_candidate(&mut self, candidate: Candidate) {
        let slower = |it: &Candidate| it.timing.min_ns() > candidate.timing.min_ns();
        let rank = self.good.iter().position(slower).unwrap_or(self.good.len());
        self.good.insert(rank, candidate);
        if self.good.len() > MAX_CANDIDATES
            && let Some(last) = self.good.iter().rposition(|it| it.source != Source::Default)
        {
            self.good.remove(last);
        }
    }
}

/// Returns the present time in ms since 1970.
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis() as u64)
}
