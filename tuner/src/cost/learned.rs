//! The learned cost model of one program, combined with the analytic one.
//!
//! Their errors differ: the product ranks better than either, above all the best points, and while few
//! schedules are measured. `docs/search.md` has the numbers.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;

use super::analytic::{cost, nest};
use super::features::Features;
use super::model::CostModel;
use crate::parallel::on_threads;
use crate::search::Score;
use crate::space::{Point, Space};

/// The learned cost model for one program on one target.
#[derive(Clone, Copy, Debug)]
pub struct Learned<'a> {
    /// The trained model.
    pub model: &'a CostModel,
    /// The program.
    pub dag: &'a Dag,
    /// The device it runs on.
    pub target: &'a Target,
    /// The analytic cost model's part in the score.
    pub analytic: Analytic,
    /// Threads that score.
    pub n_threads: usize,
}

/// The smallest predicted share of the best speed; smaller ones are noise.
const MIN_SHARE: f64 = 1e-3;
/// The exponent of the analytic cost; measured on random schedules of 27 programs, where anything from
/// a quarter to one is better than nothing.
const ANALYTIC_EXPONENT: f64 = 0.5;

/// The analytic cost model's part in a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analytic {
    /// The score is the product of both models.
    Included,
    /// The score is that of the learned model.
    Excluded,
}

/// Combines the predicted share of the best speed with an analytic cost; lower is better.
pub fn combine(share: f64, analytic_cost: Option<f64>) -> f64 {
    analytic_cost.map_or(1.0, |it| it.powf(ANALYTIC_EXPONENT)) / share.max(MIN_SHARE)
}

/// Computes the features of a trace of a program; `None` if it does not replay, or does not fit the target.
pub fn features(dag: &Dag, target: &Target, trace: &[Instruction]) -> Option<Features> {
    Features::of(&nest(dag, trace)?, target)
}

impl Learned<'_> {
    /// Scores a trace by [`combine`]; `None` if it cannot run.
    fn score_trace(&self, trace: &[Instruction]) -> Option<f64> {
        let nest = nest(self.dag, trace)?;
        let cost = cost(&nest, self.target)?;
        let features = Features::new(&nest, self.target, cost);
        let included = (self.analytic == Analytic::Included).then_some(cost);
        Some(combine(self.model.predict(&[features])[0], included))
    }
}

impl Score for Learned<'_> {
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64> {
        let score = |it: &Point| self.score_trace(&space.instructions(it)).unwrap_or(f64::INFINITY);
        on_threads(self.n_threads, points, score)
    }
}
