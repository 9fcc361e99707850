//! What gets tuned: a workload, for a range of its dimensions, on a platform.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tvmtune_ir::dag::{Dag, print};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{Platform, Target};
use tvmtune_ir::workload;
use tvmtune_schedule::Instruction;

use super::code::{Code, Maker};
use super::event::TaskName;
use crate::cost::features::Features;
use crate::cost::learned;

/// A program to tune.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it computes, for all extents it allows.
    pub dag: Dag,
    /// Its identity: 64 hexadecimal digits.
    pub id: String,
    /// The canonical text behind the identity.
    pub text: String,
    /// The ranges to tune for: of each, one for each dynamic dimension.
    pub buckets: Vec<Vec<Interval>>,
    /// How far a result `a` may be from the reference `b`: `|a - b| <= abs + rel * |b|`.
    pub tolerance: Tolerance,
    /// How often it runs, next to others.
    pub weight: f64,
}

/// How far a result may be from the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In units of the reference, and of the root of its mean square: where terms cancel, what is
    /// left is no measure of the rounding errors.
    pub rel: f64,
    /// In units of one.
    pub abs: f64,
}

/// One range of a workload on one platform.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Which of the workloads.
    pub(super) workload: usize,
    /// Of each dynamic dimension.
    pub(super) bucket: Vec<Interval>,
    /// What makes its code.
    pub(super) maker: Maker,
    /// The program for these ranges only.
    pub(super) dag: Arc<Dag>,
    pub(super) tolerance: Tolerance,
    pub(super) weight: f64,
    /// The share of a task's budget that this one gets.
    pub(super) share: f64,
    pub(super) name: TaskName,
}

impl Workload {
    /// A program as it is, to be tuned for these ranges of its dimensions.
    pub fn new(dag: Dag, buckets: Vec<Vec<Interval>>, tolerance: Tolerance) -> Self {
        let (id, text) = (workload::id(&dag).to_string(), print::canonical(&dag));
        Self { dag, id, text, buckets, tolerance, weight: 1.0 }
    }
}

impl Task {
    pub(super) fn new(
        (n, workload): (usize, &Workload),
        bucket: &[Interval],
        maker: &Maker,
        share: f64,
    ) -> Self {
        let dims = workload.dag.dims.iter().zip(bucket);
        Self {
            workload: n,
            bucket: bucket.to_vec(),
            maker: maker.clone(),
            dag: Arc::new(workload.dag.specialize(bucket)),
            tolerance: workload.tolerance,
            weight: workload.weight,
            share,
            name: TaskName {
                program: workload.dag.name.clone(),
                dims: dims.map(|(dim, range)| (dim.name.clone(), *range)).collect(),
                platform: maker.target().platform(),
            },
        }
    }

    /// What a cost model sees of a trace.
    pub(super) fn features(&self, trace: &[Instruction]) -> Option<Features> {
        let features = || learned::features(&self.dag, &self.target(), trace);
        // As with code, a bug on the way costs no more than the candidate.
        catch_unwind(AssertUnwindSafe(features)).ok().flatten()
    }

    /// Where it runs.
    pub(super) fn target(&self) -> Target {
        self.maker.target()
    }

    /// What its code is for.
    pub(super) fn platform(&self) -> Platform {
        self.target().platform()
    }

    /// The extents at which candidates are verified; they are timed at the first, the largest,
    /// which is where time is spent. The others are where tails are: the smallest, and a prime.
    pub(super) fn dims(&self) -> Vec<Vec<i64>> {
        let all = |choose: &dyn Fn(&Interval) -> i64| self.bucket.iter().map(choose).collect();
        let mut dims: Vec<Vec<i64>> =
            vec![all(&|it| it.hi), all(&|it| it.lo), all(&|it| prime_inside(*it))];
        for n in (1..dims.len()).rev() {
            if dims[..n].contains(&dims[n]) {
                dims.remove(n);
            }
        }
        dims
    }

    /// The code of a trace.
    pub(super) fn make(&self, trace: &[Instruction]) -> Result<Code, String> {
        self.maker.make(&self.dag, trace)
    }
}

/// The largest prime in the lower two thirds of a range, its lower end if there is none: far from
/// both ends, and no multiple of any tile.
fn prime_inside(range: Interval) -> i64 {
    let is_prime = |n: &i64| *n > 1 && (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0);
    let from = range.lo + (range.hi - range.lo) * 2 / 3;
    (range.lo..=from).rev().find(is_prime).unwrap_or(range.lo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prime_lies_inside_where_there_is_one() {
        let prime = |lo, hi| prime_inside(Interval { lo, hi });
        assert_eq!(prime(1, 512), 337);
        assert_eq!(prime(17, 64), 47);
        assert_eq!(prime(1, 1), 1);
        assert_eq!(prime(24, 28), 24);
    }
}
