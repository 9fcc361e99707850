//! One program while it is tuned: what was tried, what is best, what is left to gain.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use tvmtune_core::record::Source;
use tvmtune_core::schedule::Schedule;
use tvmtune_core::target::GpuTarget;
use tvmtune_core::{dag::print, workload};
use tvmtune_tuner::compile::{Compiler, on_all_cores};
use tvmtune_tuner::cost::gpu::Draft;
use tvmtune_tuner::cost::work::Work;
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::search::{Evolutionary, Proposal, Strategy};
use tvmtune_tuner::space::{Point, Space};
use tvmtune_tuner::tune::Trial;

use super::keep::Keeper;
use crate::bundle;
use crate::item::{self, Goal, Item};
use crate::problem::Problem;
use crate::protocol;

/// What a batch that found nothing better leaves of the hope for the next.
const HOPE: f64 = 0.7;
/// Where random points start.
const SEED: u64 = 17;

/// See the module.
pub(super) struct Task {
    pub(super) case: String,
    pub(super) dims: String,
    pub(super) problem: Problem,
    /// The identity of the workload, and the text behind it.
    pub(super) id: String,
    pub(super) text: String,
    pub(super) space: Arc<Space>,
    /// What no kernel is faster than.
    pub(super) floor_ns: f64,
    pub(super) trials: u64,
    /// Spent on measuring.
    pub(super) seconds: f64,
    target: GpuTarget,
    strategy: Evolutionary,
    best_ns: Option<f64>,
    /// Batches since the best one was found.
    stale: i32,
    is_over: bool,
}

/// A point with its code.
pub(super) struct Candidate {
    pub(super) point: Point,
    pub(super) source: Source,
    pub(super) item: Item,
    /// What making its code took.
    pub(super) generate_ms: f64,
}

impl Task {
    /// The program that an item is of.
    pub(super) fn new(item: &Item, target: &GpuTarget) -> Result<Self, String> {
        let (_, problem) = item.problem()?;
        let space = Arc::new(Space::new(&problem.dag, &(*target).into()));
        let draft = Draft::new(&problem.dag, *target, space.clone());
        Ok(Self {
            case: item.case.clone(),
            dims: item.dims.clone(),
            id: workload::id(&problem.dag).to_string(),
            text: print::canonical(&problem.dag),
            floor_ns: floor_ns(&problem, target),
            strategy: Evolutionary::new(space.clone(), SEED, Some(Box::new(draft))),
            problem,
            space,
            target: *target,
            trials: 0,
            seconds: 0.0,
            best_ns: None,
            stale: 0,
            is_over: false,
        })
    }

    /// Goes on where the log of an earlier session ends.
    pub(super) fn learn(&mut self, trials: &[Trial]) {
        for trial in trials {
            let sketch = self.space.sketches.iter().position(|it| it.name == trial.sketch);
            let Some(sketch) = sketch.and_then(|it| u16::try_from(it).ok()) else { continue };
            let point = Point { sketch, choices: trial.choices.clone() };
            let decisions = self.space.decisions(&point);
            let fits = point
                .choices
                .iter()
                .zip(decisions)
                .all(|(it, d)| usize::from(*it) < d.options.len());
            if fits && point.choices.len() == decisions.len() {
                self.seconds += trial.measure_ms / 1e3;
                self.observe(&point, &trial.outcome);
                if let Some(timing) = trial.outcome.timing() {
                    self.observe_time(timing.median_ns());
                }
            }
        }
    }

    /// Learns what became of a point.
    pub(super) fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.trials += 1;
        self.strategy.observe(point, outcome);
    }

    /// Learns of a measurement; gives whether nothing was faster.
    pub(super) fn observe_time(&mut self, ns: f64) -> bool {
        let is_best = self.best_ns.is_none_or(|best| ns < best);
        if is_best {
            self.best_ns = Some(ns);
        }
        is_best
    }

    /// The fastest so far.
    pub(super) fn best_ns(&self) -> Option<f64> {
        self.best_ns
    }

    /// What there is to gain, as far as that can be known: the logarithm of a ratio.
    pub(super) fn gain(&self) -> f64 {
        // What nobody measured yet comes first.
        let ratio = self.best_ns().map_or(f64::MAX, |it| (it / self.floor_ns).max(1.0 + 1e-3));
        ratio.ln() * HOPE.powi(self.stale)
    }

    /// Whether nothing is left to try.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Counts a batch, before which the best one took so long.
    pub(super) fn after_batch(&mut self, before: Option<f64>) {
        let is_better = match (before, self.best_ns()) {
            (Some(before), Some(now)) => now < before,
            (before, now) => before.is_none() && now.is_some(),
        };
        self.stale = if is_better { 0 } else { self.stale + 1 };
    }

    /// Points worth measuring, with their code in the folder of the bundle.
    pub(super) fn propose(
        &mut self,
        n: usize,
        keeper: &Keeper<'_>,
        folder: &Path,
    ) -> Result<Vec<Candidate>> {
        let proposals = self.strategy.propose(n);
        self.is_over = proposals.is_empty();
        let what = (self.case.as_str(), self.dims.as_str(), &self.problem);
        let (space, target) = (&*self.space, &self.target);
        let make = |it: &Proposal| {
            let began = Instant::now();
            let made = make(what, (space, &it.point, it.source), (keeper.compiler(), target));
            (made, began.elapsed().as_secs_f64() * 1e3)
        };
        let made = on_all_cores(&proposals, make);
        let mut candidates = Vec::new();
        for (proposal, (made, generate_ms)) in proposals.into_iter().zip(made) {
            let (point, source) = (proposal.point, proposal.source);
            match made {
                Ok((item, code)) => {
                    fs::create_dir_all(folder.join("images"))?;
                    fs::write(folder.join(&item.image), code)?;
                    candidates.push(Candidate { point, source, item, generate_ms });
                }
                Err(why) => self.observe(&point, &Outcome::Invalid(why)),
            }
        }
        Ok(candidates)
    }
}

/// The code of a point.
fn make(
    (case, dims, problem): (&str, &str, &Problem),
    (space, point, source): (&Space, &Point, Source),
    (compiler, target): (&Compiler<'_>, &GpuTarget),
) -> Result<(Item, Vec<u8>), String> {
    let trace = space.instructions(point);
    let schedule = Schedule::replay(&problem.dag, &trace).map_err(|it| it.to_string())?;
    let generated = item::generate(&schedule, target)?;
    let code = bundle::compile(compiler, case, &generated, target)?;
    let (what, how) = ((Goal::Time, case, dims), (source, &schedule));
    let item = item::item(what, how, problem, &generated, (&code, target));
    Ok((item, code.cubin))
}

/// What became of a candidate, in the words of the tuner.
pub(super) fn told(outcome: &protocol::Outcome) -> Outcome {
    let timed = |samples: Vec<f64>| {
        Timing::new(samples).map_or(Outcome::Invalid("no time".to_owned()), Outcome::Timed)
    };
    match outcome {
        protocol::Outcome::Timed(times) => timed(times.samples_ns.clone()),
        protocol::Outcome::Slow(ns) => timed(vec![*ns]),
        protocol::Outcome::Wrong(why) => Outcome::Wrong(why.clone()),
        protocol::Outcome::Failed(why) | protocol::Outcome::Lost(why) => {
            Outcome::Crashed(why.clone())
        }
        protocol::Outcome::Skipped(why) => Outcome::Invalid(why.clone()),
        protocol::Outcome::Right(_) => Outcome::Invalid("it was not timed".to_owned()),
    }
}

/// What no kernel is faster than: the arithmetic at the peak of what could do it, every byte once.
fn floor_ns(problem: &Problem, target: &GpuTarget) -> f64 {
    let work = Work::of(&problem.dag, &problem.largest());
    let limits = target.arch.limits();
    let is_wide = |id| problem.dag.tensor(id).dtype.bytes() >= 4;
    let fma = if problem.dag.params().any(is_wide) {
        limits.fma
    } else {
        limits.tensor_fma.max(limits.fma)
    };
    let per_ns =
        2.0 * f64::from(fma) * f64::from(target.multiprocessors) * f64::from(target.clock_mhz)
            / 1e3;
    let memory_ns = work.bytes / f64::from(target.bandwidth_gbps);
    memory_ns.max(work.flops / per_ns)
}
