//! Which of the best candidates is the best: all of them again, verified at every extent, timed
//! side by side for many rounds.
//!
//! While they were screened, minutes lay between them, and clocks drift by more than they differ.
//! The default schedule wins unless another one is faster for certain.

use tvmtune_core::record::Source;

use super::judge;
use super::session::{Candidate, Context, Session};
use crate::measure::{MeasureError, Policy};
use crate::outcome::Timing;
use crate::statistics;

/// Rounds of timing side by side.
const ROUNDS: usize = 15;
/// How unlikely a difference must be to be believed.
const P: f64 = 0.05;
/// A gain below this is not worth another schedule than the default one.
const WORTH: f64 = 0.005;

impl Session {
    /// The candidates in order of preference, with their timings side by side; empty if none is
    /// left.
    pub(super) fn finals(
        &mut self,
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        self.set_up(ctx)?;
        let mut finalists = self.verified(ctx)?;
        let jobs: Vec<_> = finalists.iter().map(|it| &it.job).collect();
        let Ok(timings) = ctx.measurer.compare(&jobs, ROUNDS, &Policy::default())? else {
            return Ok(Vec::new());
        };
        for (it, timing) in finalists.iter_mut().zip(timings) {
            it.timing = timing;
        }
        finalists.sort_by(|a, b| a.timing.median_ns().total_cmp(&b.timing.median_ns()));
        prefer_default(&mut finalists);
        self.confirm(finalists, seed, ctx)
    }

    /// The candidates that are right at all extents.
    fn verified(&mut self, ctx: &mut Context<'_>) -> Result<Vec<Candidate>, MeasureError> {
        let mut verified = Vec::new();
        for it in std::mem::take(&mut self.good) {
            // With nothing to beat, every extent is verified.
            if ctx.measurer.measure(&it.job, &Policy::default())?.timing().is_some() {
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
        let dims = &self.task.dims()[..1];
        let Ok(second) = judge::reference(&self.task, dims, seed ^ 0x5eed, ctx.measurer)? else {
            return Ok(Vec::new());
        };
        ctx.measurer.set_up(&second.cases, Some(&second.expected))?;
        while let Some(first) = finalists.first() {
            if ctx.measurer.measure(&first.job, &Policy::default())?.timing().is_some() {
                break;
            }
            finalists.remove(0);
        }
        Ok(finalists)
    }
}

/// Moves the default schedule to the front unless the first candidate beats it for certain.
fn prefer_default(ranked: &mut Vec<Candidate>) {
    let Some(place) = ranked.iter().position(|it| it.source == Source::Default) else { return };
    if place > 0 && !is_worth_it(&ranked[0].timing, &ranked[place].timing) {
        let default = ranked.remove(place);
        ranked.insert(0, default);
    }
}

/// Whether one timing is faster than another by enough, and not by chance.
fn is_worth_it(faster: &Timing, slower: &Timing) -> bool {
    let p = statistics::p_not_faster(faster.samples_ns(), slower.samples_ns());
    faster.median_ns() < slower.median_ns() * (1.0 - WORTH) && p < P
}
