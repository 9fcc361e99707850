//! One program while it is tuned: what was tried, what is best, what is left to gain.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use tvmtune_core::dag::{Dag, Expr, UnaryOp};
use tvmtune_core::record::Source;
use tvmtune_core::schedule::Schedule;
use tvmtune_core::target::{GpuTarget, Target};
use tvmtune_core::{dag::print, workload};
use tvmtune_tuner::compile::Compiler;
use tvmtune_tuner::cost::features::Features;
use tvmtune_tuner::cost::gpu::Draft;
use tvmtune_tuner::cost::learned::{self, Learned};
use tvmtune_tuner::cost::model::CostModel;
use tvmtune_tuner::cost::work::Work;
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::parallel::{n_cores, on_all_cores};
use tvmtune_tuner::search::{Proposal, Scene, Score, Strategy};
use tvmtune_tuner::space::{Point, Space};
use tvmtune_tuner::tune::{Recipe, Trial, When};

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
    pub(super) space: Space,
    /// What no kernel is faster than.
    pub(super) floor_ns: f64,
    pub(super) trials: u64,
    /// Spent on measuring.
    pub(super) seconds: f64,
    target: GpuTarget,
    /// Its number in the model.
    number: usize,
    strategy: Box<dyn Strategy>,
    draft: Draft,
    /// What was measured of what is here: rivals are measured again.
    items: BTreeMap<Point, Item>,
    best_ns: Option<f64>,
    /// Batches since the best one was found.
    stale: i32,
    is_over: bool,
}

/// A point with its code.
pub(super) struct Candidate {
    pub(super) point: Point,
    /// The name of its sketch.
    pub(super) sketch: String,
    pub(super) source: Source,
    pub(super) item: Item,
    /// What a model sees of it.
    pub(super) features: Option<Features>,
    /// What making its code took.
    pub(super) generate_ms: f64,
}

impl Task {
    /// The program that an item is of, as the task of that number.
    pub(super) fn new(item: &Item, target: &GpuTarget, number: usize) -> Result<Self, String> {
        let (_, problem) = item.problem()?;
        let space = Space::new(&problem.dag, &(*target).into());
        let draft = Draft::new(&problem.dag, *target);
        Ok(Self {
            case: item.case.clone(),
            dims: item.dims.clone(),
            id: workload::id(&problem.dag).to_string(),
            text: print::canonical(&problem.dag),
            floor_ns: floor_ns(&problem, target),
            number,
            // Nothing else that could be transferred is in a bundle.
            strategy: Recipe { transfer: When::Never, ..Recipe::default() }
                .strategy(SEED, u64::MAX),
            draft,
            items: BTreeMap::new(),
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

    /// Goes on where the log of an earlier session ends; the model learns of it, too.
    pub(super) fn learn(&mut self, trials: &[Trial], model: &mut CostModel) {
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
                let trace = self.space.instructions(&point);
                let features = learned::features(&self.problem.dag, &self.target.into(), &trace);
                self.note(features, &trial.outcome, model);
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

    /// Has the model learn what became of a candidate.
    pub(super) fn note(
        &self,
        features: Option<Features>,
        outcome: &Outcome,
        model: &mut CostModel,
    ) {
        if let Some(features) = features {
            model.add(self.number, features, outcome.timing().map(Timing::min_ns));
        }
    }

    /// Keeps a candidate that was measured, in case it has rivals.
    pub(super) fn keep(&mut self, point: Point, item: Item) {
        self.items.insert(point, item);
    }

    /// Candidates between which only measuring them side by side decides. What an earlier session
    /// measured has no code in this folder: it is made once more.
    pub(super) fn rivals(
        &mut self,
        keeper: &Keeper<'_>,
        folder: &Path,
    ) -> Result<Vec<(Point, Item)>> {
        let mut rivals = Vec::new();
        for point in self.strategy.rivals() {
            if !self.items.contains_key(&point)
                && let Ok(made) = self.maker(keeper).make(&point, Source::Droplet)
            {
                self.items.insert(point.clone(), write(made, folder)?);
            }
            rivals.extend(self.items.get(&point).map(|it| (point.clone(), it.clone())));
        }
        Ok(rivals)
    }

    /// Learns how rivals did.
    pub(super) fn compared(&mut self, timings: &[(Point, Timing)]) {
        self.strategy.compared(timings);
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
        model: &CostModel,
        keeper: &Keeper<'_>,
        folder: &Path,
    ) -> Result<Vec<Candidate>> {
        let target = Target::from(self.target);
        let (dag, n_threads) = (&self.problem.dag, n_cores());
        let learned = Learned { model, dag, target: &target, drafts: true, n_threads };
        let learned = model.is_trained().then_some(learned);
        let scene = Scene {
            space: &self.space,
            draft: Some(&self.draft),
            model: learned.as_ref().map(|it| it as &dyn Score),
        };
        let proposals = self.strategy.propose(&scene, n);
        self.is_over = proposals.is_empty();
        let maker = self.maker(keeper);
        let make = |it: &Proposal| {
            let began = Instant::now();
            let made = maker.make(&it.point, it.source);
            let generate_ms = began.elapsed().as_secs_f64() * 1e3;
            let trace = maker.space.instructions(&it.point);
            let features = learned::features(dag, &target, &trace);
            (made, features, generate_ms)
        };
        let made = on_all_cores(&proposals, make);
        let mut candidates = Vec::new();
        for (proposal, (made, features, generate_ms)) in proposals.into_iter().zip(made) {
            let (point, source) = (proposal.point, proposal.source);
            match made {
                Ok(made) => {
                    let item = write(made, folder)?;
                    let sketch = self.space.sketch(&point).name.clone();
                    candidates.push(Candidate {
                        point,
                        sketch,
                        source,
                        item,
                        features,
                        generate_ms,
                    });
                }
                Err(why) => self.observe(&point, &Outcome::Invalid(why)),
            }
        }
        Ok(candidates)
    }

    /// What makes code of points.
    fn maker<'a>(&'a self, keeper: &'a Keeper<'_>) -> Maker<'a> {
        Maker {
            what: (Goal::Time, &self.case, &self.dims),
            problem: &self.problem,
            space: &self.space,
            target: &self.target,
            compiler: keeper.compiler(),
        }
    }
}

/// Makes code of a task's points, on any thread.
struct Maker<'a> {
    what: (Goal, &'a str, &'a str),
    problem: &'a Problem,
    space: &'a Space,
    target: &'a GpuTarget,
    compiler: &'a Compiler<'a>,
}

impl Maker<'_> {
    fn make(&self, point: &Point, source: Source) -> Result<(Item, Vec<u8>), String> {
        let Self { what, problem, space, target, compiler } = self;
        let trace = space.instructions(point);
        let schedule = Schedule::replay(&problem.dag, &trace).map_err(|it| it.to_string())?;
        let generated = item::generate(&schedule, target)?;
        let code = bundle::compile(compiler, what.1, &generated, &target.arch.to_string())?;
        if let Some(verdict) = code.verdict() {
            return Err(verdict.to_string());
        }
        let item = item::item(*what, (source, &schedule), problem, &generated, (&code, target));
        Ok((item, code.cubin))
    }
}

/// Puts code into the folder of the bundle.
fn write((item, code): (Item, Vec<u8>), folder: &Path) -> Result<Item> {
    fs::create_dir_all(folder.join("images"))?;
    fs::write(folder.join(&item.image), code)?;
    Ok(item)
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
    let fma = if !problem.dag.params().any(is_wide) {
        limits.tensor_fma.max(limits.fma)
    } else if rounds_to_tf32(&problem.dag) {
        (limits.tensor_fma / 2).max(limits.fma)
    } else {
        limits.fma
    };
    let per_ns =
        2.0 * f64::from(fma) * f64::from(target.multiprocessors) * f64::from(target.clock_mhz)
            / 1e3;
    let memory_ns = work.bytes / f64::from(target.bandwidth_gbps);
    memory_ns.max(work.flops / per_ns)
}

/// Whether matrix instructions may multiply `f32`.
fn rounds_to_tf32(dag: &Dag) -> bool {
    let mut found = false;
    for compute in &dag.computes {
        compute.body.walk(&mut |it| found |= matches!(it, Expr::Unary(UnaryOp::Tf32, _)));
    }
    found
}

#[cfg(test)]
mod tests {
    use tvmtune_core::target::gpu::Arch;

    use super::*;

    fn task(case: &str, dims: &str) -> Task {
        let item = serde_json::json!({
            "goal": "time", "case": case, "dims": dims, "source": "default", "trace": [],
            "artifact": "", "image": "", "predicted": null, "flops": 0.0, "bytes": 0.0,
        });
        let item = serde_json::from_value(item).unwrap();
        Task::new(&item, &GpuTarget::generic(Arch { sm: 90, exact: true }), 0).unwrap()
    }

    #[test]
    fn nothing_is_faster_than_the_peak_of_what_could_do_it() {
        let near = |task: &Task, ns: f64| {
            assert!((task.floor_ns / ns - 1.0).abs() < 0.1, "{}", task.floor_ns);
        };
        // 989 TFLOP/s, 494 TFLOP/s, 62 TFLOP/s and 4800 GB/s are what the vendor says at this clock.
        near(&task("linear_bf16", "M = 8192, N = 8192, K = 8192"), 2.0 * 8192_f64.powi(3) / 989e3);
        near(&task("matmul_f32", "M = 4096, N = 4096, K = 4096"), 2.0 * 4096_f64.powi(3) / 62e3);
        near(&task("linear_tf32", "M = 4096, N = 4096, K = 4096"), 2.0 * 4096_f64.powi(3) / 494e3);
        near(&task("softmax_f32", "R = 8192, D = 4096"), 8.0 * 8192.0 * 4096.0 / 4800.0);
    }

    #[test]
    fn what_was_not_measured_comes_first_and_hope_fades() {
        let (mut near, mut far) =
            (task("row_sums_f32", "M = 64, N = 64"), task("row_sums_f32", "M = 64, N = 128"));
        assert!(near.gain() > 100.0);
        assert!(near.observe_time(1.1 * near.floor_ns) && !near.observe_time(2.0 * near.floor_ns));
        far.observe_time(5.0 * far.floor_ns);
        assert!(far.gain() > near.gain() && near.gain() > 0.0);
        let before = far.gain();
        far.after_batch(far.best_ns());
        assert!(far.gain() < before);
        let slower = far.best_ns();
        far.observe_time(3.0 * far.floor_ns);
        far.after_batch(slower);
        assert!((far.gain() - 3.0_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn a_log_of_other_sketches_is_passed_over() {
        let mut task = task("row_sums_f32", "M = 64, N = 64");
        let sketch = &task.space.sketches[0];
        let trial = |sketch: &str, choices: Vec<u16>| -> Trial {
            let json = serde_json::json!({
                "workload": "", "generator": 1, "bucket": [], "isa": "sm_90a", "source": "random",
                "sketch": sketch, "choices": choices, "trace": [], "artifact": "",
                "outcome": { "timed": [2.0, 3.0, 4.0] },
                "generate_ms": 1.0, "measure_ms": 1000.0, "unix_ms": 1,
            });
            serde_json::from_value(json).unwrap()
        };
        let good = trial(&sketch.name, sketch.default.clone());
        let longer = trial(&sketch.name, vec![0; sketch.default.len() + 1]);
        let beyond = trial(&sketch.name, vec![u16::MAX; sketch.default.len()]);
        let mut model = CostModel::new();
        task.learn(&[longer, beyond, trial("no sketch", vec![]), good], &mut model);
        assert_eq!(model.n_samples(), 1);
        assert_eq!((task.trials, task.best_ns(), task.seconds), (1, Some(3.0), 1.0));
    }
}
