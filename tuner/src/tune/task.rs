//! Workloads, and tasks: a workload for a range of its dimensions on a platform.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tvmtune_ir::dag::{Dag, print};
use tvmtune_ir::dsl::Residence;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{Platform, Target};
use tvmtune_ir::workload::{self, WorkloadId};
use tvmtune_schedule::Instruction;
use tvmtune_space::operands;

use super::code::{Builder, Code};
use super::event::TaskName;
use crate::cost::features::Features;
use crate::cost::learned;
use crate::definition::Definition;

/// A program to tune.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The program, for all extents it allows.
    pub dag: Dag,
    /// Its identity.
    pub id: WorkloadId,
    /// The canonical text behind the identity.
    pub text: String,
    /// The buckets to tune for: a range for each dynamic dimension.
    pub buckets: Vec<Vec<Interval>>,
    /// Its definition, for all of its tasks.
    pub definition: Arc<Definition>,
    /// The tolerance of a result `a` with reference `b`: `|a - b| <= abs + rel * |b|`.
    pub tolerance: Tolerance,
    /// For each parameter, the place where a launch finds it, as far as the program says.
    pub residence: Vec<Option<Residence>>,
    /// Its number of runs, relative to others.
    pub weight: f64,
    /// The share of its runs that each bucket has; empty if all are alike.
    pub bucket_shares: Vec<f64>,
    /// A latency that is good enough, in ns: a task that is as fast is not searched on.
    pub good_enough_ns: Option<f64>,
}

/// The tolerance of results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In units of the reference, and of its root mean square: where terms cancel, the value does not
    /// bound the rounding errors.
    pub rel: f64,
    /// In units of the result.
    pub abs: f64,
}

/// A workload with one of its buckets.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The range of each dynamic dimension.
    pub ranges: &'a [Interval],
}

/// A bucket of a workload on one platform.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The position of the workload in the run.
    pub(super) workload: usize,
    /// The range of each dynamic dimension.
    pub(super) bucket: Vec<Interval>,
    /// The builder of its code.
    pub(super) builder: Builder,
    /// The program, specialized to these ranges.
    pub(super) dag: Arc<Dag>,
    /// The definition of its results.
    pub(super) definition: Arc<Definition>,
    pub(super) tolerance: Tolerance,
    /// For each parameter, true if timed launches find it in memory, and not in a cache.
    pub(super) cold: Vec<bool>,
    pub(super) weight: f64,
    /// A latency that is good enough.
    pub(super) good_enough_ns: Option<f64>,
    /// Its share of the budget of a task.
    pub(super) share: f64,
    pub(super) name: TaskName,
}

impl Workload {
    /// Creates a workload of weight 1, whose parameters are where their sizes tell.
    pub fn new(dag: Dag, buckets: Vec<Vec<Interval>>, tolerance: Tolerance) -> Self {
        let (id, text) = (workload::id(&dag), print::canonical(&dag));
        Self {
            dag,
            id,
            text,
            buckets,
            definition: Arc::default(),
            tolerance,
            residence: Vec::new(),
            weight: 1.0,
            bucket_shares: Vec::new(),
            good_enough_ns: None,
        }
    }
}

impl Workload {
    /// Returns the share of its runs that a bucket has.
    fn share_of(&self, bucket: &[Interval]) -> f64 {
        let n = self.buckets.iter().position(|it| it == bucket);
        let stated = n.and_then(|it| self.bucket_shares.get(it)).copied();
        stated.unwrap_or(1.0 / self.buckets.len().max(1) as f64)
    }
}

impl Task {
    /// Creates the task of a workload that is the first of its run, with a full share.
    pub(super) fn new(workload: &Workload, bucket: &[Interval], builder: &Builder) -> Self {
        let dims = workload.dag.dims.iter().zip(bucket);
        let hi: Vec<i64> = bucket.iter().map(|it| it.hi).collect();
        let cold = operands::cold(&workload.dag, &hi, &workload.residence, &builder.target());
        Self {
            workload: 0,
            bucket: bucket.to_vec(),
            builder: builder.clone(),
            dag: Arc::new(workload.dag.specialize(bucket)),
            definition: Arc::clone(&workload.definition),
            tolerance: workload.tolerance,
            cold,
            weight: workload.weight * workload.share_of(bucket),
            good_enough_ns: workload.good_enough_ns,
            share: 1.0,
            name: TaskName {
                program: workload.dag.name.clone(),
                dims: dims.map(|(dim, range)| (dim.name.clone(), *range)).collect(),
                platform: builder.target().platform(),
            },
        }
    }

    /// Computes the features of a trace; `None` if it does not fit.
    pub(super) fn features(&self, trace: &[Instruction]) -> Option<Features> {
        let features = || learned::features(&self.dag, &self.target(), trace);
        // As with code, a bug on the way costs no more than the candidate.
        catch_unwind(AssertUnwindSafe(features)).ok().flatten()
    }

    /// Tells if a latency is good enough.
    pub(super) fn is_good_enough(&self, ns: f64) -> bool {
        self.good_enough_ns.is_some_and(|it| ns <= it)
    }

    /// Returns the device that it runs on.
    pub(super) fn target(&self) -> Target {
        self.builder.target()
    }

    /// Returns the platform of its code.
    pub(super) fn platform(&self) -> Platform {
        self.target().platform()
    }

    /// Returns the extents at which candidates are verified; they are timed at the first, the largest.
    /// The others, the smallest and a prime, are divisible by no tile; a dimension that begins at
    /// another one is not less than that.
    pub(super) fn dims(&self) -> Vec<Vec<i64>> {
        let of_each = |choose: &dyn Fn(&Interval) -> i64| self.bucket.iter().map(choose).collect();
        let mut dims: Vec<Vec<i64>> =
            vec![of_each(&|it| it.hi), of_each(&|it| it.lo), of_each(&|it| prime_inside(*it))];
        dims[2] = self.dag.raised_to_lower_ends(&dims[2]);
        for n in (1..dims.len()).rev() {
            if dims[..n].contains(&dims[n]) {
                dims.remove(n);
            }
        }
        dims
    }

    /// Returns extents inside of the range, the geometric means of their ends; `None` if the largest ones
    /// are the only ones.
    pub(super) fn inner_dims(&self) -> Option<Vec<i64>> {
        let largest: Vec<i64> = self.bucket.iter().map(|it| it.hi).collect();
        let mean = |it: &Interval| (it.lo as f64 * it.hi as f64).sqrt() as i64;
        let inner = self.bucket.iter().map(|it| mean(it).clamp(it.lo, it.hi)).collect::<Vec<_>>();
        let inner = self.dag.raised_to_lower_ends(&inner);
        (inner != largest).then_some(inner)
    }

    /// Returns the ranges, as the log has them.
    pub(super) fn bucket_key(&self) -> Vec<(i64, i64)> {
        self.bucket.iter().map(|it| (it.lo, it.hi)).collect()
    }

    /// Builds the code of a trace.
    pub(super) fn build(&self, trace: &[Instruction]) -> Result<Code, String> {
        self.builder.build(&self.dag, trace)
    }
}

/// Returns the largest prime in the lower two thirds of a range, its lower end if there is none: far from
/// both ends, and no multiple of any tile.
fn prime_inside(range: Interval) -> i64 {
    let is_prime = |n: &i64| *n > 1 && (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0);
    let from = range.lo + (range.hi - range.lo) * 2 / 3;
    (range.lo..=from).rev().find(is_prime).unwrap_or(range.lo)
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::{CpuTarget, Isa};

    use super::*;

    #[test]
    fn extents_are_those_of_launches() {
        let dag = dsl::program(
            "#[autotune(dims(T = 1..=70, S = T + 2..=74))]
             fn f(x: Tensor<f32, S>) -> Tensor<f32, T> { compute(|t| x[[t + 2]]) }",
        );
        let workload = Workload::new(dag.unwrap(), Vec::new(), Tolerance { rel: 0.0, abs: 0.0 });
        let [s, t] = [Interval { lo: 3, hi: 74 }, Interval { lo: 1, hi: 70 }];
        let task = |bucket: [Interval; 2]| {
            let target = CpuTarget::generic(Isa::Avx2).into();
            let builder = Builder::new(target, None).unwrap();
            Task::new(&workload, &bucket, &builder).dims()
        };
        assert_eq!(task([s, t]), [[74, 70], [3, 1], [49, 47]]);
        let narrow = Interval { lo: 40, hi: 47 };
        assert_eq!(task([Interval { lo: 42, hi: 49 }, narrow]), [[49, 47], [42, 40], [45, 43]]);
    }

    #[test]
    fn inner_extents_are_geometric_means() {
        let dag = dsl::program(
            "#[autotune(dims(T = 1..=1024, N = 8))]
             fn f(x: Tensor<f32, T, N>) -> Tensor<f32, T, N> { compute(|t, n| x[[t, n]]) }",
        );
        let workload = Workload::new(dag.unwrap(), Vec::new(), Tolerance { rel: 0.0, abs: 0.0 });
        let inner = |lo, hi| {
            let builder = Builder::new(CpuTarget::generic(Isa::Avx2).into(), None).unwrap();
            Task::new(&workload, &[Interval { lo, hi }], &builder).inner_dims()
        };
        assert_eq!(inner(129, 1024), Some(vec![363]));
        assert_eq!(inner(1, 1024), Some(vec![32]));
        assert_eq!(inner(7, 8), Some(vec![7]));
        assert_eq!(inner(8, 8), None);
    }

    #[test]
    fn the_prime_lies_inside_where_there_is_one() {
        let prime = |lo, hi| prime_inside(Interval { lo, hi });
        assert_eq!(prime(1, 512), 337);
        assert_eq!(prime(17, 64), 47);
        assert_eq!(prime(1, 1), 1);
        assert_eq!(prime(24, 28), 24);
    }
}
