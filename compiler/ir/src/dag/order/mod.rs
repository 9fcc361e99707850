//! The order of reductions: part of what a program means, where it says `numerics = "fixed"`.
//!
//! Floats round, so the order in which the terms of a sum are added decides its last bits. Of a program
//! with fixed numerics each reduction has one [`Order`], which follows from the dag alone: from no target,
//! no schedule, no bucket and no number of threads. The author may write another rule for it ([`WrittenOrder`]).
//!
//! In: a dag. Out: the order of each of its reductions. Next: [`interp::run_in_order`](crate::interp)
//! computes by it, and primitives of schedules refuse to change it.

mod written;

use std::str::FromStr;

pub use self::written::{UnknownOrder, WrittenOrder};
use super::access::accesses;
use super::limits::is_addressable;
use super::prefix::Prefix;
use super::{Compute, Dag, Expr, TensorId};
use crate::poly::{Facts, Poly, VarId};

/// Partial results of a reduction by lanes where nothing is written: the elements of four vectors of AVX-512,
/// or of eight of AVX2.
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
    /// In partial results that are combined by halves.
    Lanes(Lanes),
    /// In blocks of iterations of one axis, the first that may have several. Each is reduced on its own, and
    /// their results are combined as a sequence. The last one may be shorter.
    Blocks {
        /// The axis, a reduce axis of the compute.
        axis: usize,
        /// The iterations of a block.
        size: u64,
        /// The order within a block: a sequence where it is not by lanes. Terms are counted from the beginning
        /// of the block.
        lanes: Option<Lanes>,
    },
}

/// Partial results of a reduction: the ranges from axis `first` on run along memory; counted together, their
/// term `t` belongs to partial result `t % n`. Each is a sequence, and they are combined by halves: each of
/// the first half with its partner in the second, until one is left, and that with the reducer's identity: a
/// sum is never -0.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The first of these axes, a reduce axis of the compute.
    pub first: usize,
    /// The partial results, a power of two.
    pub n: u64,
}

/// The partial result that a term belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The block.
    pub block: u64,
    /// The lane in it.
    pub lane: usize,
}

impl Order {
    /// Returns the lanes of the reduction, or of each of its blocks.
    pub fn lanes(self) -> Option<Lanes> {
        match self {
            Order::Sequence => None,
            Order::Lanes(lanes) => Some(lanes),
            Order::Blocks { lanes, .. } => lanes,
        }
    }

    /// Returns the place of the term at a point of the compute's axes, whose extents are given.
    pub fn place(self, point: &[i64], extents: &[i64]) -> Place {
        let (blocked, size) = match self {
            Order::Blocks { axis, size, .. } => (Some(axis), size),
            _ => (None, 1),
        };
        let block = blocked.map_or(0, |axis| point[axis].unsigned_abs() / size);
        let lane = self.lanes().map_or(0, |Lanes { first, n }| {
            // Axes before that of blocks have one iteration.
            let at = |axis: usize| match Some(axis) == blocked {
                true => point[axis].unsigned_abs() % size,
                false => point[axis].unsigned_abs(),
            };
            let inside = first..extents.len();
            inside.fold(0, |flat, axis| flat * extents[axis].unsigned_abs() + at(axis)) % n
        });
        Place { block, lane: lane as usize }
    }

    /// Adjusts the order of a compute that has `n` more axes before axis `at`, or fewer.
    pub fn move_axes(&mut self, at: usize, n: isize) {
        let moved = |axis: &mut usize| {
            if at < *axis {
                *axis = axis.saturating_add_signed(n);
            }
        };
        match self {
            Order::Sequence => {}
            Order::Lanes(lanes) => moved(&mut lanes.first),
            Order::Blocks { axis, lanes, .. } => {
                moved(axis);
                lanes.iter_mut().for_each(|it| moved(&mut it.first));
            }
        }
    }
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

    /// Fixes the numerics of a whole program by an order that its author wrote.
    pub fn fix_order(&mut self, order: WrittenOrder) {
        self.written_order = Some(order);
        self.fix_numerics();
    }

    /// Returns the reason why the order that is written would change nothing; `None` if it may, or if none
    /// is written.
    pub fn idle_order(&self) -> Option<String> {
        let written = self.written_order?;
        let orders: Vec<Order> = self.computes.iter().filter_map(|it| self.order(it)).collect();
        let has = |is: fn(&Order) -> bool| orders.iter().any(is);
        match written {
            _ if orders.is_empty() => Some("this op has no reduction of floats".to_owned()),
            WrittenOrder::Lanes(_) if !has(|it| matches!(it, Order::Lanes(_))) => Some(
                "no reduction of floats has terms that lie side by side in memory along its \
                 innermost range, so none has lanes"
                    .to_owned(),
            ),
            WrittenOrder::Blocks { size, .. } if !has(|it| matches!(it, Order::Blocks { .. })) => {
                Some(format!(
                    "no reduction of floats has more than {size} iterations of its first range, so \
                     none has several blocks"
                ))
            }
            _ => None,
        }
    }

    /// Returns the same program with free numerics.
    #[must_use]
    pub fn with_free_numerics(&self) -> Dag {
        let (numerics, orders, written_order) = (Numerics::Free, Vec::new(), None);
        Dag { numerics, orders, written_order, ..self.clone() }
    }

    /// Returns the order of a reduction, where it is fixed.
    pub fn order(&self, compute: &Compute) -> Option<Order> {
        let order = *self.orders.get(self.producer(compute.tensor)?.0 as usize)?;
        self.is_ordered(compute).then_some(order)
    }

    /// Returns the order that a reduction has where it is fixed: the written one, or else by lanes if its
    /// terms are adjacent in memory, and if it uses none of them for several results (sums along rows,
    /// softmax, norms), and a sequence if not (products, convolutions, sums over outer axes).
    fn order_of_terms(&self, compute: &Compute) -> Order {
        let facts = compute.facts(&self.facts());
        let run = || self.run_along_memory(compute, &facts);
        let by_lanes = |n: u64| run().map(|it| Lanes { first: it.first, n });
        let order = match self.written_order {
            None => {
                let run = run().filter(|it| !it.is_shared && it.n_terms >= MIN_TERMS);
                let lanes = run.map(|it| Lanes { first: it.first, n: LANES });
                return lanes.map_or(Order::Sequence, Order::Lanes);
            }
            Some(WrittenOrder::Sequence) => Order::Sequence,
            Some(WrittenOrder::Lanes(n)) => by_lanes(n).map_or(Order::Sequence, Order::Lanes),
            Some(WrittenOrder::Blocks { size, lanes }) => {
                let lanes = lanes.and_then(by_lanes);
                let longest = |axis: usize| compute.axes[axis].extent.interval(&facts).hi;
                let axis = (compute.n_spatial..compute.axes.len()).find(|it| longest(*it) > 1);
                match axis {
                    Some(axis) if longest(axis).unsigned_abs() > size => {
                        // Axes before it have one iteration.
                        let from = |it: Lanes| Lanes { first: it.first.max(axis), ..it };
                        Order::Blocks { axis, size, lanes: lanes.map(from) }
                    }
                    _ => lanes.map_or(Order::Sequence, Order::Lanes),
                }
            }
        };
        if self.holds_partial_results(compute, order, &facts) { order } else { Order::Sequence }
    }

    /// Returns whether a tensor may hold the partial results of a reduction.
    fn holds_partial_results(&self, compute: &Compute, order: Order, facts: &Facts) -> bool {
        let extent = |it: u64| Poly::constant(i64::try_from(it).unwrap_or(i64::MAX));
        let mut shape: Vec<Poly> =
            compute.axes[..compute.n_spatial].iter().map(|it| it.extent.clone()).collect();
        if let Order::Blocks { axis, size, .. } = order {
            let longest = compute.axes[axis].extent.interval(facts).hi.unsigned_abs();
            shape.push(extent(longest.div_ceil(size)));
        }
        shape.extend(order.lanes().map(|it| extent(it.n)));
        is_addressable(&shape, self.tensor(compute.tensor).dtype, facts)
    }

    /// Returns the axes along which the terms of a reduction lie side by side in memory.
    fn run_along_memory(&self, compute: &Compute, facts: &Facts) -> Option<Run> {
        let shape = |it: TensorId| self.tensor(it).shape.clone();
        let accesses = accesses(compute, &shape, facts);
        let longest = |axis: usize| compute.axes[axis].extent.interval(facts).hi;
        let along = (compute.n_spatial..compute.axes.len()).rev().find(|it| longest(*it) > 1)?;
        let is_along_memory = accesses.iter().any(|it| it.is_contiguous(along))
            && accesses.iter().all(|it| it.is_contiguous(along) || !it.depends_on(along));
        if !is_along_memory {
            return None;
        }
        let shares = |axis: usize| {
            let mut reduced = accesses.iter().filter(|it| it.depends_on(along));
            longest(axis) > 1 && reduced.any(|it| !it.depends_on(axis))
        };
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
        let is_shared = (0..compute.n_spatial).any(shares);
        Some(Run { first, n_terms, is_shared })
    }

    /// Returns the first tensor whose reduction has no fixed order yet: a prefix reduction that a scan does not
    /// compute in the order of its terms. Each result of one from an index on begins with a term of its own, and
    /// terms of several ranges are reduced before the scan.
    pub fn without_fixed_order(&self) -> Option<TensorId> {
        let shape = |it: TensorId| self.tensor(it).shape.clone();
        let facts = self.facts();
        let is_refused = |it: &&Compute| {
            let is_one_range = it.axes.len() == it.n_spatial + 1;
            let prefix = Prefix::of(it, &shape, self, &facts);
            let is_scanned = |prefix: Prefix| {
                prefix.is_upward && is_one_range && self.order_of_terms(it) == Order::Sequence
            };
            self.tensor(it.tensor).dtype.is_float() && prefix.is_some_and(|it| !is_scanned(it))
        };
        self.computes.iter().find(is_refused).map(|it| it.tensor)
    }
}

/// The axes along which the terms of a reduction lie side by side in memory.
struct Run {
    /// The first of them; the others follow it.
    first: usize,
    /// The most terms along all of them.
    n_terms: i64,
    /// True if terms are used for several results.
    is_shared: bool,
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
mod tests;
