//! What a trained model guesses of the points of one program.

use tvmtune_core::dag::Dag;
use tvmtune_core::nest;
use tvmtune_core::schedule::{Instruction, Schedule};
use tvmtune_core::target::Target;

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
    /// Threads that guess.
    pub n_threads: usize,
}

/// What a model can't tell from nothing.
const LEAST: f64 = 1e-3;

/// The features of a trace of a program; `None` if it does not replay, or does not fit the target.
pub fn features(dag: &Dag, target: &Target, trace: &[Instruction]) -> Option<Features> {
    let schedule = Schedule::replay(dag, trace).ok()?;
    Features::of(&nest::lower(&schedule), target)
}

impl Score for Learned<'_> {
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64> {
        let guess = |point: &Point| {
            let features = features(self.dag, self.target, &space.instructions(point));
            let share = features.map(|it| self.model.predict(&[it])[0]);
            share.map_or(f64::INFINITY, |it| it.max(LEAST).recip())
        };
        on_threads(self.n_threads, points, guess)
    }
}
