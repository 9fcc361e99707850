//! The state of a task while it is tuned: measured code, the best candidates, the spent budget.
//!
//! Rounds, transfers, the drift baseline and the final ranking are files of their own, which extend
//! [`Session`] or keep its candidates; so they and this file refer to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::target::Target;
use tvmtune_plan::record::{Accuracy, Source};
use tvmtune_schedule::Instruction;

use super::budget::{Budget, Candidates, FinalPlan};
use super::drift::DriftBaseline;
use super::event::Event;
use super::former::Former;
use super::log::Trial;
use super::oracle::Reference;
use super::recipe::Recipe;
use super::scheduler::FIRST_SEARCH;
use super::shared::Shared;
use super::spent::TimeSpent;
use super::task::{Task, Workload};
use super::transfer::Received;
use crate::allocation::TaskState;
use crate::cost::analytic::AnalyticModel;
use crate::executor::TuningJob;
use crate::measure::{Job, Measure, MeasureError};
use crate::outcome::{Outcome, Timing};
use crate::search::Strategy;
use crate::space::{Point, Space};

/// Candidates of one round: enough to train on, and few enough to switch to another task.
pub(super) const ROUND: usize = 32;
/// Trials in a row without a better candidate after which a task is done.
const STALE: u64 = 300;
/// The time of a first search in which fewer than [`ROUND`] candidates could be measured.
const MAX_FIRST_ROUND: Duration = Duration::from_secs(3);
/// The latency of a candidate of the final ranking, relative to the best, at most.
const MAX_SLOWDOWN: f64 = 1.25;

/// A candidate before it has code.
#[derive(Clone, Debug)]
pub(super) struct Proposed {
    pub(super) source: Source,
    pub(super) point: Option<Point>,
    pub(super) parent: Option<Point>,
    pub(super) trace: Vec<Instruction>,
    /// The wall time of building its code.
    pub(super) generate_ms: f64,
}

/// A candidate that works.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its point in the space, if it has one.
    pub(super) point: Option<Point>,
    pub(super) trace: Vec<Instruction>,
    pub(super) artifact: ArtifactId,
    pub(super) source: Source,
    /// Threads of the host that run it.
    pub(super) threads: u32,
    pub(super) job: Job,
    pub(super) timing: Timing,
    /// Set if its results were right on all cases, and not on the first one only.
    pub(super) is_verified: bool,
    /// The largest difference of its results, as a share of the tolerance, if it was looked for.
    pub(super) error: Option<f64>,
    /// The errors of its results by class of arguments, if they were measured.
    pub(super) accuracy: Option<Accuracy>,
}

/// The origin of a measured point.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) median_ns: f64,
    pub(super) parent: Option<Point>,
}

impl Proposed {
    /// Creates a candidate of a trace that need not be a point of the space.
    pub(super) fn new(source: Source, trace: Vec<Instruction>) -> Self {
        Self { source, point: None, parent: None, trace, generate_ms: 0.0 }
    }
}

/// Formats a trace as records have it.
pub(super) fn lines(trace: &[Instruction]) -> Vec<String> {
    trace.iter().map(ToString::to_string).collect()
}

/// Rounds to a tenth, as records have times.
pub(super) fn tenths(time: f64) -> f64 {
    (time * 10.0).round() / 10.0
}

/// A task that is being tuned.
pub(super) struct Session {
    pub(super) task: Task,
    pub(super) space: Space,
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) recipe: Recipe,
    /// The seed of its strategy.
    pub(super) seed: u64,
    pub(super) analytic: AnalyticModel,
    /// The task's number in the cost model.
    pub(super) number: usize,
    pub(super) received: Received,
    pub(super) reference: Reference,
    /// The outcomes of code by its identity: different points may have the same code.
    pub(super) measured: BTreeMap<ArtifactId, Outcome>,
    /// The identity of the code of the schedule that was shipped.
    pub(super) shipped: Option<ArtifactId>,
    /// The identities of recorded code that another release made of its trace: the code that the trace
    /// makes now takes its place.
    pub(super) replaced: BTreeSet<ArtifactId>,
    /// The code that earlier releases made of recorded schedules.
    pub(super) formers: Vec<Former>,
    /// Set if a search is only for a candidate as fast as that.
    pub(super) only_catches_up: bool,
    /// The origins of measured points.
    pub(super) origins: BTreeMap<Point, Origin>,
    pub(super) drift: Option<DriftBaseline>,
    /// The slowdown of the machine since the task began.
    pub(super) slowdown: f64,
    /// The lower bound on the latency.
    pub(super) lower_bound_ns: f64,
    /// The best candidates, fastest first; the default schedule is always among them.
    pub(super) good: Vec<Candidate>,
    /// Its trials and rounds, by which the scheduler chooses.
    pub(super) state: TaskState,
    pub(super) budget: Budget,
    pub(super) trials: u64,
    pub(super) failures: u64,
    pub(super) trials_at_best: u64,
    /// Trials of earlier sessions, and of opening this one.
    pub(super) first_trial: u64,
    /// Wall time, of earlier sessions too, and that of these.
    pub(super) spent: Duration,
    pub(super) spent_earlier: Duration,
    /// The time of opening this session.
    pub(super) opening: Duration,
    /// The time limit of judging.
    pub(super) judging: Duration,
    /// The time of this session by activity.
    pub(super) times: TimeSpent,
    pub(super) exhausted: bool,
    /// Batches that were measured again, since the machine slowed down meanwhile.
    pub(super) n_repeated: u64,
}

/// The environment of a session.
pub(super) struct Context<'a> {
    pub(super) workload: &'a Workload,
    pub(super) measurer: &'a mut dyn Measure,
    /// The number of the session that the measurer is set up for; `None` if it is for other cases.
    pub(super) set_up: &'a mut Option<usize>,
    /// The job that asks for the stages of the session.
    pub(super) job: &'a TuningJob<'a>,
    /// The device that measures.
    pub(super) device: Target,
    /// The end of the budget.
    pub(super) deadline: Option<Instant>,
    /// Set if only the final ranking is left.
    pub(super) is_final: bool,
    pub(super) shared: &'a mut Shared,
    /// Appends a trial to the log.
    pub(super) log: &'a mut dyn FnMut(&Trial),
    pub(super) on_event: &'a mut dyn FnMut(Event<'_>),
    /// The time since the context was made, by activity.
    pub(super) times: TimeSpent,
}

impl Session {
    /// Sets up the measurer for this task, unless it is.
    pub(super) fn set_up(&self, ctx: &mut Context<'_>) -> Result<(), MeasureError> {
        if ctx.set_up.replace(self.number) != Some(self.number) {
            ctx.measurer.set_up(&self.reference.cases, Some(&self.reference.expected()))?;
        }
        Ok(())
    }

    /// Tells if the search is complete, or the budget spent but for the final ranking.
    pub(super) fn is_done(&self) -> bool {
        self.needs_no_more()
            || self.trials >= self.budget.trials
            || self.spent + self.final_ranking_time() >= self.budget.per_task
    }

    /// Tells if more of a budget would change nothing.
    pub(super) fn needs_no_more(&self) -> bool {
        self.is_complete()
            || self.task.is_good_enough(self.best_ns())
            || self.only_catches_up && !self.is_behind_former()
    }

    /// Tells if the strategy is exhausted, or has not improved for long.
    pub(super) fn is_complete(&self) -> bool {
        self.exhausted || self.trials >= self.trials_at_best + STALE
    }

    /// Tells if the session has not searched long enough for what it took to open it.
    pub(super) fn is_in_first_search(&self) -> bool {
        let searched = self.times.searching();
        let is_short = searched < FIRST_SEARCH * self.opening;
        let is_small = self.trials < self.first_trial + ROUND as u64;
        !self.is_done() && (is_short || is_small && searched < MAX_FIRST_ROUND)
    }

    /// Returns the latency of the schedule that was shipped: as ranked, or else as it was measured first.
    pub(super) fn shipped_ns(&self, ranked: &[Candidate]) -> Option<f64> {
        let shipped = self.shipped.as_ref()?;
        let ranked = ranked.iter().find(|it| it.artifact == *shipped);
        let measured = || Some(self.measured.get(shipped)?.timing()?.min_ns());
        ranked.map(|it| it.timing.typical_ns()).or_else(measured)
    }

    /// Plans the final ranking.
    pub(super) fn final_plan(&self) -> FinalPlan {
        let limit_ns = self.good.first().map_or(0.0, |it| it.timing.min_ns() * MAX_SLOWDOWN);
        let may_win =
            |it: &&Candidate| it.timing.min_ns() <= limit_ns || it.source == Source::Default;
        let competing = self.good.iter().filter(may_win);
        let launches_ns = competing.clone().map(|it| it.timing.median_ns());
        let candidates = Candidates {
            n: competing.clone().count() + self.formers.len(),
            n_unverified: competing.filter(|it| !it.is_verified).count(),
            launch_ns: launches_ns.fold(0.0, f64::max),
            min_sample_ns: self.task.builder.policy().min_sample_ns,
            is_range: self.task.inner_dims().is_some(),
        };
        match self.only_catches_up {
            true => FinalPlan::full(candidates),
            false => FinalPlan::new(self.times.searching(), candidates),
        }
    }

    /// Estimates the time of the final ranking, and of judging the best on other arguments.
    pub(super) fn final_ranking_time(&self) -> Duration {
        let plan = self.final_plan();
        match plan.rounds {
            0 => Duration::ZERO,
            _ => plan.time + self.reference.time_of_case(),
        }
    }

    /// Returns the latency of the best candidate.
    pub(super) fn best_ns(&self) -> f64 {
        // The default schedule does not count if the search must not start from it.
        let counts = |it: &&Candidate| self.recipe.analytic || it.source != Source::Default;
        self.good.iter().find(counts).map_or(f64::INFINITY, |it| it.timing.min_ns())
    }
}
