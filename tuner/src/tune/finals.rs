//! Which of the best candidates is the best: all of them again, verified at every extent, timed
//! side by side for many rounds.
//!
//! While they were screened, minutes lay between them, and clocks drift by more than they differ.
//! The default schedule wins unless another one is faster for certain.

use std::time::Duration;

use tvmtune_plan::record::Source;

use super::judge;
use super::session::{Candidate, Context, Session};
use crate::measure::MeasureError;

/// Rounds of timing side by side, if there is time for them.
const ROUNDS: usize = 15;
/// Rounds without which nothing can be decided.
const FEWEST_ROUNDS: usize = 8;
/// Finalists that compete however slow they are: the default schedule, and others.
const FEWEST: usize = 3;
/// The share of a task's time that its finals may take.
const SHARE: f64 = 0.25;
/// How unlikely a difference must be to be believed.
const P: f64 = 0.05;
/// A gain below this is not worth another schedule than the default one.
const WORTH: f64 = 0.005;

/// How many finalists there are, and how often each is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    n_finalists: usize,
    rounds: usize,
}

impl Session {
    /// How long the finals are going to take.
    pub(super) fn finals_time(&self) -> Duration {
        self.finals_plan().1
    }

    /// As many finalists and rounds as there is time for.
    fn finals_plan(&self) -> (Plan, Duration) {
        let policy = self.task.maker.policy();
        let launch = self.good.last().map_or(0.0, |it| it.timing.min_ns());
        // Each round warms up and takes a sample; verifying takes some launches at cold memory.
        let timed = 2.0 * launch.max(policy.min_sample_ns);
        let verified = 20.0 * launch + 5e6;
        let time = |it: Plan| {
            let n = it.n_finalists as f64;
            Duration::from_nanos((n * (verified + it.rounds as f64 * timed)) as u64)
        };
        let allowed = self.budget().per_task.mul_f64(SHARE);
        let mut plan = Plan { n_finalists: self.good.len(), rounds: ROUNDS };
        while time(plan) > allowed && plan.rounds > FEWEST_ROUNDS {
            plan.rounds -= 1;
        }
        while time(plan) > allowed && plan.n_finalists > FEWEST {
            plan.n_finalists -= 1;
        }
        // What it takes to find out what other numbers lead to, about as much as at the start.
        (plan, time(plan) + self.preparation)
    }

    /// The candidates in order of preference, with their timings side by side; empty if none is
    /// left.
    pub(super) fn finals(
        &mut self,
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        self.set_up(ctx)?;
        let (plan, _) = self.finals_plan();
        let mut finalists = self.verified(plan.n_finalists, ctx)?;
        let jobs: Vec<_> = finalists.iter().map(|it| &it.job).collect();
        let policy = self.task.maker.policy();
        let Ok(timings) = ctx.measurer.compare(&jobs, plan.rounds, &policy)? else {
            return Ok(Vec::new());
        };
        for (it, timing) in finalists.iter_mut().zip(timings) {
            it.timing = timing;
        }
        finalists.sort_by(|a, b| a.timing.typical_ns().total_cmp(&b.timing.typical_ns()));
        prefer_default(&mut finalists);
        self.confirm(finalists, seed, ctx)
    }

    /// The first candidates, and the default schedule, as far as they are right at all extents.
    fn verified(
        &mut self,
        n: usize,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        let mut verified = Vec::new();
        for (place, it) in std::mem::take(&mut self.good).into_iter().enumerate() {
            if place >= n && it.source != Source::Default {
                continue;
            }
            // With nothing to beat, every extent is verified.
            let policy = self.task.maker.policy();
            if ctx.measurer.measure(&it.job, &policy)?.timing().is_some() {
                verified.push(it);
            } else {
                self.failures += 1;
            }
        }
        Ok(verified)
    }

    /// Drops candidates from the front until one is right on other numbers, too.
    fn confirm(
        &mut self,
        mut finalists: Vec<Candidate>,
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        while let Some(first) = finalists.first() {
            if judge::is_right(&self.task, &first.job, seed ^ 0x5eed, ctx.measurer)? {
                break;
            }
            self.failures += 1;
            finalists.remove(0);
        }
        Ok(finalists)
    }
}

/// Moves the default schedule to the front unless the first candidate beats it for certain.
fn prefer_default(ranked: &mut Vec<Candidate>) {
    let Some(place) = ranked.iter().position(|it| it.source == Source::Default) else { return };
    if place > 0 && !ranked[0].timing.beats(&ranked[place].timing, P, WORTH) {
        let default = ranked.remove(place);
        ranked.insert(0, default);
    }
}
