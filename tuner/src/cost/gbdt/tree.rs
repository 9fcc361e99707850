//! A regression tree, grown level by level from histograms of gradients.

use super::bins::{self, Bins, Column};
use crate::parallel::on_threads;

/// The maximum depth of a tree, and the learning rate (shrinkage), as measured in `docs/search.md`.
const MAX_DEPTH: usize = 5;
/// The number of nodes of a tree of that depth, at most.
pub(super) const MAX_NODES: usize = (1 << (MAX_DEPTH + 1)) - 1;
const RATE: f64 = 0.1;
/// L2 regularization of leaf values (`XGBoost`'s lambda).
const LAMBDA: f64 = 1.0;
/// The minimum gain of a split (`XGBoost`'s gamma).
const GAMMA: f64 = 0.001;
/// Rows times columns below which one thread is faster; an estimate.
const PARALLEL_WORK: usize = 200_000;

/// A decision tree with a number at each leaf.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
}

/// A split of rows, or a prediction for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Node {
    /// Rows whose feature is at most `threshold` continue at node `left`, others at `left + 1`.
    Split {
        feature: u16,
        threshold: f32,
        left: u32,
    },
    Leaf(f32),
}

/// The first and second derivative of the loss by the prediction, of one row or a sum of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gradient {
    pub(super) gradient: f64,
    pub(super) hessian: f64,
}

/// The rows of a leaf, and its prediction.
pub(super) struct Leaf {
    pub(super) rows: Vec<u32>,
    pub(super) value: f64,
}

/// Grows one tree.
pub(super) struct TreeGrower<'a> {
    bins: &'a Bins,
    n_threads: usize,
    /// The gradient of each row.
    gradients: Vec<Gradient>,
    nodes: Vec<Node>,
}

/// A node that may be split: its rows with their gradients, and the sum of these.
struct OpenNode {
    node: usize,
    rows: Vec<u32>,
    gradients: Vec<Gradient>,
    sum: Gradient,
}

/// A candidate split: rows up to a bin of a column go left.
#[derive(Clone, Copy, Debug)]
struct Split {
    gain: f64,
    column: usize,
    bin: u8,
}

impl Gradient {
    fn plus(self, other: Self) -> Self {
        Self { gradient: self.gradient + other.gradient, hessian: self.hessian + other.hessian }
    }
}

impl Tree {
    /// Predicts a row.
    pub(super) fn predict(&self, row: &[f32]) -> f64 {
        let mut node = 0;
        loop {
            match self.nodes[node] {
                Node::Leaf(value) => return f64::from(value),
                Node::Split { feature, threshold, left } => {
                    node = left as usize + usize::from(row[usize::from(feature)] > threshold);
                }
            }
        }
    }
}

impl<'a> TreeGrower<'a> {
    pub(super) fn new(bins: &'a Bins, gradients: Vec<Gradient>, n_threads: usize) -> Self {
        Self { bins, n_threads, gradients, nodes: vec![Node::Leaf(0.0)] }
    }

    /// Grows the tree; returns it with its leaves, or `None` if all of these are zero.
    pub(super) fn grow(mut self) -> Option<(Tree, Vec<Leaf>)> {
        let mut open = vec![self.open(0, (0..self.bins.n_rows as u32).collect())];
        let mut leaves = Vec::new();
        for _ in 0..MAX_DEPTH {
            let splits = self.splits(&open);
            let mut next = Vec::new();
            for (it, split) in open.into_iter().zip(splits) {
                match split {
                    Some(split) => next.extend(self.split(it, split)),
                    None => leaves.push(self.close(it)),
                }
            }
            open = next;
        }
        leaves.extend(open.into_iter().map(|it| self.close(it)).collect::<Vec<Leaf>>());
        let changes = leaves.iter().any(|it| it.value != 0.0);
        changes.then_some((Tree { nodes: self.nodes }, leaves))
    }

    fn open(&self, node: usize, rows: Vec<u32>) -> OpenNode {
        let gradients: Vec<Gradient> = rows.iter().map(|it| self.gradients[*it as usize]).collect();
        let sum = gradients.iter().fold(Gradient::default(), |sum, it| sum.plus(*it));
        OpenNode { node, rows, gradients, sum }
    }

    /// Turns a node into a leaf.
    fn close(&mut self, open: OpenNode) -> Leaf {
        let Gradient { gradient, hessian } = open.sum;
        let value = (-gradient / (hessian + LAMBDA) * RATE) as f32;
        self.nodes[open.node] = Node::Leaf(value);
        Leaf { rows: open.rows, value: f64::from(value) }
    }

    /// Splits a node; returns its children.
    fn split(&mut self, open: OpenNode, split: Split) -> [OpenNode; 2] {
        let column = &self.bins.columns[split.column];
        let left = self.nodes.len();
        let threshold = column.edges[usize::from(split.bin)];
        self.nodes[open.node] =
            Node::Split { feature: column.feature, threshold, left: left as u32 };
        self.nodes.extend([Node::Leaf(0.0); 2]);
        let is_below = |row: &u32| column.bins[*row as usize] <= split.bin;
        let (below, above) = open.rows.into_iter().partition(is_below);
        [self.open(left, below), self.open(left + 1, above)]
    }

    /// Finds the best split of each node of a level.
    fn splits(&self, open: &[OpenNode]) -> Vec<Option<Split>> {
        let n_rows: usize = open.iter().map(|it| it.rows.len()).sum();
        let n_columns = self.bins.columns.len();
        let is_small = n_rows * n_columns < PARALLEL_WORK;
        let n_threads = if is_small { 1 } else { self.n_threads };
        let numbers: Vec<usize> = (0..n_columns).collect();
        let share = n_columns.div_ceil(n_threads.max(1)).max(1);
        let shares: Vec<&[usize]> = numbers.chunks(share).collect();
        let found = on_threads(n_threads, &shares, |share| {
            let mut best: Vec<Option<Split>> = vec![None; open.len()];
            for n in *share {
                for (best, it) in best.iter_mut().zip(open) {
                    *best = better(*best, best_split(it, &self.bins.columns[*n], *n));
                }
            }
            best
        });
        let mut found = found.into_iter();
        let first = found.next().unwrap_or_else(|| vec![None; open.len()]);
        found
            .fold(first, |all, more| all.into_iter().zip(more).map(|(a, b)| better(a, b)).collect())
    }
}

/// Returns the split with the larger gain; of equals the first.
fn better(a: Option<Split>, b: Option<Split>) -> Option<Split> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.gain > a.gain { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Finds the best split by one column, if any gains at least [`GAMMA`].
fn best_split(open: &OpenNode, column: &Column, n: usize) -> Option<Split> {
    if open.rows.len() < 2 {
        return None;
    }
    let mut bins = [Gradient::default(); bins::MAX_BINS];
    for (row, gradient) in open.rows.iter().zip(&open.gradients) {
        let bin = &mut bins[usize::from(column.bins[*row as usize])];
        *bin = bin.plus(*gradient);
    }
    let score = |it: Gradient| it.gradient * it.gradient / (it.hessian + LAMBDA);
    let whole = score(open.sum);
    let mut below = Gradient::default();
    let mut best = None;
    for (n_bin, bin) in bins[..column.edges.len()].iter().enumerate() {
        if bin.hessian == 0.0 {
            continue;
        }
        below = below.plus(*bin);
        let above = Gradient {
            gradient: open.sum.gradient - below.gradient,
            hessian: open.sum.hessian - below.hessian,
        };
        // A remainder this small is a rounding error, and no row.
        if above.hessian <= 1e-9 * open.sum.hessian {
            break;
        }
        let gain = (score(below) + score(above) - whole) / 2.0;
        let candidate = Split { gain, column: n, bin: n_bin as u8 };
        if gain > GAMMA {
            best = better(best, Some(candidate));
        }
    }
    best
}
