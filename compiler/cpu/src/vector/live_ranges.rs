//! Shorter live ranges of accumulators whose reduction is written out: they start with their first term, and end
//! with their last.
//!
//! ```text
//! r0 = 0; r1 = 0; r0 = fma(a, b, r0); ..; r1 = fma(c, d, r1); ..; t[0] = r0; t[8] = r1
//!     =>   r0 = 0; r0 = fma(a, b, r0); ..; t[0] = r0; r1 = 0; r1 = fma(c, d, r1); ..; t[8] = r1
//! ```
//!
//! In: the statements of a block, in the order that [`super::windows`] gives them. Out: the same ones; the registers
//! that are free meanwhile hold operands ([`super::cse`]).
//!
//! # Invariants
//!
//! - Nothing passes an assignment to a register that it reads, or an access to memory that it writes.

use std::collections::{BTreeMap, BTreeSet};

use super::cse::PendingStmt;
use super::numbering::{Interned, MaskRef, Op, ValueGraph, ValueId};
use super::transpose::base_of;
use super::{Base, LaneStride, Reg};

/// The registers and the memory of a statement.
struct Effects {
    set: Option<Reg>,
    reads: BTreeSet<Reg>,
    loads: BTreeSet<Base>,
    stores: Option<Base>,
}

impl Effects {
    fn of(graph: &ValueGraph, interned: &Interned, stmt: &PendingStmt) -> Self {
        let (mut reads, mut loads) = (BTreeSet::new(), BTreeSet::new());
        let (set, stores, value, mask) = match *stmt {
            PendingStmt::Set { reg, value, mask } => (Some(reg), None, Some(value), mask),
            PendingStmt::Store { address, value, mask, .. } => {
                (None, Some(interned.addresses.value(address).base), Some(value), mask)
            }
            PendingStmt::Prefetch { .. } => (None, None, None, MaskRef::All),
        };
        // A register keeps its values in the other lanes.
        reads.extend(set.filter(|_| mask != MaskRef::All));
        let mut open: Vec<ValueId> = value.into_iter().collect();
        open.extend(match mask {
            MaskRef::Where(id) => Some(id),
            MaskRef::All | MaskRef::First(_) => None,
        });
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            if let Op::Reg(reg, _) = graph.op(id) {
                reads.insert(reg);
            }
            loads.extend(base_of(graph, interned, id));
            open.extend(graph.op(id).children());
        }
        Self { set, reads, loads, stores }
    }

    fn mentions(&self, reg: Reg) -> bool {
        self.set == Some(reg) || self.reads.contains(&reg)
    }

    /// Returns whether a store may stand before this statement instead of behind it.
    fn lets_pass(&self, store: &Self) -> bool {
        let touches = |base: Base| self.loads.contains(&base) || self.stores == Some(base);
        !self.set.is_some_and(|it| store.reads.contains(&it))
            && !store.stores.is_some_and(touches)
            && !self.stores.is_some_and(|it| store.loads.contains(&it))
    }
}

/// Returns the first and the last statement of each register of a block that is not live after it.
pub(super) fn of_block(
    graph: &ValueGraph,
    interned: &Interned,
    pending: &[PendingStmt],
    live_after: &BTreeSet<Reg>,
) -> Vec<(usize, usize)> {
    let mut ranges: BTreeMap<Reg, (usize, usize)> = BTreeMap::new();
    for (at, stmt) in pending.iter().enumerate() {
        let Effects { set, reads, .. } = Effects::of(graph, interned, stmt);
        // A register whose first statement reads it is live from the start of the block.
        reads.into_iter().for_each(|it| ranges.entry(it).or_insert((0, at)).1 = at);
        set.into_iter().for_each(|it| ranges.entry(it).or_insert((at, at)).1 = at);
    }
    ranges.retain(|reg, _| !live_after.contains(reg));
    ranges.into_values().collect()
}

/// Moves assignments of constants to where their register is used first, and stores to where their value is known.
pub(super) fn shorten(graph: &ValueGraph, interned: &Interned, pending: &mut [PendingStmt]) {
    let mut effects: Vec<Effects> =
        pending.iter().map(|it| Effects::of(graph, interned, it)).collect();
    for at in (0..pending.len()).rev() {
        let PendingStmt::Set { reg, value, mask: MaskRef::All } = pending[at] else { continue };
        if !matches!(graph.op(value), Op::Splat(_)) {
            continue;
        }
        let distance = effects[at + 1..].iter().position(|it| it.mentions(reg));
        if let Some(distance) = distance {
            pending[at..=at + distance].rotate_left(1);
            effects[at..=at + distance].rotate_left(1);
        }
    }
    for at in 0..pending.len() {
        // Strided stores stand side by side.
        let PendingStmt::Store { lanes, .. } = pending[at] else { continue };
        let (before, store) = (&effects[..at], &effects[at]);
        let n_passed = before.iter().rev().take_while(|it| it.lets_pass(store)).count();
        let sets = before.iter().rev().nth(n_passed).and_then(|it| it.set);
        let is_known_there = sets.is_some_and(|it| store.reads.contains(&it));
        if is_known_there && !matches!(lanes, LaneStride::Strided(_)) {
            pending[at - n_passed..=at].rotate_right(1);
            effects[at - n_passed..=at].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cse::{Budget, emit};
    use super::super::{Address, Count, Linear, Simd, Storage, VectorBinary, Width};
    use super::*;
    use crate::vector::EntryId;
    use crate::vector::numbering::MemRef;
    use tvmtune_ir::target::Isa;

    /// Statements of a block, written down: `r0 = 0`, `r0 = t1`, `r0 += t1`, `t2 = r0`, `t2 = r0 + t1`; the
    /// same of some lanes, `r0 = 0 if r1`; and of strided ones, `t2 = r0 strided`.
    struct Block {
        graph: ValueGraph,
        interned: Interned,
        stmts: Vec<(PendingStmt, String)>,
    }

    impl Block {
        fn new(text: &str) -> Self {
            let graph = ValueGraph::new(Simd { isa: Isa::Avx2, width: Width::Bits32 });
            let mut block = Self { graph, interned: Interned::default(), stmts: Vec::new() };
            for stmt in text.split("; ") {
                let parsed = block.stmt(&stmt.split(' ').collect::<Vec<_>>());
                block.stmts.push((parsed, stmt.to_owned()));
            }
            block
        }

        fn reg(&mut self, name: &str) -> ValueId {
            self.graph.node(Op::Reg(Reg(number(name)), 0))
        }

        fn load(&mut self, name: &str) -> ValueId {
            let base = Base::Table(EntryId(number(name)));
            let address = self.interned.addresses.id(Address { base, offset: Linear::default() });
            let (storage, mask) = (Storage::Word, MaskRef::All);
            let place = MemRef { address, storage, mask, epoch: 0 };
            self.graph.node(Op::Load(place, LaneStride::Contiguous))
        }

        fn stmt(&mut self, parts: &[&str]) -> PendingStmt {
            let (parts, mask, lanes) = match parts {
                [parts @ .., "if", reg] => (parts, MaskRef::Where(self.reg(reg)), None),
                [parts @ .., "strided"] => (parts, MaskRef::All, Some(Count::Const(64))),
                parts => (parts, MaskRef::All, None),
            };
            let [to, op, terms @ ..] = parts else { panic!("{parts:?} is not expected") };
            let mut terms: Vec<ValueId> = terms
                .iter()
                .filter(|it| **it != "+")
                .map(|it| match it.chars().next() {
                    Some('r') => self.reg(it),
                    Some('t') => self.load(it),
                    _ => self.graph.node(Op::Splat(0)),
                })
                .collect();
            if *op == "+=" {
                terms.insert(0, self.reg(to));
            }
            let add = |a, b| self.graph.node(Op::Binary(VectorBinary::AddF, a, b));
            let value = terms.into_iter().reduce(add).unwrap();
            if to.starts_with('r') {
                return PendingStmt::Set { reg: Reg(number(to)), value, mask };
            }
            let base = Base::Table(EntryId(number(to)));
            let address = self.interned.addresses.id(Address { base, offset: Linear::default() });
            let lanes = lanes.map_or(LaneStride::Contiguous, LaneStride::Strided);
            PendingStmt::Store { address, lanes, storage: Storage::Word, value, mask }
        }
    }

    fn number(name: &str) -> u32 {
        name[1..].parse().unwrap()
    }

    fn shortened(text: &str, live_after: &[u32]) -> (String, Vec<(usize, usize)>) {
        let Block { graph, interned, stmts } = Block::new(text);
        let mut pending: Vec<PendingStmt> = stmts.iter().map(|it| it.0).collect();
        shorten(&graph, &interned, &mut pending);
        let text = |it: &PendingStmt| {
            let found = stmts.iter().find(|(stmt, _)| format!("{stmt:?}") == format!("{it:?}"));
            found.unwrap().1.as_str()
        };
        let shown: Vec<&str> = pending.iter().map(text).collect();
        let live = live_after.iter().map(|it| Reg(*it)).collect();
        (shown.join("; "), of_block(&graph, &interned, &pending, &live))
    }

    #[test]
    fn accumulators_live_from_their_first_term_to_their_last() {
        let text = "r0 = 0; r1 = 0; r0 += t0; r0 += t1; r1 += t0; t2 = r0; t2 = r1";
        let (shown, live) = shortened(text, &[]);
        assert_eq!(shown, "r0 = 0; r0 += t0; r0 += t1; t2 = r0; r1 = 0; r1 += t0; t2 = r1");
        assert_eq!(live, [(0, 3), (4, 6)]);
    }

    #[test]
    fn stores_pass_no_access_to_their_memory() {
        for text in ["r0 += t0; r1 += t2; t2 = r0", "r0 += t0; t2 = r1; t2 = r0"] {
            assert_eq!(shortened(text, &[]).0, text);
        }
        let (shown, _) = shortened("r0 += t0; r1 += t1; t2 = r0", &[]);
        assert_eq!(shown, "r0 += t0; t2 = r0; r1 += t1");
    }

    #[test]
    fn registers_that_are_set_before_and_used_after_live_longer() {
        let (shown, live) = shortened("r1 = 0; t2 = r0; r1 += t0", &[1]);
        assert_eq!((shown.as_str(), live), ("t2 = r0; r1 = 0; r1 += t0", vec![(0, 0)]));
    }

    #[test]
    fn statements_stay_behind_what_their_lanes_and_their_memory_depend_on() {
        for text in [
            // The lanes of a store, or of an assignment.
            "r0 += t0; r1 = 0; t2 = r0 if r1",
            "r0 = 0 if r1; t3 = r0; r1 += t0",
            // The store reads an element that is written before.
            "r0 += t0; t1 = r1; t2 = r0 + t1",
            "r0 = 0; r0 = t1; t2 = r0",
            // Strided stores stand side by side.
            "r0 += t0; r1 += t1; t2 = r0 strided",
        ] {
            assert_eq!(shortened(text, &[]).0, text);
        }
        let (shown, _) = shortened("r0 = 0 if r1; r1 += t0; t2 = r0", &[]);
        assert_eq!(shown, "r0 = 0 if r1; t2 = r0; r1 += t0");
        let (shown, _) = shortened("r1 = 0; r2 += t0; t2 = r2 if r1", &[]);
        assert_eq!(shown, "r2 += t0; r1 = 0; t2 = r2 if r1");
    }

    #[test]
    fn registers_that_are_read_first_live_from_the_start() {
        assert_eq!(shortened("r1 = 0; t2 = r1; t3 = r0", &[]).1, [(0, 2), (0, 1)]);
        // Other lanes keep their values.
        assert_eq!(shortened("t2 = r1; r0 = 0 if r1; t3 = r0", &[]).1, [(0, 2), (0, 1)]);
    }

    #[test]
    fn operands_are_kept_where_registers_are_free() {
        let Block { graph, interned, stmts } =
            Block::new("t5 = r9; t1 = r0 + t0; t2 = r0 + t3; t4 = r2 + t0; t5 = r9");
        let pending: Vec<PendingStmt> = stmts.iter().map(|it| it.0).collect();
        // The fewest registers with which the operand is loaded once.
        let needed = |live_through: u32, live_within: &[(usize, usize)]| {
            let is_once = |registers: &u32| {
                let budget = Budget { registers: *registers, live_through, live_within };
                let (mut n, mut out) = (10, Vec::new());
                let mut new_reg = || {
                    n += 1;
                    Reg(n)
                };
                emit(&graph, &pending, &interned, budget, &mut new_reg, &mut out);
                format!("{out:?}").matches("EntryId(0)").count() == 1
            };
            (0..20).find(is_once).unwrap()
        };
        let alone = needed(0, &[]);
        assert_eq!(needed(2, &[]), alone + 2);
        for live in [(0, 1), (0, 4), (2, 2), (3, 4)] {
            assert_eq!(needed(0, &[live]), alone + 1, "{live:?}");
        }
        for live in [(0, 0), (4, 4)] {
            assert_eq!(needed(0, &[live]), alone, "{live:?}");
        }
    }
}
