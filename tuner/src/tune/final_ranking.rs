//! The final ranking of a task: its best candidates, verified on all cases, are timed side by side.
//!
//! In: the candidates of a session. Out: the best of them by latency, the default schedule among them.
//! Timings taken during search are minutes apart, and clocks drift by more than candidates differ. The
//! default schedule comes first unless another one is significantly faster, also inside of a range.

use std::time::Duration;

use tvmtune_plan::record::Source;

use super::accuracy;
use super::budget::FinalPlan;
use super::event::Event;
use super::oracle::{Judging, Verdict};
use super::session::{Candidate, Context, Session};
use crate::executor::Stage;
use crate::measure::{Job, MeasureError};

/// The significance level of a difference to the default schedule.
const SIGNIFICANCE_LEVEL: f64 = 0.05;
/// The relative gain over the default schedule that another one needs besides.
const MIN_GAIN: f64 = 0.005;
/// The share of the time of a task for measuring accuracy, and the least time that is worth a start.
const ACCURACY_SHARE: f64 = 0.05;
const MIN_ACCURACY_TIME: Duration = Duration::from_millis(20);

impl Session {
    /// Ranks the candidates by timings side by side; empty if none is correct.
    pub(super) fn final_ranking(
        &mut self,
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        let plan = self.final_plan();
        // A default schedule that nothing competes with was verified when it was measured.
        if plan.rounds == 0 {
            self.good.retain(|it| it.source == Source::Default);
            let mut default = std::mem::take(&mut self.good);
            self.measure_accuracy(&mut default, ctx)?;
            return Ok(default);
        }
        let finalists = ctx.stage(Stage::Rank, |ctx| self.rank(plan, seed, ctx))?;
        ctx.stage(Stage::Judge, |ctx| {
            let mut finalists = self.confirm(finalists, seed, ctx)?;
            while !self.measure_accuracy(&mut finalists, ctx)? {
                finalists.remove(0);
                finalists = self.confirm(finalists, seed, ctx)?;
            }
            Ok(finalists)
        })
    }

    /// Measures the accuracy of the first candidate and of the default schedule, as far as there is time; returns
    /// false if results of the first one are wrong where those of the default schedule are right.
    fn measure_accuracy(
        &mut self,
        finalists: &mut [Candidate],
        ctx: &mut Context<'_>,
    ) -> Result<bool, MeasureError> {
        let limit = self.spent.mul_f64(ACCURACY_SHARE).min(self.judging);
        if finalists.is_empty() || limit < MIN_ACCURACY_TIME || !ctx.measurer.runs_code() {
            return Ok(true);
        }
        let default = finalists.iter().position(|it| it.source == Source::Default);
        let measured = match default {
            Some(default) if default > 0 => vec![0, default],
            _ => vec![0],
        };
        let jobs: Vec<&Job> = measured.iter().map(|it| &finalists[*it].job).collect();
        // The measurer is about to be set up for other arguments.
        *ctx.set_up = None;
        let found = accuracy::errors(&self.task, &jobs, limit, ctx.measurer)?;
        for (n, accuracy) in measured.iter().zip(found) {
            finalists[*n].accuracy = accuracy;
        }
        let known = default.and_then(|it| finalists[it].accuracy.as_ref());
        let found = finalists[0].accuracy.as_ref();
        let loss = found.zip(known).and_then(|(found, known)| found.wrong_beside(known));
        if let Some(loss) = &loss {
            self.failures += 1;
            let what = format!("{}: a schedule is left out: it has {loss}", self.task.name);
            (ctx.on_event)(Event::Warning { what });
        }
        Ok(loss.is_none())
    }

    /// Times the best candidates side by side; empty if one fails.
    fn rank(
        &mut self,
        plan: FinalPlan,
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        self.set_up(ctx)?;
        let mut finalists = self.verified(plan.n_finalists, ctx)?;
        let Some(timings) = self.compare(&finalists, plan.rounds, ctx)? else {
            return Ok(Vec::new());
        };
        for (it, timing) in finalists.iter_mut().zip(timings) {
            it.timing = timing;
        }
        finalists.sort_by(|a, b| a.timing.typical_ns().total_cmp(&b.timing.typical_ns()));
        prefer_default(&mut finalists);
        self.drop_slow_inside(&mut finalists, plan.rounds, seed, ctx)?;
        Ok(finalists)
    }

    /// Returns the best `n` candidates, and the default schedule, without those that fail on some case.
    fn verified(
        &mut self,
        n: usize,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        let mut verified = Vec::new();
        for (rank, it) in std::mem::take(&mut self.good).into_iter().enumerate() {
            if rank >= n && it.source != Source::Default {
                continue;
            }
            // Without a latency to beat, all cases are verified.
            let policy = self.task.builder.policy();
            if it.is_verified || ctx.measurer.measure(&it.job, &policy)?.timing().is_some() {
                verified.push(it);
            } else {
                self.failures += 1;
            }
        }
        Ok(verified)
    }

    /// Drops candidates, best first, until one is correct on inputs drawn from another seed as well.
    fn confirm(
        &mut self,
        mut finalists: Vec<Candidate>,
        seed: u64,
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Candidate>, MeasureError> {
        while let Some(first) = finalists.first_mut() {
            let oracle = &mut ctx.shared.oracle;
            let judging = Judging { seed: seed ^ 0x5eed, limit: self.judging };
            match oracle.verdict(&self.task, &first.job, judging, ctx.measurer)? {
                Verdict::Correct { error } => {
                    first.error = error;
                    break;
                }
                Verdict::Wrong => {
                    self.failures += 1;
                    finalists.remove(0);
                }
            }
        }
        Ok(finalists)
    }
}

/// Moves the default schedule to the front unless the first candidate is significantly faster.
fn prefer_default(ranked: &mut Vec<Candidate>) {
    let Some(rank) = ranked.iter().position(|it| it.source == Source::Default) else { return };
    if rank > 0 && !ranked[0].timing.beats(&ranked[rank].timing, SIGNIFICANCE_LEVEL, MIN_GAIN) {
        let default = ranked.remove(rank);
        ranked.insert(0, default);
    }
}
