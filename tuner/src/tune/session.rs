//! The state of a task while it is tuned: measured code, the best candidates, the spent budget.

use std::collections::BTreeMap;
use std::time::Duration;

use tvmtune_plan::record::Source;

use super::budget::{Budget, FinalPlan};
use super::candidate::{Candidate, Origin};
use super::drift::DriftBaseline;
use super::event::Event;
use super::log::Trial;
use super::oracle::Reference;
use super::received::Received;
use super::recipe::Recipe;
use super::shared::Shared;
use super::task::{Task, Workload};
use crate::measure::{Measure, MeasureError};
use crate::outcome::Outcome;
use crate::search::{Score, Strategy};
use crate::space::{Point, Space};

/// Candidates of one round: enough to train on, and few enough to switch to another task.
pub(super) const ROUND: usize = 32;
/// Trials in a row without a better candidate after which a task is done.
const STALE: u64 = 300;
/// The expected relative gain of a round, at least; an estimate.
const MIN_GAIN: f64 = 0.05;

/// The search of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) recipe: Recipe,
    pub(super) seed: u64,
    pub(super) budget: Budget,
}

/// A task that is being tuned.
pub(super) struct Session {
    pub(super) task: Task,
    pub(super) space: Space,
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) recipe: Recipe,
    pub(super) analytic: Box<dyn Score>,
    /// The task's number in the cost model.
    pub(super) number: usize,
    pub(super) received: Received,
    pub(super) reference: Reference,
    /// The outcomes of code by its identity: different points may have the same code.
    pub(super) measured: BTreeMap<String, Outcome>,
    /// The origins of measured points.
    pub(super) origins: BTreeMap<Point, Origin>,
    pub(super) drift: Option<DriftBaseline>,
    /// The slowdown of the machine since the task began.
    pub(super) slowdown: f64,
    /// The lower bound on the latency.
    pub(super) lower_bound_ns: f64,
    /// The best candidates, fastest first; the default schedule is always among them.
    pub(super) good: Vec<Candidate>,
    /// The last round.
    pub(super) last_round: Option<LastRound>,
    pub(super) budget: Budget,
    pub(super) trials: u64,
    pub(super) failures: u64,
    pub(super) trials_at_best: u64,
    pub(super) spent: Duration,
    /// The time of computing the expected results.
    pub(super) preparation: Duration,
    pub(super) exhausted: bool,
}

/// A round that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastRound {
    /// The best latency when it began.
    pub(super) best_before_ns: f64,
    pub(super) time: Duration,
}

/// The environment of a session.
pub(super) struct Context<'a> {
    pub(super) workload: &'a Workload,
    pub(super) measurer: &'a mut dyn Measure,
    pub(super) shared: &'a mut Shared,
    /// Appends a trial to the log.
    pub(super) log: &'a mut dyn FnMut(&Trial),
    pub(super) on_event: &'a mut dyn FnMut(Event<'_>),
}

impl Session {
    /// Sets up the measurer for this task.
    pub(super) fn set_up(&self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        ctx.measurer.set_up(&self.reference.cases, Some(&self.reference.expected))
    }

    /// Tells if code of that identity was measured in this session.
    pub(super) fn was_measured(&self, artifact: &str) -> bool {
        self.measured.contains_key(artifact)
    }

    /// Tells if the search is complete, or the budget spent but for the final ranking.
    pub(super) fn is_done(&self) -> bool {
        self.is_complete()
            || self.trials >= self.budget.trials
            || self.spent + self.final_ranking_time() >= self.budget.per_task
    }

    /// Tells if the strategy is exhausted, or has not improved for long.
    pub(super) fn is_complete(&self) -> bool {
        self.exhausted || self.trials >= self.trials_at_best + STALE
    }

    /// Plans the final ranking.
    pub(super) fn final_plan(&self) -> FinalPlan {
        let launch_ns = self.good.last().map_or(0.0, |it| it.timing.min_ns());
        let min_sample_ns = self.task.builder.policy().min_sample_ns;
        FinalPlan::new(self.budget.per_task, self.good.len(), launch_ns, min_sample_ns)
    }

    /// Estimates the time of the final ranking, with its reference results.
    pub(super) fn final_ranking_time(&self) -> Duration {
        self.final_plan().time + self.preparation
    }

    /// Returns the latency of the best candidate.
    pub(super) fn best_ns(&self) -> f64 {
        // The default schedule does not count if the search must not start from it.
        let counts = |it: &&Candidate| self.recipe.analytic || it.source != Source::Default;
        self.good.iter().find(counts).map_or(f64::INFINITY, |it| it.timing.min_ns())
    }

    /// Estimates the gain of another second, in ns per run of the program: that of the last round, but
    /// at least a share of the latency, which falls with the number of trials.
    pub(super) fn expected_gain(&self) -> f64 {
        let hope = self.best_ns() / (1.0 + self.trials as f64 / ROUND as f64);
        let rate = self.last_round.map_or(f64::INFINITY, |last| {
            let gained = (last.best_before_ns - self.best_ns()).max(MIN_GAIN * hope);
            gained / last.time.as_secs_f64().max(1e-3)
        });
        self.task.weight * rate
    }
}
