//! The order of reductions: part of what a program means, where it says `numerics = "fixed"`.
//!
//! Floats round, so the order in which the terms of a sum are added decides its last bits. Of a program
//! with fixed numerics each reduction has one [`Order`], which follows from the dag alone: from no target,
//! no schedule, no bucket and no number of threads.
//!
//! In: a dag. Out: the order of each of its reductions. Next: [`interp::run_in_order`](crate::interp)
//! computes by it, and primitives of schedules refuse to change it.

use std::str::FromStr;

use super::access::accesses;
use super::prefix::Prefix;
use super::{Compute, Dag, Expr, TensorId};
use crate::poly::{Poly, VarId};

/// Partial results of a reduction by lanes: the elements of four vectors of AVX-512, or of eight of AVX2.
pub const LANES: u64 = 64;

/// The fewest terms along memory that are reduced by lanes: fewer are no vector on some CPU.
const MIN_TERMS: i64 = 16;

/// The results that schedules may give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// Schedules choose the order of reductions and round as they like: results are near the definition.
    #[default]
    Free,
    /// Every schedule gives the same bits: those of [`interp::run_in_order`](crate::interp::run_in_order).
    Fixed,
}

impl Numerics {
    /// The word for it in attributes and tables: `free` or `fixed`.
    pub fn name(self) -> &'static str {
        match self {
            Numerics::Free => "free",
            Numerics::Fixed => "fixed",
        }
    }
}

/// The order in which the terms of a reduction are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other, in the order of the ranges: the last range varies fastest.
    Sequence,
    /// In [`LANES`] partial results. The ranges from axis `first` on run along memory: counted together,
    /// their term `t` belongs to partial result `t % LANES`. Each is a sequence, and they are combined by
    /// halves: each of the first half with its partner in the second, until one is left.
    Lanes {
        /// The first of these axes, a reduce axis of the compute.
        first: usize,
    },
}

/// The text names no numerics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no kind of numerics; expected `fixed` or `free`")]
pub struct UnknownNumerics(String);

impl FromStr for Numerics {
    type Err = UnknownNumerics;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = [Numerics::Free, Numerics::Fixed].into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| UnknownNumerics(text.to_owned()))
    }
}

impl Dag {
    /// Returns whether a compute has a reduction whose order schedules may not change: of floats, where
    /// that is fixed.
    fn is_ordered(&self, compute: &Compute) -> bool {
        self.numerics == Numerics::Fixed
            && compute.reducer.is_some()
            && self.tensor(compute.tensor).dtype.is_float()
    }

    /// Fixes the numerics of a whole program: the order of each of its reductions.
    pub fn fix_numerics(&mut self) {
        self.numerics = Numerics::Fixed;
        self.orders = self.computes.iter().map(|it| self.order_of_terms(it)).collect();
    }

    /// Returns the same program with free numerics.
    #[must_use]
    pub fn with_free_numerics(&self) -> Dag {
        Dag { numerics: Numerics::Free, orders: Vec::new(), ..self.clone() }
    }

    /// Returns the order of a reduction, where it is fixed.
    pub fn order(&self, compute: &Compute) -> Option<Order> {
        let order = *self.orders.get(self.producer(compute.tensor)?.0 as usize)?;
        self.is_ordered(compute).then_some(order)
    }

    /// Returns the order that a reduction has where it is fixed: by lanes if its terms are adjacent in
    /// memory, and if it uses none of them for several results (sums along rows, softmax, norms); else a
    /// sequence (products, convolutions, sums over outer axes).
    fn order_of_terms(&self, compute: &Compute) -> Order {
        let shape = |it: TensorId| self.tensor(it).shape.clone();
        let facts = compute.facts(&self.facts());
        let accesses = accesses(compute, &shape, &facts);
        let longest = |axis: usize| compute.axes[axis].extent.interval(&facts).hi;
        let Some(along) = (compute.n_spatial..compute.axes.len()).rev().find(|it| longest(*it) > 1)
        else {
            return Order::Sequence;
        };
        let is_along_memory = accesses.iter().any(|it| it.is_contiguous(along))
            && accesses.iter().all(|it| it.is_contiguous(along) || !it.depends_on(along));
        let is_shared = |axis: usize| {
            let mut reduced = accesses.iter().filter(|it| it.depends_on(along));
            longest(axis) > 1 && reduced.any(|it| !it.depends_on(axis))
        };
        if !is_along_memory || (0..compute.n_spatial).any(is_shared) {
            return Order::Sequence;
        }
        // The axes that are one run of memory together with it.
        let is_run = |axis: &usize| {
            let extent = &compute.axes[*axis + 1].extent;
            let continues = |outer: &Poly, inner: &Poly| *outer == inner.clone() * extent.clone();
            let strides = accesses.iter().map(|it| (&it.strides[*axis], &it.strides[*axis + 1]));
            let mut strides = strides.map(|it| matches!(it, (Some(a), Some(b)) if continues(a, b)));
            strides.all(|it| it) && ![*axis, *axis + 1].iter().any(|it| is_value(compute, *it))
        };
        let first = (compute.n_spatial..along).rev().take_while(is_run).last().unwrap_or(along);
        let n_terms = (first..=along).map(longest).fold(1, i64::saturating_mul);
        if n_terms < MIN_TERMS { Order::Sequence } else { Order::Lanes { first } }
    }

    /// Returns the first tensor whose reduction has no fixed order yet: a prefix reduction, which is
    /// computed by blocks that depend on the device.
    pub fn without_fixed_order(&self) -> Option<TensorId> {
        let shape = |it: TensorId| self.tensor(it).shape.clone();
        let facts = self.facts();
        let is_prefix = |it: &&Compute| {
            self.tensor(it.tensor).dtype.is_float()
                && Prefix::of(it, &shape, self, &facts).is_some()
        };
        self.computes.iter().find(is_prefix).map(|it| it.tensor)
    }
}

/// Returns whether a body uses the index along an axis as a number.
fn is_value(compute: &Compute, axis: usize) -> bool {
    let mut found = false;
    compute.body.walk(&mut |it| {
        found |= matches!(it, Expr::Index(poly) if poly.mentions(VarId(axis as u32)));
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl;

    fn order(text: &str) -> Order {
        let mut dag = dsl::program(text).unwrap();
        dag.fix_numerics();
        dag.order(dag.computes.iter().find(|it| it.reducer.is_some()).unwrap()).unwrap()
    }

    #[test]
    fn sums_along_rows_are_by_lanes_and_products_are_sequences() {
        let lanes = |first| Order::Lanes { first };
        let rows = "fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
            compute(|i| sum(0..N, |j| x[[i, j]] * x[[i, j]]))
        }";
        assert_eq!(order(&format!("#[autotune(dims(M = 1..=9, N = 1..=70))] {rows}")), lanes(1));
        assert_eq!(order(&format!("#[autotune(dims(M = 3, N = 15))] {rows}")), Order::Sequence);
        let all = "#[autotune(dims(M = 5, N = 6))]
            fn f(x: Tensor<f32, M, N>) -> Tensor<f32, 1> {
                compute(|i| sum((0..M, 0..N), |j, k| x[[j, k]]))
            }";
        assert_eq!(order(all), lanes(0));
        let columns = "#[autotune(dims(M = 50, N = 60))]
            fn f(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
                compute(|j| sum(0..M, |i| x[[i, j]]))
            }";
        assert_eq!(order(columns), Order::Sequence);
        let product = "#[autotune(dims(M = 1..=9, N = 60, K = 70))]
            fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
                compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
            }";
        assert_eq!(order(product), Order::Sequence);
    }

    #[test]
    fn prefix_sums_have_no_fixed_order() {
        let dag = |body: &str| {
            dsl::program(&format!(
                "#[autotune(dims(N = 40))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{ {body} }}"
            ))
            .unwrap()
        };
        let prefix = dag("compute(|i| sum(0..=i, |j| x[[j]]))");
        assert_eq!(prefix.without_fixed_order(), Some(prefix.outputs[0]));
        assert_eq!(dag("compute(|i| exp(x[[i]]))").without_fixed_order(), None);
    }
}
