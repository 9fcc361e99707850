//! The hyperparameters of training.

/// Hyperparameters of an ensemble.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Numbers in a row.
    pub width: usize,
    /// Threads that train it; the result does not depend on them.
    pub n_threads: usize,
    /// The maximum number of trees.
    pub n_trees: usize,
    /// The maximum depth of a tree.
    pub depth: usize,
    /// The learning rate (shrinkage).
    pub rate: f64,
}

impl Options {
    /// Returns the defaults, as measured in `docs/search.md`.
    pub fn new(width: usize, n_threads: usize) -> Self {
        Self { width, n_threads, n_trees: 300, depth: 5, rate: 0.1 }
    }
}
