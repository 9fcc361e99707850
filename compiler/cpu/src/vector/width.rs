//! The width of lanes that a program needs, before it is lowered: templates and models count vectors by it.
//!
//! It may be wrong: a product of 64-bit integers, say, takes wide lanes only where range analysis cannot
//! prove that it fits 32 bits. Then tiles have half or twice the vectors they were made for.

use super::{Simd, Width};
use tvmtune_ir::dag::{Compute, DType, Dag, Reducer};
use tvmtune_ir::poly::{Facts, Poly};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::nest::{Nest, Stmt};

/// Narrow elements for each 64-bit integer that is reduced, from which on lanes of 32 bits add these up by
/// words, in some ten times as many instructions; chosen by judgement.
const NARROW_PER_LONG: f64 = 8.0;

/// Returns the width of lanes that a program is expected to be computed in.
#[must_use]
pub fn of_dag(dag: &Dag) -> Width {
    let facts = dag.facts();
    let mut iterations = Iterations::default();
    for it in &dag.computes {
        let Compute { axes, reducer, .. } = it;
        let n = axes.iter().map(|it| largest(&it.extent, &facts)).product();
        iterations.add(dag.tensor(it.tensor).dtype, *reducer, n);
    }
    width(dag.tensors.iter().any(|it| it.dtype == DType::F64), iterations)
}

/// Returns the number of lanes of the vectors that a nest is expected to be computed with.
#[must_use]
pub fn lanes_of_nest(isa: Isa, nest: &Nest) -> u64 {
    let width = width(nest.buffers.iter().any(|it| it.dtype == DType::F64), iterations(nest));
    Simd { isa, width }.lanes().unsigned_abs()
}

/// Returns whether lanes of 32 bits add up the 64-bit integers of a nest, if it has sums of any.
pub(super) fn adds_words(nest: &Nest) -> bool {
    !iterations(nest).are_long()
}

fn width(has_doubles: bool, iterations: Iterations) -> Width {
    if has_doubles || iterations.are_long() { Width::Bits64 } else { Width::Bits32 }
}

fn iterations(nest: &Nest) -> Iterations {
    let mut iterations = Iterations::default();
    iterations.collect(nest, &nest.body, &mut nest.facts(), 1.0);
    iterations
}

fn largest(extent: &Poly, facts: &Facts) -> f64 {
    extent.interval(facts).hi.max(1) as f64
}

/// The iterations of statements, at most.
#[derive(Clone, Copy, Debug, Default)]
struct Iterations {
    /// Of those that reduce 64-bit integers.
    long: f64,
    /// Of those that write narrower numbers.
    narrow: f64,
}

impl Iterations {
    fn add(&mut self, dtype: DType, reducer: Option<Reducer>, n: f64) {
        match (dtype, reducer) {
            (DType::I64, Some(Reducer::Sum)) => self.long += n,
            // Only sums are lowered to words; other reductions take lanes of 64 bits.
            (DType::I64, Some(_)) => self.long = f64::INFINITY,
            (DType::I64 | DType::F64, _) => {}
            _ => self.narrow += n,
        }
    }

    fn are_long(self) -> bool {
        self.long > 0.0 && self.narrow < NARROW_PER_LONG * self.long
    }

    fn collect(&mut self, nest: &Nest, body: &[Stmt], facts: &mut Facts, times: f64) {
        for stmt in body {
            match stmt {
                Stmt::For { var, extent, body, .. } => {
                    facts.bound_var(*var, extent.clone());
                    self.collect(nest, body, facts, times * largest(extent, facts));
                }
                Stmt::If { body, .. } => self.collect(nest, body, facts, times),
                Stmt::Update { tensor, reducer, .. } => {
                    self.add(nest.buffer(*tensor).dtype, Some(*reducer), times);
                }
                Stmt::Store { tensor, .. } => self.add(nest.buffer(*tensor).dtype, None, times),
            }
        }
    }
}
