//! One task while it is tuned: what was tried, what is best, what is left to spend.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tvmtune_core::codegen::Generated;
use tvmtune_core::record::{Entry, GENERATOR, Source};
use tvmtune_core::schedule::{Instruction, Threads, default};

use super::budget::{Budget, Stopwatch};
use super::event::Event;
use super::judge::{self, Reference};
use super::log::Trial;
use super::task::{Task, Workload};
use crate::cost::Draft;
use crate::measure::{Job, MeasureError, Measurer, Policy};
use crate::outcome::{Outcome, Timing};
use crate::search::{Evolutionary, Proposal, Strategy};
use crate::space::{Point, Space};

/// Candidates of one round: enough to learn from, and few enough to turn to another task.
const ROUND: usize = 32;
/// A round ends after this long, however many candidates are left.
const ROUND_TIME: Duration = Duration::from_secs(3);
/// Trials in a row without a better candidate after which a task is done.
const STALE: u64 = 300;
/// Candidates that are kept for the finals.
const FINALISTS: usize = 12;

/// A candidate that works.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
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
    space: Arc<Space>,
    strategy: Box<dyn Strategy>,
    pub(super) reference: Reference,
    /// What became of code, by its identity: different points may make the same.
    seen: BTreeMap<String, Outcome>,
    /// What works, fastest first; the default schedule is among them, wherever it stands.
    pub(super) good: Vec<Candidate>,
    /// The best latency when the last round began, and how long that round took.
    last_round: Option<(f64, Duration)>,
    budget: Budget,
    pub(super) trials: u64,
    pub(super) failures: u64,
    trials_at_best: u64,
    pub(super) spent: Duration,
    /// The time it took to find out what to compute.
    pub(super) preparation: Duration,
    exhausted: bool,
}

/// What a session needs of the world.
pub(super) struct Context<'a> {
    pub(super) workload: &'a Workload,
    pub(super) measurer: &'a mut Measurer,
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
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<Result<Self, String>, MeasureError> {
        let watch = Stopwatch::start();
        let schedule = default::schedule(&task.dag, &task.target.into());
        let generated = match task.generate(&schedule.trace) {
            Ok(generated) => generated,
            Err(why) => return Ok(Err(why)),
        };
        let reference = match judge::reference(&task, &task.dims(), seed, ctx.measurer)? {
            Ok(reference) => reference,
            Err(why) => return Ok(Err(why)),
        };
        let space = Arc::new(Space::new(&task.dag, &task.target.into()));
        let draft = Draft::new(&task.dag, task.target, space.clone());
        let strategy = Box::new(Evolutionary::new(space.clone(), seed, Some(Box::new(draft))));
        let mut session = Self {
            task,
            space,
            strategy,
            reference,
            seen: BTreeMap::new(),
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
        let outcome = session.try_out(None, Source::Default, schedule.trace, Ok(generated), ctx)?;
        let Some(timing) = outcome.timing() else {
            return Ok(Err(format!("its default schedule {outcome}")));
        };
        (ctx.on_event)(Event::Default { task: &session.task.name, ns: timing.min_ns() });
        session.spent = watch.elapsed();
        Ok(Ok(session))
    }

    /// Tells the worker what this task computes.
    pub(super) fn set_up(&self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        ctx.measurer.set_up(&self.reference.cases, Some(&self.reference.expected))
    }

    /// Learns what earlier sessions found out.
    pub(super) fn resume(&mut self, trials: &[Trial]) {
        let (isa, bucket) = (self.task.isa().name(), self.task.bucket_key());
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
                let generated = self.task.generate(&trace);
                self.try_out(None, entry.source, trace, generated, ctx)?;
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
        self.good.first().map_or(f64::INFINITY, |it| it.timing.min_ns())
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

    /// Measures some candidates; false if the best is still the same.
    pub(super) fn round(&mut self, ctx: &mut Context<'_>) -> Result<bool, MeasureError> {
        let watch = Stopwatch::start();
        let before = self.best_ns();
        let n = ROUND.min((self.budget.trials.saturating_sub(self.trials)) as usize);
        let proposals = self.strategy.propose(n);
        self.exhausted = proposals.is_empty();
        for Proposal { point, source } in proposals {
            let trace = self.space.instructions(&point);
            let clock = Stopwatch::start();
            let generated = self.task.generate(&trace);
            let known = generated.as_ref().ok().and_then(|it| self.seen.get(&it.artifact.0));
            let outcome = match known {
                Some(outcome) => outcome.clone(),
                None => self.try_out(Some((&point, clock)), source, trace, generated, ctx)?,
            };
            self.strategy.observe(&point, &outcome);
            let spent = self.spent + watch.elapsed();
            if watch.elapsed() > ROUND_TIME || spent + self.finals_time() > self.budget.per_task {
                break;
            }
        }
        self.spent += watch.elapsed();
        self.last_round = Some((before, watch.elapsed()));
        Ok(self.best_ns() < before)
    }

    /// Measures one candidate, remembers it, and tells the world.
    fn try_out(
        &mut self,
        proposed: Option<(&Point, Stopwatch)>,
        source: Source,
        trace: Vec<Instruction>,
        generated: Result<Generated, String>,
        ctx: &mut Context<'_>,
    ) -> Result<Outcome, MeasureError> {
        let generate_ms = proposed.map_or(0.0, |(_, it)| it.elapsed().as_secs_f64() * 1e3);
        let clock = Stopwatch::start();
        let (mut artifact, mut job, mut threads) = (String::new(), None, 1);
        let outcome = match generated {
            Err(why) => Outcome::Invalid(why),
            Ok(it) => {
                let made = Job::new(&it.kernel, &it.code.phases, &self.reference.cases);
                let best_ns = Some(self.best_ns()).filter(|it| it.is_finite());
                let outcome =
                    ctx.measurer.measure(&made, &Policy { best_ns, ..Policy::default() })?;
                self.seen.insert(it.artifact.0.clone(), outcome.clone());
                (artifact, job) = (it.artifact.0, Some(made));
                threads =
                    if it.kernel.threads == Threads::One { 1 } else { self.task.target.threads };
                outcome
            }
        };
        let from_ns = self.best_ns();
        if let (Outcome::Timed(timing), Some(job)) = (&outcome, job) {
            let (artifact, timing) = (artifact.clone(), timing.clone());
            self.keep(Candidate { trace: trace.clone(), artifact, source, threads, job, timing });
        }
        self.trials += 1;
        self.failures += u64::from(outcome.timing().is_none());
        let sketch = proposed.map(|(it, _)| self.space.sketch(it).name.clone());
        (ctx.log)(&Trial {
            workload: ctx.workload.id.clone(),
            generator: GENERATOR,
            bucket: self.task.bucket_key(),
            isa: self.task.isa().name().to_owned(),
            source,
            sketch: sketch.unwrap_or_default(),
            choices: proposed.map(|(it, _)| it.choices.clone()).unwrap_or_default(),
            trace: lines(&trace),
            artifact,
            outcome: outcome.clone(),
            generate_ms,
            measure_ms: clock.elapsed().as_secs_f64() * 1e3,
            unix_ms: unix_ms(),
        });
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

impl Task {
    /// The ranges, as the log keeps them.
    fn bucket_key(&self) -> Vec<(i64, i64)> {
        self.bucket.iter().map(|it| (it.lo, it.hi)).collect()
    }
}

/// A trace as records keep it.
pub(super) fn lines(trace: &[Instruction]) -> Vec<String> {
    trace.iter().map(ToString::to_string).collect()
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis() as u64)
}
