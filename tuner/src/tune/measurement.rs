//! One trial: a candidate is verified and timed, and its outcome reported to all who learn from it.

use std::time::{SystemTime, UNIX_EPOCH};

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_plan::record::{Ancestor, GENERATOR, Source};
use tvmtune_space::operands;

use super::code::Code;
use super::drift::DriftBaseline;
use super::event::Event;
use super::log::{self, Trial};
use super::lower_bound;
use super::session::{Candidate, Context, Origin, Proposed, Session, lines, tenths};
use super::spent::Activity;
use crate::measure::{Job, MeasureError, Policy};
use crate::outcome::{Outcome, Timing};
use crate::space::Point;

/// The maximum number of candidates in the final ranking.
const MAX_CANDIDATES: usize = 12;

/// Code on the cases of a session.
#[derive(Clone, Debug)]
pub(super) struct Runnable {
    artifact: ArtifactId,
    /// Threads of the host that run it.
    threads: u32,
    job: Job,
}

/// A candidate that was run, before anybody knows.
#[derive(Debug)]
pub(super) struct Run {
    /// Its code, if there is any.
    pub(super) code: Option<Runnable>,
    /// As measured, however slow the machine was.
    pub(super) outcome: Outcome,
    /// Set if its results were right on all cases, and not on the first one only.
    is_verified: bool,
    measure_ms: f64,
    /// The time when it ended, in ms since 1970.
    unix_ms: u64,
}

impl Run {
    /// Takes the faster timing of two runs of the same code: disturbances only slow down.
    pub(super) fn faster(self, other: Self) -> Self {
        let ns = |it: &Self| it.outcome.timing().map_or(f64::INFINITY, Timing::min_ns);
        if ns(&other) < ns(&self) { other } else { self }
    }

    /// A candidate without code.
    fn failed(outcome: Outcome) -> Self {
        let (is_verified, measure_ms, unix_ms) = (false, 0.0, unix_ms());
        Self { code: None, outcome, is_verified, measure_ms, unix_ms }
    }
}

impl Session {
    /// Measures one candidate, and reports its outcome.
    pub(super) fn measure(
        &mut self,
        proposed: &Proposed,
        code: Result<Code, String>,
        ctx: &mut Context<'_>,
    ) -> Result<Outcome, MeasureError> {
        let run = self.run(code, self.best_ns(), ctx)?;
        Ok(self.report(proposed, run, ctx))
    }

    /// Verifies and times code, which has a latency to beat.
    pub(super) fn run(
        &self,
        code: Result<Code, String>,
        best_ns: f64,
        ctx: &mut Context<'_>,
    ) -> Result<Run, MeasureError> {
        match code {
            Ok(Code { artifact, threads, job }) => {
                let job = job(&self.reference.cases);
                self.run_again(Runnable { artifact, threads, job }, best_ns, ctx)
            }
            Err(why) => Ok(Run::failed(Outcome::Invalid(why))),
        }
    }

    /// Verifies and times code that was run before.
    pub(super) fn run_again(
        &self,
        code: Runnable,
        best_ns: f64,
        ctx: &mut Context<'_>,
    ) -> Result<Run, MeasureError> {
        let best_ns = Some(best_ns).filter(|it| it.is_finite());
        let policy = Policy { best_ns, ..self.task.builder.policy() };
        let clock = ctx.clock();
        let outcome =
            ctx.timed(Activity::Measuring, |ctx| ctx.measurer.measure(&code.job, &policy))?;
        let measure_ms = ctx.since(clock).as_secs_f64() * 1e3;
        let is_verified = outcome.timing().is_some_and(|it| policy.verifies_all_cases(it.min_ns()));
        let outcome = lower_bound::check(outcome, self.lower_bound_ns);
        Ok(Run { code: Some(code), outcome, is_verified, measure_ms, unix_ms: unix_ms() })
    }

    /// Reports what became of a candidate to the strategy, the log, the cost model and the transfer
    /// source.
    pub(super) fn report(
        &mut self,
        proposed: &Proposed,
        run: Run,
        ctx: &mut Context<'_>,
    ) -> Outcome {
        let from_ns = self.best_ns();
        let Run { code, outcome, is_verified, measure_ms, unix_ms } = run;
        let outcome = DriftBaseline::corrected(outcome, self.slowdown);
        let mut artifact = String::new();
        if let Some(Runnable { artifact: id, threads, job }) = code {
            artifact = id.to_string();
            self.measured.insert(id, outcome.clone());
            self.learn(proposed, &outcome, ctx);
            if let Outcome::Timed(timing) = &outcome {
                let Proposed { point, trace, source, .. } = proposed.clone();
                let (artifact, timing, error) = (id, timing.clone(), None);
                self.add_candidate(Candidate {
                    point,
                    trace,
                    artifact,
                    source,
                    threads,
                    job,
                    timing,
                    is_verified,
                    error,
                    accuracy: None,
                });
            }
        }
        if let Some(point) = &proposed.point {
            self.strategy.observe(point, &outcome);
            self.report_transfer(point, &outcome, from_ns, ctx.shared);
            self.add_origin(point, proposed.source, proposed.parent.clone(), &outcome);
        }
        self.trials += 1;
        self.add_to_history(proposed.source, &outcome);
        self.failures += u64::from(outcome.timing().is_none());
        let trial = self.trial(proposed, artifact, outcome.clone(), log::Stage::Screen, measure_ms);
        let workload = ctx.workload.id.to_string();
        (ctx.log)(&Trial { workload, unix_ms, ..trial });
        self.tell(proposed.source, from_ns, &outcome, ctx);
        outcome
    }

    /// Adds a trial to the history that the scheduler sees. The default schedule does not count if the
    /// search must not start from it.
    pub(super) fn add_to_history(&mut self, source: Source, outcome: &Outcome) {
        if self.recipe.analytic || source != Source::Default {
            self.state.history.add_trial(outcome.timing().map(Timing::min_ns));
        }
    }

    /// Adds the outcome of a candidate to the cost model.
    fn learn(&self, proposed: &Proposed, outcome: &Outcome, ctx: &mut Context<'_>) {
        let latency_ns = outcome.timing().map(Timing::min_ns);
        let features = || self.task.features(&proposed.trace);
        ctx.timed(Activity::Proposing, |ctx| {
            ctx.shared.add_sample(self.number, features, latency_ns);
        });
    }

    /// Tells those who watch of a trial.
    fn tell(&mut self, source: Source, from_ns: f64, outcome: &Outcome, ctx: &mut Context<'_>) {
        let (task, best_ns) = (&self.task.name, self.best_ns());
        (ctx.on_event)(Event::Trial { task, trial: self.trials, outcome, best_ns });
        if best_ns < from_ns {
            self.trials_at_best = self.trials;
            if from_ns.is_finite() {
                (ctx.on_event)(Event::Improved { task, from_ns, to_ns: best_ns, source });
            }
        }
    }

    /// Returns a trial as the log has it, without its workload.
    pub(super) fn trial(
        &self,
        proposed: &Proposed,
        artifact: String,
        outcome: Outcome,
        stage: log::Stage,
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
            cold: operands::recorded(&self.task.cold, self.task.platform()),
            slowdown: self.slowdown,
            generate_ms: proposed.generate_ms,
            measure_ms,
            unix_ms: unix_ms(),
            seed: self.seed,
        }
    }

    /// Adds the origin of a point that works.
    pub(super) fn add_origin(
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
