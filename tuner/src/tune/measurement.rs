//! One trial: a candidate is verified and timed, and its outcome reported to all who learn from it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tvmtune_plan::record::{Ancestor, GENERATOR, Source};
use tvmtune_space::operands;

use super::code::Code;
use super::drift::DriftBaseline;
use super::event::Event;
use super::log::{Stage, Trial};
use super::lower_bound;
use super::session::{Candidate, Context, Origin, Proposed, Session, lines, tenths};
use super::spent::Activity;
use crate::measure::{MeasureError, Policy};
use crate::outcome::{Outcome, Timing};
use crate::space::Point;

/// The maximum number of candidates in the final ranking.
const MAX_CANDIDATES: usize = 12;

impl Session {
    /// Measures one candidate, and reports its outcome to the strategy, the log, the cost model and
    /// the transfer source.
    pub(super) fn measure(
        &mut self,
        proposed: &Proposed,
        code: Result<Code, String>,
        ctx: &mut Context<'_>,
    ) -> Result<Outcome, MeasureError> {
        let mut measure_ms = 0.0;
        let from_ns = self.best_ns();
        let source = proposed.source;
        let mut artifact = String::new();
        let outcome = match code {
            Err(why) => Outcome::Invalid(why),
            Ok(it) => {
                let job = it.job(&self.reference.cases);
                let best_ns = Some(from_ns).filter(|it| it.is_finite());
                let policy = Policy { best_ns, ..self.task.builder.policy() };
                let clock = Instant::now();
                let outcome =
                    ctx.timed(Activity::Measuring, |ctx| ctx.measurer.measure(&job, &policy))?;
                measure_ms = clock.elapsed().as_secs_f64() * 1e3;
                let is_verified =
                    outcome.timing().is_some_and(|it| policy.verifies_all_cases(it.min_ns()));
                let outcome = lower_bound::check(outcome, self.lower_bound_ns);
                let outcome = DriftBaseline::corrected(outcome, self.slowdown);
                artifact = it.artifact.to_string();
                self.measured.insert(it.artifact, outcome.clone());
                let latency_ns = outcome.timing().map(Timing::min_ns);
                let features = || self.task.features(&proposed.trace);
                ctx.timed(Activity::Proposing, |ctx| {
                    ctx.shared.add_sample(self.number, features, latency_ns);
                });
                if let Outcome::Timed(timing) = &outcome {
                    let Proposed { point, trace, .. } = proposed.clone();
                    let (artifact, timing) = (it.artifact, timing.clone());
                    self.add_candidate(Candidate {
                        point,
                        trace,
                        artifact,
                        source,
                        threads: it.threads,
                        job,
                        timing,
                        is_verified,
                        error: None,
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
        let trial = self.trial(proposed, artifact, outcome.clone(), Stage::Screen, measure_ms);
        (ctx.log)(&Trial { workload: ctx.workload.id.to_string(), ..trial });
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
    pub(super) fn trial(
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
            cold: operands::recorded(&self.task.cold, self.task.platform()),
            slowdown: self.slowdown,
            generate_ms: proposed.generate_ms,
            measure_ms,
            unix_ms: unix_ms(),
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
