//! Sums of small decision trees, each made to correct those before it.
//!
//! In: programs, each with rows of numbers, what they should come to, and how much that counts. Out:
//! a [`Forest`], which gives each row a number; those of a program's rows, added up, come close to
//! what it should come to.
//!
//! # Invariants
//!
//! - The same programs in the same order give the same forest, whatever the number of threads.
//! - Predictions are finite.
//!
//! # Source
//!
//! `XGBoost` (Chen and Guestrin, KDD 2016) for gains and leaves, its histogram method for speed,
//! Ansor for the objective ("pack-sum"). There, rows of one program are corrected as if the others
//! stayed as they are, and together overshoot; here a row's curvature counts all rows of its program.

mod bins;
mod tree;
#[cfg(test)]
mod tests;

use crate::random::Random;

use bins::Bins;
use tree::{Growth, Tree};

/// How a forest is grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Numbers in a row.
    pub width: usize,
    /// Threads that may work on it.
    pub n_threads: usize,
    /// Trees at most.
    pub n_trees: usize,
    /// Questions asked of one row by one tree, at most.
    pub depth: usize,
    /// How much of what it could correct a tree corrects.
    pub rate: f64,
}

/// What a forest learns from.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// All its rows, one after the other.
    pub rows: &'a [f32],
    /// What predictions of its rows should add up to.
    pub label: f64,
    /// How much that counts.
    pub weight: f64,
}

/// Trees that were grown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forest {
    width: usize,
    trees: Vec<Tree>,
}

/// One in so many programs is not learned from, and says when to stop.
const HELD_OUT: usize = 10;
/// Trees that may be added without getting better on those.
const PATIENCE: usize = 20;

impl Options {
    /// For rows of that width, on that many threads.
    pub fn new(width: usize, n_threads: usize) -> Self {
        Self { width, n_threads, n_trees: 300, depth: 5, rate: 0.1 }
    }
}

impl Forest {
    /// Learns from programs.
    pub fn grow(programs: &[Program<'_>], options: &Options) -> Self {
        let mut held_out = Random::new(programs.len() as u64);
        let (mut learned, mut judged) = (Vec::new(), Vec::new());
        for program in programs {
            let is_held_out = held_out.below(HELD_OUT) == 0;
            if is_held_out { judged.push(*program) } else { learned.push(*program) }
        }
        let mut forest = Self { width: options.width, trees: Vec::new() };
        let mut learner = Learner::new(&learned, options);
        let mut sums: Vec<f64> = vec![0.0; judged.len()];
        let (mut least, mut n_best) = (error(&judged, &sums), 0);
        while forest.trees.len() < options.n_trees {
            let Some(tree) = learner.next() else { break };
            for (sum, program) in sums.iter_mut().zip(&judged) {
                *sum += program.rows.chunks_exact(options.width).map(|it| tree.of(it)).sum::<f64>();
            }
            forest.trees.push(tree);
            let now = error(&judged, &sums);
            if judged.is_empty() || now < least {
                (least, n_best) = (now, forest.trees.len());
            } else if forest.trees.len() >= n_best + PATIENCE {
                break;
            }
        }
        forest.trees.truncate(n_best);
        forest
    }

    /// What the rows of a program add up to.
    pub fn predict(&self, rows: &[f32]) -> f64 {
        let rows = rows.chunks_exact(self.width.max(1));
        let of_row = |row: &[f32]| self.trees.iter().map(|it| it.of(row)).sum::<f64>();
        rows.map(of_row).sum()
    }

    /// How many trees there are.
    pub fn n_trees(&self) -> usize {
        self.trees.len()
    }
}

/// What predictions are off by, squared and weighted.
fn error(programs: &[Program<'_>], sums: &[f64]) -> f64 {
    let square = |(it, sum): (&Program<'_>, &f64)| it.weight * (sum - it.label).powi(2);
    programs.iter().zip(sums).map(square).sum()
}

/// Grows one tree after the other.
struct Learner<'a> {
    programs: &'a [Program<'a>],
    options: &'a Options,
    bins: Bins,
    /// The program of each row.
    program_of: Vec<u32>,
    /// How many rows each program has.
    n_rows: Vec<f64>,
    /// What predictions of each program add up to so far.
    sums: Vec<f64>,
}

impl<'a> Learner<'a> {
    fn new(programs: &'a [Program<'a>], options: &'a Options) -> Self {
        let mut program_of = Vec::new();
        let mut rows: Vec<&[f32]> = Vec::new();
        let mut n_rows = Vec::new();
        for (n, program) in programs.iter().enumerate() {
            let before = rows.len();
            rows.extend(program.rows.chunks_exact(options.width));
            program_of.resize(rows.len(), n as u32);
            n_rows.push((rows.len() - before) as f64);
        }
        let bins = Bins::of(&rows, options.width, options.n_threads);
        Self { programs, options, bins, program_of, n_rows, sums: vec![0.0; programs.len()] }
    }

    /// The next tree; `None` if there is nothing left to correct.
    fn next(&mut self) -> Option<Tree> {
        let slope = |n: &u32| {
            let n = *n as usize;
            let program = &self.programs[n];
            let off = self.sums[n] - program.label;
            (off * program.weight, program.weight * self.n_rows[n])
        };
        let slopes = self.program_of.iter().map(slope).collect();
        let (tree, leaves) = Growth::new(&self.bins, slopes, self.options).grow()?;
        for (rows, value) in leaves {
            for row in rows {
                self.sums[self.program_of[row as usize] as usize] += value;
            }
        }
        Some(tree)
    }
}
