//! What a trained model guesses of the points of one program, and analysis with it.
//!
//! Their mistakes are not the same: together they rank better than either, most of all what each
//! likes best, and while little was measured.

use tvmtune_cuda::grid;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_schedule::nest::{self, Nest};
use tvmtune_schedule::{Instruction, Schedule};

use super::features::Features;
use super::model::CostModel;
use crate::parallel::on_threads;
use crate::search::Score;
use crate::space::{Point, Space};

/// A model, asked about one program on one target.
#[derive(Clone, Copy, Debug)]
pub struct Learned<'a> {
    /// Trained.
    pub model: &'a CostModel,
    /// The program.
    pub dag: &'a Dag,
    /// Where it runs.
    pub target: &'a Target,
    /// Whether analysis has a say.
    pub drafts: bool,
    /// Threads that guess.
    pub n_threads: usize,
}

/// What a model can't tell from nothing.
const LEAST: f64 = 1e-3;
/// What analysis has to say, as a power of its time; measured on random schedules of many programs,
/// where anything from a quarter to one is better than nothing.
const SAY: f64 = 0.5;

/// A guess how schedules rank, lower is better, from the share of the best speed that a model
/// expects and, if it is asked, the time that analysis does.
pub fn guess(share: f64, draft: Option<f64>) -> f64 {
    draft.map_or(1.0, |it| it.powf(SAY)) / share.max(LEAST)
}

/// The time that analysis expects, in a unit of its own; `None` if the loops don't fit the target.
fn draft(nest: &Nest, target: &Target) -> Option<f64> {
    match target {
        Target::Cpu(cpu) => Some(super::cycles(nest, cpu)),
        Target::Gpu(gpu) => grid::place(nest).ok().map(|it| super::gpu::estimate(&it, gpu).ns),
    }
}

/// The loops of a trace; `None` if it does not replay.
fn nest(dag: &Dag, trace: &[Instruction]) -> Option<Nest> {
    Some(nest::lower(&Schedule::replay(dag, trace).ok()?))
}

/// The features of a trace of a program; `None` if it does not replay, or does not fit the target.
pub fn features(dag: &Dag, target: &Target, trace: &[Instruction]) -> Option<Features> {
    Features::of(&nest(dag, trace)?, target)
}

impl Learned<'_> {
    /// See [`guess`]; `None` for what cannot run.
    fn guess(&self, trace: &[Instruction]) -> Option<f64> {
        let nest = nest(self.dag, trace)?;
        let features = Features::of(&nest, self.target)?;
        let draft = if self.drafts { Some(draft(&nest, self.target)?) } else { None };
        Some(guess(self.model.predict(&[features])[0], draft))
    }
}

impl Score for Learned<'_> {
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64> {
        let guess = |it: &Point| self.guess(&space.instructions(it)).unwrap_or(f64::INFINITY);
        on_threads(self.n_threads, points, guess)
    }
}
