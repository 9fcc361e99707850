//! A batch of candidates: built, run while the machine is watched, and reported once it was quiet.
//!
//! The drift baseline is timed before and after. If the machine slowed down meanwhile, whoever did that
//! disturbed some of the timings, nobody knows which: the batch is run again, and the faster timing of
//! each candidate counts. Nothing is reported before, so that no strategy learns from noise.

use std::collections::BTreeSet;
use std::time::Duration;

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_schedule::Instruction;

use super::code::Code;
use super::drift::is_disturbed;
use super::event::Event;
use super::measurement::Run;
use super::session::{Context, Proposed, Session};
use super::spent::Activity;
use super::stage::Clock;
use crate::executor::Stage;
use crate::measure::MeasureError;
use crate::parallel::{map_ahead, on_threads};
use crate::search::Proposal;

/// The limit of a round that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundClock {
    pub(super) started: Clock,
    pub(super) limit: Duration,
}

/// A proposal with its trace.
pub(super) type Traced = (Vec<Instruction>, Proposal);

/// Code of a proposal, or the reason why there is none, and the wall time of building it.
type Built = (Result<Code, String>, f64);

/// A proposal that was run, or is known from before.
struct Ran<'a> {
    proposal: &'a Traced,
    generate_ms: f64,
    /// The code's identity, if there is code.
    artifact: Option<ArtifactId>,
    /// `None` if the same code was measured before, or is earlier in the batch.
    run: Option<Run>,
}

impl Session {
    /// Builds, runs and reports proposals, as many as the round has time for.
    pub(super) fn measure_batch(
        &mut self,
        proposals: &[Traced],
        round: RoundClock,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let task = self.task.clone();
        let n_threads = ctx.shared.n_threads;
        let build = |(trace, _): &Traced| -> Built {
            let clock = std::time::Instant::now();
            let code = task.build(trace);
            (code, clock.elapsed().as_secs_f64() * 1e3)
        };
        let mut built = match ctx.builds_ahead() {
            true => Vec::new(),
            false => ctx.stage(Stage::Build, |ctx| {
                Ok(ctx.timed(Activity::Generating, |_| on_threads(n_threads, proposals, build)))
            })?,
        }
        .into_iter();
        ctx.stage(Stage::Measure, |ctx| {
            self.set_up(ctx)?;
            let before = self.measure_drift(ctx)?;
            let mut batch = Batch::new(self.best_ns());
            if built.len() == 0 {
                let (building, earlier) = (ctx.clock(), ctx.times.activities());
                map_ahead(n_threads, proposals, build, |proposal, built| {
                    self.run_proposal(proposal, built, &mut batch, ctx)?;
                    Ok::<bool, MeasureError>(!self.is_over(round, ctx))
                })?;
                // The rest of this time went into waiting for builders.
                let others = ctx.times.activities().saturating_sub(earlier);
                let waited = ctx.since(building).saturating_sub(others);
                ctx.times.spend(Activity::Generating, waited);
            } else {
                for (proposal, built) in proposals.iter().zip(&mut built) {
                    self.run_proposal(proposal, built, &mut batch, ctx)?;
                    if self.is_over(round, ctx) {
                        break;
                    }
                }
            }
            self.repeat_if_disturbed(before, &mut batch, ctx)?;
            for ran in batch.ran {
                self.report_proposal(ran, ctx);
            }
            Ok(())
        })
    }

    /// Runs the code of a proposal, unless the same code was run before.
    fn run_proposal<'a>(
        &self,
        proposal: &'a Traced,
        (code, generate_ms): Built,
        batch: &mut Batch<'a>,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let artifact = code.as_ref().ok().map(|it| it.artifact);
        let is_known = artifact
            .is_some_and(|it| self.measured.contains_key(&it) || !batch.artifacts.insert(it));
        let run = match is_known {
            true => None,
            false => Some(self.run(code, batch.best_ns, ctx)?),
        };
        let ns = run.as_ref().and_then(|it| it.outcome.timing()).map(|it| it.min_ns());
        batch.best_ns = batch.best_ns.min(ns.unwrap_or(f64::INFINITY));
        batch.ran.push(Ran { proposal, generate_ms, artifact, run });
        Ok(())
    }

    /// Runs a batch again if the machine slowed down, or sped up, since it began.
    fn repeat_if_disturbed(
        &mut self,
        before: f64,
        batch: &mut Batch<'_>,
        ctx: &mut Context<'_>,
    ) -> Result<(), MeasureError> {
        let after = self.measure_drift(ctx)?;
        if !is_disturbed(before, after) {
            return Ok(());
        }
        self.n_repeated += 1;
        let best_ns = self.best_ns();
        for run in batch.ran.iter_mut().filter_map(|it| it.run.as_mut()) {
            if run.outcome.timing().is_some()
                && let Some(code) = run.code.clone()
            {
                run.keep_faster(self.run_again(code, best_ns, ctx)?);
            }
        }
        Ok(())
    }

    /// Reports a proposal that was run, or what is known of its code.
    fn report_proposal(&mut self, ran: Ran<'_>, ctx: &mut Context<'_>) {
        let Ran { proposal: (trace, proposal), generate_ms, artifact, run } = ran;
        let Proposal { point, source, parent } = proposal.clone();
        if let Some(run) = run {
            let (point, trace) = (Some(point), trace.clone());
            let proposed = Proposed { source, point, parent, trace, generate_ms };
            self.report(&proposed, run, ctx);
        } else if let Some(outcome) = artifact.and_then(|it| self.measured.get(&it)).cloned() {
            self.strategy.observe(&point, &outcome);
            self.add_origin(&point, source, parent, &outcome);
        }
    }

    /// Times the drift baseline; returns the slowdown of the machine since the task began.
    fn measure_drift(&mut self, ctx: &mut Context<'_>) -> Result<f64, MeasureError> {
        let Some(drift) = &mut self.drift else { return Ok(1.0) };
        self.slowdown =
            ctx.timed(Activity::Measuring, |ctx| drift.slowdown(ctx.measurer))?.unwrap_or(1.0);
        if let Some(what) = drift.warning(self.slowdown) {
            (ctx.on_event)(Event::Warning { what: format!("{}: {what}", self.task.name) });
        }
        Ok(self.slowdown)
    }
}

/// Proposals that were run.
struct Batch<'a> {
    ran: Vec<Ran<'a>>,
    artifacts: BTreeSet<ArtifactId>,
    /// The latency to beat.
    best_ns: f64,
}

impl Batch<'_> {
    fn new(best_ns: f64) -> Self {
        Self { ran: Vec::new(), artifacts: BTreeSet::new(), best_ns }
    }
}
