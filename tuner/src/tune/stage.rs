//! The stages of a session: each waits for what it needs of the machine, and gives it back.
//!
//! Stages do not nest. Waiting is no activity of the session, and not of its time.

use std::time::{Duration, Instant};

use tvmtune_ir::target::Target;
use tvmtune_plan::database::Wait;

use super::event::Event;
use super::progress::who_measures;
use super::session::Context;
use crate::executor::{Needs, Stage};
use crate::measure::MeasureError;

/// The time that results wait to be ranked when the budget is spent: longer than a stage of others takes.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);
/// The time of waiting from which it is told: stages of others take less.
const WORTH_TELLING: Duration = Duration::from_secs(5);

/// A clock that stands while a session waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started: Instant,
    waited: Duration,
}

impl Context<'_> {
    /// Runs a stage as soon as it has what it needs.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Machine`] if others have it until the budget is spent, and those of `f`.
    pub(super) fn stage<R>(
        &mut self,
        stage: Stage,
        f: impl FnOnce(&mut Self) -> Result<R, MeasureError>,
    ) -> Result<R, MeasureError> {
        let needs = self.needs(stage);
        let left = self.deadline.map(|it| it.saturating_duration_since(Instant::now()));
        let left = left.unwrap_or(Duration::MAX);
        let patience = if self.is_final { left.max(LEAST_PATIENCE) } else { left };
        let clock = Instant::now();
        let job = self.job;
        let permit = job.enter(stage, &needs, patience, &mut |wait| self.tell(wait));
        self.times.waiting += clock.elapsed();
        let permit = permit?;
        let result = f(self);
        drop(permit);
        result
    }

    /// Returns what a stage needs. Searching and building use all cores.
    fn needs(&self, stage: Stage) -> Needs {
        let n_cores = self.job.n_cores();
        let needs = match stage {
            Stage::Measure | Stage::Rank => Needs::timing(&self.device, n_cores),
            Stage::Judge | Stage::Propose | Stage::Build | Stage::Learn => Needs::cores(n_cores),
        };
        let builds_ahead = stage == Stage::Measure && self.builds_ahead();
        Needs { cores: if builds_ahead { n_cores } else { needs.cores }, ..needs }
    }

    /// Tells if code is built while candidates are measured: on a GPU, unless other jobs use the cores.
    /// Building code on the CPU would disturb timings on it.
    pub(super) fn builds_ahead(&self) -> bool {
        matches!(self.device, Target::Gpu(_)) && self.job.is_only_one()
    }

    /// Tells those who watch for whom this waits, if that takes long.
    fn tell(&mut self, Wait { waited, holder }: Wait<'_>) {
        if waited >= WORTH_TELLING {
            let cache = self.shared.cache.as_ref();
            let whom = cache.map_or_else(|| holder.to_string(), |it| who_measures(it, holder));
            (self.on_event)(Event::Waiting { waited, whom: &whom });
        }
    }

    /// Starts a clock.
    pub(super) fn clock(&self) -> Clock {
        Clock { started: Instant::now(), waited: self.times.waiting }
    }

    /// Returns the time since a clock started, less the time of waiting.
    pub(super) fn since(&self, clock: Clock) -> Duration {
        let waited = self.times.waiting.saturating_sub(clock.waited);
        clock.started.elapsed().saturating_sub(waited)
    }
}
