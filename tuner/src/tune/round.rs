//! One round of a task: proposals become code, code becomes outcomes, and strategies learn of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tvmtune_ir::target::Target;
use tvmtune_plan::record::{Ancestor, GENERATOR, Source};
use tvmtune_schedule::Instruction;

use super::budget::Stopwatch;
use super::code::Code;
use super::event::Event;
use super::guard::{self, Canary};
use super::log::{Stage, Trial};
use super::session::{Candidate, Context, ROUND, Session, lines};
use crate::measure::{Job, MeasureError, Policy};
use crate::outcome::Outcome;
use crate::parallel::ahead;
use crate::search::{Proposal, Scene, Score};
use crate::space::Point;

/// A round ends after this long, however many candidates are left.
const ROUND_TIME: Duration = Duration::from_secs(3);
/// Candidates that are kept for the finals.
const FINALISTS: usize = 12;
/// How often rivals are timed side by side.
const RIVAL_ROUNDS: usize = 7;

/// A candidate before it has code.
#[derive(Clone, Debug)]
pub(super) struct Proposed {
    pub(super) source: Source,
    pub(super) point: Option<Point>,
    pub(super) parent: Option<Point>,
    pub(super) trace: Vec<Instruction>,
    /// Wall time to make its code.
    pub(super) generate_ms: f64,
}

/// What came of making code.
struct Made {
    code: Result<Code, String>,
    /// Wall time.
    ms: f64,
}

/// Where a measured point came from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    source: Source,
    median_ns: f64,
    parent: Option<Point>,
}

impl Proposed {
    /// A trace from somewhere.
    pub(super) fn new(source: Source, trace: Vec<Instruction>) -> Self {
        Self { source, point: None, parent: None, trace, generate_ms: 0.0 }
    }
}

impl Session {
    /// Measures some candidates; false if the best is still the same.
    pub(super) fn round(&mut self, ctx: &mut Context<'_>) -> Result<bool, MeasureError> {
        let watch = Stopwatch::start();
        let (before, first) = (self.best_ns(), self.trials);
        self.visit(ctx.knowledge);
        // Some strategies propose little at a time, and preparing a task takes a while.
        while !self.exhausted
            && !self.is_over(&watch)
            && self.trials < self.budget().trials.min(first + ROUND as u64)
        {
            let n = self.budget().trials.min(first + ROUND as u64) - self.trials;
            self.burst(n as usize, &watch, ctx)?;
        }
        ctx.knowledge.learn();
        self.spent += watch.elapsed();
        self.last_round = Some((before, watch.elapsed()));
        Ok(self.best_ns() < before)
    }

    /// Whether a round that began then has taken long enough.
    fn is_over(&self, watch: &Stopwatch) -> bool {
        let elapsed = watch.elapsed();
        elapsed > ROUND_TIME || self.spent + elapsed + self.finals_time() > self.budget().per_task
    }

    /// Measures what a strategy proposes at once.
    fn burst(
        &mut self,
        n: usize,
        round: &Stopwatch,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let watch = Stopwatch::start();
        self.check_pace(ctx)?;
        let before = self.best_ns();
        let target = self.task.target();
        let learned = ctx.knowledge.learned(&self.task.dag, &target);
        let scene = Scene {
            space: &self.space,
            draft: if self.recipe.draft { Some(&*self.draft) } else { None },
            model: learned.as_ref().map(|it| it as &dyn Score),
        };
        let proposals = self.strategy.propose(&scene, n);
        self.exhausted = proposals.is_empty();
        let traced: Vec<(Vec<Instruction>, Proposal)> =
            proposals.into_iter().map(|it| (self.space.instructions(&it.point), it)).collect();
        // A CPU that makes code would be in the way of what it measures; a GPU does not mind.
        let n_makers = match target {
            Target::Cpu(_) => 0,
            Target::Gpu(_) => ctx.knowledge.n_threads,
        };
        let task = self.task.clone();
        let make = |(trace, _): &(Vec<Instruction>, Proposal)| {
            let clock = Stopwatch::start();
            let code = task.make(trace);
            Made { code, ms: clock.elapsed().as_secs_f64() * 1e3 }
        };
        ahead(n_makers, &traced, make, |(trace, proposal), made| {
            self.follow(proposal, trace, made, ctx)?;
            Ok(!self.is_over(round))
        })?;
        self.compare(ctx)?;
        let gain = if before.is_finite() { (before / self.best_ns()).ln() } else { 0.0 };
        self.strategy.reward(gain, watch.elapsed().as_secs_f64());
        Ok(())
    }

    /// Measures the code of a proposal, unless the same code was measured before.
    fn follow(
        &mut self,
        proposal: &Proposal,
        trace: &[Instruction],
        Made { code, ms }: Made,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let Proposal { point, source, parent } = proposal.clone();
        let known = code.as_ref().ok().and_then(|it| self.seen.get(it.artifact()));
        let Some(outcome) = known.cloned() else {
            let (point, trace) = (Some(point), trace.to_vec());
            let proposed = Proposed { source, point, parent, trace, generate_ms: ms };
            return self.try_out(&proposed, code, ctx).map(|_| ());
        };
        self.strategy.observe(&point, &outcome);
        self.note(&point, source, parent, &outcome);
        Ok(())
    }

    /// Sees whether the machine is as fast as it was.
    fn check_pace(&mut self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        let Some(canary) = &mut self.canary else { return Ok(()) };
        self.slowdown = canary.slowdown(ctx.measurer)?.unwrap_or(1.0);
        if let Some(what) = canary.warning(self.slowdown) {
            (ctx.on_event)(Event::Warning { what: format!("{}: {what}", self.task.name) });
        }
        Ok(())
    }

    /// Times side by side what a strategy cannot decide between otherwise. Each is a trial.
    fn compare(&mut self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        let mut rivals = Vec::new();
        let left = self.budget().trials.saturating_sub(self.trials) as usize;
        for point in self.strategy.rivals().into_iter().take(left) {
            let trace = self.space.instructions(&point);
            if let Ok(it) = self.task.make(&trace) {
                let job = it.job(&self.reference.cases);
                rivals.push((point, trace, it.artifact().to_owned(), job));
            }
        }
        if rivals.len() < 2 {
            return Ok(());
        }
        let clock = Stopwatch::start();
        let jobs: Vec<&Job> = rivals.iter().map(|it| &it.3).collect();
        let policy = self.task.maker.policy();
        let timings = ctx.measurer.compare(&jobs, RIVAL_ROUNDS, &policy)?;
        let measure_ms = clock.elapsed().as_secs_f64() * 1e3 / rivals.len() as f64;
        let Ok(timings) = timings else { return Ok(()) };
        let mut compared = Vec::new();
        for ((point, trace, artifact, _), timing) in rivals.into_iter().zip(timings) {
            let outcome = Outcome::Timed(timing.clone());
            self.trials += 1;
            let source = self.origins.get(&point).map_or(Source::Droplet, |it| it.source);
            let proposed = Proposed { point: Some(point.clone()), ..Proposed::new(source, trace) };
            let trial = self.trial(&proposed, artifact, outcome, Stage::Compare, measure_ms);
            (ctx.log)(&Trial { workload: ctx.workload.id.clone(), ..trial });
            compared.push((point, timing));
        }
        self.strategy.compared(&compared);
        Ok(())
    }

    /// Measures one candidate, remembers it, and tells the world.
    pub(super) fn try_out(
        &mut self,
        proposed: &Proposed,
        code: Result<Code, String>,
        ctx: &mut Context<'_>,
    ) -> Result<Outcome, MeasureError> {
        let clock = Stopwatch::start();
        let from_ns = self.best_ns();
        let source = proposed.source;
        let mut artifact = String::new();
        let outcome = match code {
            Err(why) => Outcome::Invalid(why),
            Ok(it) => {
                let job = it.job(&self.reference.cases);
                let best_ns = Some(from_ns).filter(|it| it.is_finite());
                let policy = Policy { best_ns, ..self.task.maker.policy() };
                let outcome = ctx.measurer.measure(&job, &policy)?;
                let outcome = guard::believable(outcome, self.limit_ns);
                let outcome = Canary::corrected(outcome, self.slowdown);
                artifact = it.artifact().to_owned();
                self.seen.insert(artifact.clone(), outcome.clone());
                ctx.knowledge.note(self, &proposed.trace, &outcome);
                if let Outcome::Timed(timing) = &outcome {
                    let threads = it.threads(&self.task.target());
                    let Proposed { point, trace, .. } = proposed.clone();
                    let (artifact, timing) = (artifact.clone(), timing.clone());
                    self.keep(Candidate { point, trace, artifact, source, threads, job, timing });
                }
                outcome
            }
        };
        if let Some(point) = &proposed.point {
            self.strategy.observe(point, &outcome);
            self.tell_donor(point, &outcome, from_ns, ctx.knowledge);
            self.note(point, source, proposed.parent.clone(), &outcome);
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

    /// A trial as the log keeps it, but for its workload.
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

    /// Remembers where a point came from.
    fn note(&mut self, point: &Point, source: Source, parent: Option<Point>, outcome: &Outcome) {
        let Some(timing) = outcome.timing() else { return };
        let origin = Origin { source, median_ns: timing.median_ns(), parent };
        self.origins.entry(point.clone()).or_insert(origin);
    }

    /// What a candidate was derived from step by step, oldest first.
    pub(super) fn lineage(&self, candidate: &Candidate) -> Vec<Ancestor> {
        let (mut line, mut child) = (Vec::new(), candidate.point.as_ref());
        // A point is noted before anything is derived from it, so this ends.
        while let Some(point) = child {
            let parent = self.origins.get(point).and_then(|it| it.parent.as_ref());
            if let Some((parent, origin)) = parent.and_then(|it| self.origins.get_key_value(it)) {
                let ancestor = Ancestor::new(origin.source, tenths(origin.median_ns));
                line.push(ancestor.moved(self.space.moves(parent, point)));
            } else {
                line.extend(self.donor_of(point));
            }
            child = parent;
        }
        line.reverse();
        line
    }

    /// Keeps a candidate if it is among the best, and the default schedule in any case.
    fn keep(&mut self, candidate: Candidate) {
        let slower = |it: &Candidate| it.timing.min_ns() > candidate.timing.min_ns();
        let place = self.good.iter().position(slower).unwrap_or(self.good.len());
        self.good.insert(place, candidate);
        if self.good.len() > FINALISTS
            && let Some(last) = self.good.iter().rposition(|it| it.source != Source::Default)
        {
            self.good.remove(last);
        }
    }
}

/// To a tenth, as records keep times.
pub(super) fn tenths(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis() as u64)
}
