//! The ensemble: training by gradient boosting with early stopping, and prediction.

use serde::{Deserialize, Serialize};

use super::bins::Bins;
use super::stored::StoredGbdt;
use super::tree::{Gradient, Tree, TreeGrower};
use crate::random::Random;

/// A training example: a program with the rows of its buffers.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// All its rows, one after the other.
    pub rows: &'a [f32],
    /// The target of the sum of its rows' predictions.
    pub label: f64,
    /// The weight of its error.
    pub weight: f64,
}

/// The statistic of labels that an ensemble predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// Their mean: squared errors.
    Mean,
    /// The quantile of this share of labels below it: errors weighted by their sign, as in quantile
    /// regression (Koenker and Bassett, 1978).
    Quantile(f64),
}

impl Objective {
    /// Returns the loss of a prediction that exceeds its label by `error`.
    fn loss(self, error: f64) -> f64 {
        match self {
            Objective::Mean => error.powi(2),
            Objective::Quantile(_) => error * self.slope(error),
        }
    }

    /// Returns the derivative of the loss: half of it for squares, whose second one is 1 then.
    fn slope(self, error: f64) -> f64 {
        match self {
            Objective::Mean => error,
            Objective::Quantile(share) => f64::from(u8::from(error > 0.0)) - share,
        }
    }
}

/// A trained ensemble of regression trees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "StoredGbdt", try_from = "StoredGbdt")]
pub struct Gbdt {
    pub(super) width: usize,
    pub(super) trees: Vec<Tree>,
}

/// The maximum number of trees, as measured in `docs/search.md`.
pub(super) const MAX_TREES: usize = 300;
/// One in so many programs is held out for early stopping.
const HELD_OUT: usize = 10;
/// Trees without an improvement on the held-out programs, after which training stops.
const PATIENCE: usize = 20;

impl Gbdt {
    /// Trains an ensemble on rows of `width` numbers; the result does not depend on the number of
    /// threads.
    pub fn train(
        programs: &[Program<'_>],
        width: usize,
        objective: Objective,
        n_threads: usize,
    ) -> Self {
        let mut random = Random::new(programs.len() as u64);
        let (mut training, mut held_out) = (Vec::new(), Vec::new());
        for program in programs {
            let is_held_out = random.below(HELD_OUT) == 0;
            if is_held_out { held_out.push(*program) } else { training.push(*program) }
        }
        let mut model = Self { width, trees: Vec::new() };
        let mut boosting = Boosting::new(&training, width, objective, n_threads);
        let mut sums: Vec<f64> = vec![0.0; held_out.len()];
        let (mut min_loss, mut n_best) = (loss(objective, &held_out, &sums), 0);
        while model.trees.len() < MAX_TREES {
            let Some(tree) = boosting.next_tree() else { break };
            for (sum, program) in sums.iter_mut().zip(&held_out) {
                *sum += program.rows.chunks_exact(width).map(|it| tree.predict(it)).sum::<f64>();
            }
            model.trees.push(tree);
            let now = loss(objective, &held_out, &sums);
            if held_out.is_empty() || now < min_loss {
                (min_loss, n_best) = (now, model.trees.len());
            } else if model.trees.len() >= n_best + PATIENCE {
                break;
            }
        }
        model.trees.truncate(n_best);
        model
    }

    /// Predicts a program: the sum of the predictions of its rows.
    pub fn predict(&self, rows: &[f32]) -> f64 {
        let rows = rows.chunks_exact(self.width.max(1));
        let predict_row = |row: &[f32]| self.trees.iter().map(|it| it.predict(row)).sum::<f64>();
        rows.map(predict_row).sum()
    }

    /// Returns the length of the rows that it predicts.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of trees.
    pub fn n_trees(&self) -> usize {
        self.trees.len()
    }
}

/// Returns the weighted sum of losses.
fn loss(objective: Objective, programs: &[Program<'_>], sums: &[f64]) -> f64 {
    let loss = |(it, sum): (&Program<'_>, &f64)| it.weight * objective.loss(sum - it.label);
    programs.iter().zip(sums).map(loss).sum()
}

/// The state of gradient boosting: the predictions so far.
struct Boosting<'a> {
    programs: &'a [Program<'a>],
    objective: Objective,
    n_threads: usize,
    bins: Bins,
    /// The program of each row.
    program_of: Vec<u32>,
    /// The number of rows of each program.
    n_rows: Vec<f64>,
    /// The prediction of each program so far.
    sums: Vec<f64>,
}

impl<'a> Boosting<'a> {
    fn new(
        programs: &'a [Program<'a>],
        width: usize,
        objective: Objective,
        n_threads: usize,
    ) -> Self {
        let mut program_of = Vec::new();
        let mut rows: Vec<&[f32]> = Vec::new();
        let mut n_rows = Vec::new();
        for (n, program) in programs.iter().enumerate() {
            let before = rows.len();
            rows.extend(program.rows.chunks_exact(width));
            program_of.resize(rows.len(), n as u32);
            n_rows.push((rows.len() - before) as f64);
        }
        let bins = Bins::new(&rows, width, n_threads);
        Self {
            programs,
            objective,
            n_threads,
            bins,
            program_of,
            n_rows,
            sums: vec![0.0; programs.len()],
        }
    }

    /// Grows the next tree; `None` if it would change nothing.
    fn next_tree(&mut self) -> Option<Tree> {
        let gradient = |n: &u32| {
            let n = *n as usize;
            let program = &self.programs[n];
            let slope = self.objective.slope(self.sums[n] - program.label);
            Gradient { gradient: slope * program.weight, hessian: program.weight * self.n_rows[n] }
        };
        let gradients = self.program_of.iter().map(gradient).collect();
        let (tree, leaves) = TreeGrower::new(&self.bins, gradients, self.n_threads).grow()?;
        for leaf in leaves {
            for row in leaf.rows {
                self.sums[self.program_of[row as usize] as usize] += leaf.value;
            }
        }
        Some(tree)
    }
}
