//! The order of multiply-adds over windows that overlap: those of the same vector stand side by side, so that
//! it is loaded once.
//!
//! ```text
//! r0 = fma(x[0], w0, r0); r1 = fma(x[1], w0, r1); ..; r0 = fma(x[1], w1, r0); r1 = fma(x[2], w1, r1); ..
//!     =>   r0 = fma(x[0], w0, r0); r0 = fma(x[1], w1, r0); r1 = fma(x[1], w0, r1); r1 = fma(x[2], w1, r1); ..
//! ```
//!
//! In: the statements of a block. Out: the same ones; [`super::cse`] then keeps each vector from one use to
//! the next. A loop over the rows of a window reads each row of an operand again for every row of the window;
//! unrolled, the reads are far apart, farther than registers last.
//!
//! # Invariants
//!
//! - Each register gets its terms in the same order, so results are the same bits.

use std::collections::{BTreeMap, BTreeSet};

use super::cse::PendingStmt;
use super::numbering::{Interned, MaskRef, MemRef, Op, ValueGraph, ValueId};
use super::{Address, LaneStride, Reg};

/// A statement `reg = fma(load, other, reg)` or `reg = max(load, reg)`, maybe in some lanes only.
struct Term {
    reg: Reg,
    load: ValueId,
}

/// The terms of one vector.
struct Group {
    /// The number of the address without its constant part, and that part.
    place: (usize, i64),
    terms: Vec<usize>,
    /// The groups of the next terms of its registers, one entry for each term.
    next: Vec<usize>,
    /// Terms of other groups that registers of this one wait for.
    n_before: usize,
}

impl Group {
    fn new(place: (usize, i64)) -> Self {
        Self { place, terms: Vec::new(), next: Vec::new(), n_before: 0 }
    }
}

/// Reorders the statements of a block where vectors are used again after more statements than a machine has
/// registers.
pub(super) fn reorder(
    graph: &ValueGraph,
    interned: &Interned,
    registers: u32,
    pending: &mut [PendingStmt],
) {
    let terms: Vec<Option<Term>> = pending.iter().map(|it| term(graph, *it)).collect();
    let mut at = 0;
    for run in terms.chunk_by(|a, b| a.is_some() == b.is_some()) {
        let range = at..at + run.len();
        at = range.end;
        let run: Vec<&Term> = run.iter().flatten().collect();
        if is_far_apart(&run, registers)
            && let Some(order) = by_vector(graph, interned, &run)
        {
            let stmts = &mut pending[range];
            let reordered: Vec<PendingStmt> = order.into_iter().map(|it| stmts[it]).collect();
            stmts.copy_from_slice(&reordered);
        }
    }
}

/// Returns whether some vector is used again after more statements than that.
fn is_far_apart(run: &[&Term], registers: u32) -> bool {
    let mut last: BTreeMap<ValueId, usize> = BTreeMap::new();
    let is_far = |(at, it): (usize, &&Term)| {
        last.insert(it.load, at).is_some_and(|before| at - before > registers as usize)
    };
    run.iter().enumerate().any(is_far)
}

/// Returns an order in which the terms of each vector stand side by side, by addresses as far as registers
/// allow; `None` if some register would get its terms in another order.
fn by_vector(graph: &ValueGraph, interned: &Interned, run: &[&Term]) -> Option<Vec<usize>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of: BTreeMap<ValueId, usize> = BTreeMap::new();
    // The group of the last term of each register.
    let mut last: BTreeMap<Reg, usize> = BTreeMap::new();
    // Addresses that differ by a constant are ordered by it, others by their first use.
    let mut places: BTreeMap<Address, usize> = BTreeMap::new();
    for (at, term) in run.iter().enumerate() {
        let group = *group_of.entry(term.load).or_insert_with(|| {
            let mut address = address_of(graph, interned, term.load);
            let constant = std::mem::take(&mut address.offset.constant);
            let n = places.len();
            groups.push(Group::new((*places.entry(address).or_insert(n), constant)));
            groups.len() - 1
        });
        groups[group].terms.push(at);
        if let Some(before) = last.insert(term.reg, group).filter(|it| *it != group) {
            groups[before].next.push(group);
            groups[group].n_before += 1;
        }
    }
    let ready = |(n, it): (usize, &Group)| (it.n_before == 0).then_some((it.place, n));
    let mut ready: BTreeSet<((usize, i64), usize)> =
        groups.iter().enumerate().filter_map(ready).collect();
    let mut order = Vec::new();
    while let Some((_, n)) = ready.pop_first() {
        order.append(&mut groups[n].terms);
        for next in std::mem::take(&mut groups[n].next) {
            groups[next].n_before -= 1;
            if groups[next].n_before == 0 {
                ready.insert((groups[next].place, next));
            }
        }
    }
    // Groups that wait for each other are left.
    (order.len() == run.len()).then_some(order)
}

fn address_of(graph: &ValueGraph, interned: &Interned, load: ValueId) -> Address {
    let Op::Load(MemRef { address, .. }, _) = graph.op(load) else {
        unreachable!("terms take a load")
    };
    interned.addresses.get(address)
}

/// Returns the parts of a statement that adds a vector from memory to its register, and reads no other one.
fn term(graph: &ValueGraph, stmt: PendingStmt) -> Option<Term> {
    let PendingStmt::Set { reg, value, mask: MaskRef::All } = stmt else { return None };
    let is_own = |it: ValueId| matches!(graph.op(it), Op::Reg(own, _) if own == reg);
    let product = match graph.op(value) {
        Op::Select(mask, then, otherwise)
            if is_own(otherwise) && matches!(graph.op(mask), Op::Lanes(_)) =>
        {
            graph.op(then)
        }
        op => op,
    };
    let is_known = |mask: ValueId| matches!(graph.op(mask), Op::Lanes(_));
    let is_load = |it: ValueId, lanes: LaneStride| {
        let op = graph.op(it);
        matches!(op, Op::Load(_, its) if its == lanes) && op.children().all(is_known)
    };
    let is_vector = |it: ValueId| is_load(it, LaneStride::Contiguous);
    let is_scalar =
        |it: ValueId| is_load(it, LaneStride::Uniform) || matches!(graph.op(it), Op::Splat(_));
    let load = match product {
        Op::Fma(a, b, sum) if is_own(sum) && is_vector(a) && is_scalar(b) => a,
        Op::Fma(a, b, sum) if is_own(sum) && is_vector(b) && is_scalar(a) => b,
        // A sum, a maximum or a minimum.
        Op::Binary(_, a, b) if is_own(b) && is_vector(a) => a,
        _ => return None,
    };
    Some(Term { reg, load })
}
