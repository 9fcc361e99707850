//! One tree: grown level by level, by the sums of slopes in each bin.

use super::Options;
use super::bins::{self, Bins, Column};
use crate::parallel::on_threads;

/// What a leaf's curvature is taken to have more: keeps leaves of few rows small.
const LAMBDA: f64 = 1.0;
/// What a question must gain.
const GAMMA: f64 = 0.001;
/// Fewer bins to add to are not worth another thread.
const SHARED_WORK: usize = 200_000;

/// Questions, and numbers at their ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

/// A question about a row, or a number for it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    /// If that number of the row is not larger, go on at `next`, else behind.
    Question {
        feature: u16,
        edge: f32,
        next: u32,
    },
    Leaf(f32),
}

/// How far predictions are off, and how fast that changes with them.
pub(super) type Slope = (f64, f64);

/// Rows, and the number that the tree gives each of them.
pub(super) type Leaf = (Vec<u32>, f64);

/// A tree that grows.
pub(super) struct Growth<'a> {
    bins: &'a Bins,
    options: &'a Options,
    /// Of each row.
    slopes: Vec<Slope>,
    nodes: Vec<Node>,
}

/// A node that may become a question: its rows, with their slopes.
struct Open {
    node: usize,
    rows: Vec<u32>,
    slopes: Vec<Slope>,
    sum: Slope,
}

/// What to ask: which column, and up to which bin.
#[derive(Clone, Copy, Debug)]
struct Split {
    gain: f64,
    column: usize,
    bin: u8,
}

impl Tree {
    /// The number of a row.
    pub(super) fn of(&self, row: &[f32]) -> f64 {
        let mut at = 0;
        loop {
            match self.nodes[at] {
                Node::Leaf(value) => return f64::from(value),
                Node::Question { feature, edge, next } => {
                    at = next as usize + usize::from(row[usize::from(feature)] > edge);
                }
            }
        }
    }
}

impl<'a> Growth<'a> {
    pub(super) fn new(bins: &'a Bins, slopes: Vec<Slope>, options: &'a Options) -> Self {
        Self { bins, options, slopes, nodes: vec![Node::Leaf(0.0)] }
    }

    /// The tree, and its leaves; `None` if it would be a single one that changes nothing.
    pub(super) fn grow(mut self) -> Option<(Tree, Vec<Leaf>)> {
        let mut open = vec![self.open(0, (0..self.bins.n_rows as u32).collect())];
        let mut leaves = Vec::new();
        for _ in 0..self.options.depth {
            let splits = self.splits(&open);
            let mut next = Vec::new();
            for (it, split) in open.into_iter().zip(splits) {
                match split {
                    Some(split) => next.extend(self.ask(it, split)),
                    None => leaves.push(self.close(it)),
                }
            }
            open = next;
        }
        leaves.extend(open.into_iter().map(|it| self.close(it)).collect::<Vec<Leaf>>());
        let changes = leaves.iter().any(|(_, value)| *value != 0.0);
        changes.then_some((Tree { nodes: self.nodes }, leaves))
    }

    fn open(&self, node: usize, rows: Vec<u32>) -> Open {
        let slopes: Vec<Slope> = rows.iter().map(|it| self.slopes[*it as usize]).collect();
        let sum = slopes.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        Open { node, rows, slopes, sum }
    }

    /// Makes a leaf.
    fn close(&mut self, open: Open) -> Leaf {
        let value = (-open.sum.0 / (open.sum.1 + LAMBDA) * self.options.rate) as f32;
        self.nodes[open.node] = Node::Leaf(value);
        (open.rows, f64::from(value))
    }

    /// Makes a question; what its answers lead to.
    fn ask(&mut self, open: Open, split: Split) -> [Open; 2] {
        let column = &self.bins.columns[split.column];
        let next = self.nodes.len();
        let edge = column.edges[usize::from(split.bin)];
        self.nodes[open.node] = Node::Question { feature: column.feature, edge, next: next as u32 };
        self.nodes.extend([Node::Leaf(0.0); 2]);
        let is_below = |row: &u32| column.bins[*row as usize] <= split.bin;
        let (below, above) = open.rows.into_iter().partition(is_below);
        [self.open(next, below), self.open(next + 1, above)]
    }

    /// What to ask at each of the nodes of a level.
    fn splits(&self, open: &[Open]) -> Vec<Option<Split>> {
        let n_rows: usize = open.iter().map(|it| it.rows.len()).sum();
        let n_columns = self.bins.columns.len();
        let alone = n_rows * n_columns < SHARED_WORK;
        let n_threads = if alone { 1 } else { self.options.n_threads };
        let numbers: Vec<usize> = (0..n_columns).collect();
        let share = n_columns.div_ceil(n_threads.max(1)).max(1);
        let shares: Vec<&[usize]> = numbers.chunks(share).collect();
        let found = on_threads(n_threads, &shares, |share| {
            let mut best: Vec<Option<Split>> = vec![None; open.len()];
            for n in *share {
                for (best, it) in best.iter_mut().zip(open) {
                    *best = better(*best, split(it, &self.bins.columns[*n], *n));
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

/// The one that gains more; of equals the first.
fn better(a: Option<Split>, b: Option<Split>) -> Option<Split> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.gain > a.gain { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// The best question about one column, if any gains something.
fn split(open: &Open, column: &Column, n: usize) -> Option<Split> {
    if open.rows.len() < 2 {
        return None;
    }
    let mut bins = [(0.0, 0.0); bins::MOST];
    for (row, slope) in open.rows.iter().zip(&open.slopes) {
        let bin = &mut bins[usize::from(column.bins[*row as usize])];
        bin.0 += slope.0;
        bin.1 += slope.1;
    }
    let score = |(slope, curvature): Slope| slope * slope / (curvature + LAMBDA);
    let whole = score(open.sum);
    let mut below = (0.0, 0.0);
    let mut best = None;
    for (n_bin, bin) in bins[..column.edges.len()].iter().enumerate() {
        if bin.1 == 0.0 {
            continue;
        }
        below = (below.0 + bin.0, below.1 + bin.1);
        let above = (open.sum.0 - below.0, open.sum.1 - below.1);
        // What is left by rounding is no row.
        if above.1 <= 1e-9 * open.sum.1 {
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
