//! Pipelined loops on a CPU: while an iteration runs, memory is asked for what a later one reads.
//!
//! ```text
//! pipelined:2 i { for j { e[j] = exp(x[i, j] - m) } }
//!     =>   for i { for j { e[j] = exp(x[i, j] - m); prefetch x[i + 1, j] } }
//! ```
//!
//! Hardware foresees one stream of addresses at a time, and none across the end of a page: a row
//! that is reduced, then used again, waits for memory when it starts, and leaves memory idle while
//! it is computed with. The last statement that reads a tensor is the one that asks, since what
//! stands before it has waited already.
//!
//! # Source
//!
//! Prefetches as part of a schedule: Halide's `prefetch`; where to put them: Mowry, Lam and Gupta,
//! "Design and Evaluation of a Compiler Algorithm for Prefetching" (1992).

use std::collections::BTreeSet;

use super::affine::{Affine, Coef, LANE};
use super::cse::Pending;
use super::scope::Lower;
use super::tree::{Access, Item, Tree, Write};
use super::{Address, Base, Storage, Unsupported};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::VarId;

/// Bytes that memory brings at once.
const LINE: u64 = 64;

/// Has the statements in a loop's body ask for what they read that many iterations later.
pub(super) fn ask_ahead(body: &mut [Item], tree: &Tree<'_>, var: VarId, iterations: i64) {
    let mut ask = Ask { tree, var, iterations, asked: BTreeSet::new() };
    ask.items(body);
}

struct Ask<'a, 'n> {
    tree: &'a Tree<'n>,
    var: VarId,
    iterations: i64,
    /// What statements further down ask for.
    asked: BTreeSet<TensorId>,
}

impl Ask<'_, '_> {
    fn items(&mut self, items: &mut [Item]) {
        for item in items.iter_mut().rev() {
            match item {
                Item::Loop(it) => self.items(&mut it.body),
                Item::If { body, .. } => self.items(body),
                Item::Write(write) => {
                    let ahead = self.ahead(write);
                    write.prefetches.extend(ahead);
                }
            }
        }
    }

    /// What a statement reads in a later iteration: of each tensor in memory, one element.
    fn ahead(&mut self, write: &Write) -> Vec<Access> {
        let mut ahead = Vec::new();
        write.for_each_read(&mut |access| {
            if self.tree.buffers[access.tensor.0 as usize].local || !access.gather.is_empty() {
                return;
            }
            let mut offset = access.offset.clone();
            let Some(step) = offset.coefficient(self.var).cloned() else { return };
            if self.asked.insert(access.tensor) {
                offset.add_scaled(&Affine::constant(self.iterations), &step);
                ahead.push(Access { offset, ..access.clone() });
            }
        });
        ahead
    }
}

impl Lower<'_> {
    /// Asks for the lines of an element, or of a vector of them; not again for one that the block
    /// has asked for.
    pub(super) fn prefetch(&mut self, access: &Access) -> Result<(), Unsupported> {
        let tensor = access.tensor;
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let storage = Storage::of(dtype).ok_or(Unsupported::Type(dtype))?;
        let mut offset = self.eval(&access.offset)?;
        let in_row = matches!(offset.take(LANE), None | Some(Coef::Const(1)));
        let (true, Some(slot)) = (in_row, self.table.pointer(tensor)) else { return Ok(()) };
        let offset = self.table.linear(&offset.scaled(storage.bytes()));
        let address = Address { base: Base::Table(slot), offset };
        let is_near = |it: &Address| {
            let apart = it.offset.constant.abs_diff(address.offset.constant);
            let mut moved = it.clone();
            moved.offset.constant = address.offset.constant;
            moved == address && apart < LINE
        };
        if self.block().prefetched.iter().any(is_near) {
            return Ok(());
        }
        self.block().prefetched.push(address.clone());
        let address = self.interned.address(address);
        self.push(Pending::Prefetch { address })
    }
}
