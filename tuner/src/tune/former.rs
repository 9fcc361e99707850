//! The code that an earlier release made of recorded schedules, timed beside what this one makes.
//!
//! In: code that was kept when a schedule was recorded. Out: whether the best candidate is slower than
//! it. It is no candidate: no record names it any more, and a build could not embed it.

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_plan::record::Entry;

use super::event::{Event, FormerCode};
use super::session::{Candidate, Context, Session};
use crate::executor::Stage;
use crate::measure::{Job, MeasureError};
use crate::outcome::{Outcome, Timing};

/// The significance level of a difference to the code of an earlier release.
const SIGNIFICANCE_LEVEL: f64 = 0.05;
/// The relative loss from which a candidate is slower: the same bytes at another address differ by less.
const MIN_LOSS: f64 = 0.03;

/// The code that an earlier release made of a recorded schedule.
#[derive(Clone, Debug)]
pub(super) struct Former {
    pub(super) job: Job,
    /// Its timing, taken beside the finalists once there are any.
    pub(super) timing: Timing,
}

impl Session {
    /// Verifies and times the code of a record that is made in another way now, if it was kept. Where it
    /// can't be used, a warning says so.
    pub(super) fn measure_former(
        &mut self,
        artifact: &ArtifactId,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let Some(kept) = &ctx.shared.kept else { return Ok(()) };
        let trouble = match kept.load(artifact, &self.reference.cases) {
            Ok(None) => return Ok(()),
            Ok(Some(job)) => match ctx.measurer.measure(&job, &self.task.builder.policy())? {
                Outcome::Timed(timing) => {
                    self.formers.push(Former { job, timing });
                    return Ok(());
                }
                failure => failure.to_string(),
            },
            Err(error) => error.to_string(),
        };
        let what =
            format!("{}: the code of an earlier release is ignored: {trouble}", self.task.name);
        (ctx.on_event)(Event::Warning { what });
        Ok(())
    }

    /// Measures the code of a recorded default schedule, if the default schedule is other code now.
    pub(super) fn replace_default(
        &mut self,
        recorded: &Entry,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let code = recorded.timed_code();
        if self.measured.contains_key(&code) {
            return Ok(());
        }
        self.replaced.insert(code);
        ctx.stage(Stage::Measure, |ctx| self.measure_former(&code, ctx))
    }

    /// Returns whether what this session measured takes the place of a recorded schedule, whose times are
    /// of code that its trace makes no longer.
    pub(super) fn replaces(&self, entry: &Entry) -> bool {
        let is_marked = entry.is_replayed() && self.measured.contains_key(&entry.artifact);
        self.replaced.contains(&entry.timed_code()) || is_marked
    }

    /// Tells if code of an earlier release is faster than all candidates, as far as screening tells.
    pub(super) fn is_behind_former(&self) -> bool {
        let best_ns = self.good.first().map_or(f64::INFINITY, |it| it.timing.min_ns());
        self.formers.iter().any(|it| it.timing.min_ns() < best_ns * (1.0 - MIN_LOSS))
    }

    /// Times finalists side by side, and the code of earlier releases with them; `None` if a finalist
    /// fails.
    pub(super) fn compare(
        &mut self,
        finalists: &[Candidate],
        rounds: usize,
        ctx: &mut Context<'_>,
    ) -> Result<Option<Vec<Timing>>, MeasureError> {
        let policy = self.task.builder.policy();
        let own: Vec<&Job> = finalists.iter().map(|it| &it.job).collect();
        if !self.formers.is_empty() {
            let formers = self.formers.iter().map(|it| &it.job);
            let all: Vec<&Job> = own.iter().copied().chain(formers).collect();
            if let Ok(mut timings) = ctx.measurer.compare(&all, rounds, &policy)? {
                let of_formers = timings.split_off(own.len());
                for (former, timing) in self.formers.iter_mut().zip(of_formers) {
                    former.timing = timing;
                }
                return Ok(Some(timings));
            }
            // Candidates must not suffer from code that nobody uses any more.
            self.formers.clear();
        }
        Ok(ctx.measurer.compare(&own, rounds, &policy)?.ok())
    }

    /// Returns the fastest code of an earlier release, and if it is faster than the best candidate, which
    /// was timed beside it.
    pub(super) fn former_code(&self, best: &Candidate) -> Option<FormerCode> {
        let ns = |it: &&Former| it.timing.typical_ns();
        let former = self.formers.iter().min_by(|a, b| ns(a).total_cmp(&ns(b)))?;
        let is_faster = former.timing.beats(&best.timing, SIGNIFICANCE_LEVEL, MIN_LOSS);
        Some(FormerCode { ns: former.timing.typical_ns(), is_faster })
    }
}
