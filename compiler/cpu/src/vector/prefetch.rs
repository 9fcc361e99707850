//! Software prefetching: pipelined loops on a CPU prefetch the operands of a later iteration.
//!
//! ```text
//! pipelined:2 i { for j { e[j] = exp(x[i, j] - m) } }
//!     =>   for i { for j { e[j] = exp(x[i, j] - m); prefetch x[i + 1, j] } }
//! ```
//!
//! Hardware prefetchers follow one stream, and none across a page: a row that is reduced and then
//! read again stalls when it starts, and leaves memory idle while it is computed with. The last
//! statement that reads a tensor prefetches it, since earlier ones have stalled already.
//!
//! # Source
//!
//! Halide's `prefetch`; Mowry, Lam and Gupta, "Design and Evaluation of a Compiler Algorithm for
//! Prefetching" (1992).

use std::collections::BTreeSet;

use super::affine::{Affine, Coef, LANE};
use super::context::Lowering;
use super::cse::PendingStmt;
use super::tree::{Access, Node, Tree, Write};
use super::{Address, Base, Storage, Unsupported};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::VarId;

/// Size of a cache line, in bytes.
const LINE_BYTES: u64 = 64;

/// Adds prefetches of the elements that a loop's body reads `iterations` later.
pub(super) fn insert(body: &mut [Node], tree: &Tree<'_>, var: VarId, iterations: i64) {
    let mut insertion = Insertion { tree, var, iterations, prefetched: BTreeSet::new() };
    insertion.nodes(body);
}

struct Insertion<'a, 'n> {
    tree: &'a Tree<'n>,
    var: VarId,
    iterations: i64,
    prefetched: BTreeSet<TensorId>,
}

impl Insertion<'_, '_> {
    fn nodes(&mut self, nodes: &mut [Node]) {
        for node in nodes.iter_mut().rev() {
            match node {
                Node::Loop(it) => self.nodes(&mut it.body),
                Node::If { body, .. } => self.nodes(body),
                Node::Write(write) => {
                    let later_reads = self.later_reads(write);
                    write.prefetches.extend(later_reads);
                }
            }
        }
    }

    /// Returns the element of each tensor in memory that a statement reads in the later iteration.
    fn later_reads(&mut self, write: &Write) -> Vec<Access> {
        let mut later_reads = Vec::new();
        write.value.for_each_read(&mut |access| {
            if self.tree.buffers[access.tensor.0 as usize].local || !access.gather.is_empty() {
                return;
            }
            let mut offset = access.offset.clone();
            let Some(step) = offset.coefficient(self.var).cloned() else { return };
            if self.prefetched.insert(access.tensor) {
                offset.add_scaled(&Affine::constant(self.iterations), &step);
                later_reads.push(Access { offset, ..access.clone() });
            }
        });
        later_reads
    }
}

impl Lowering<'_> {
    /// Emits a prefetch of the cache line of an element or vector, once per block and line.
    pub(super) fn prefetch(&mut self, access: &Access) -> Result<(), Unsupported> {
        let tensor = access.tensor;
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let storage = Storage::of(dtype).ok_or(Unsupported::Type(dtype))?;
        let mut offset = self.eval(&access.offset)?;
        let in_row = matches!(offset.take(LANE), None | Some(Coef::Const(1)));
        let (true, Some(entry)) = (in_row, self.table.pointer(tensor)) else { return Ok(()) };
        let offset = self.table.linear(&offset.scaled(storage.bytes()));
        let address = Address { base: Base::Table(entry), offset };
        let is_near = |it: &Address| {
            let apart = it.offset.constant.abs_diff(address.offset.constant);
            let mut moved = it.clone();
            moved.offset.constant = address.offset.constant;
            moved == address && apart < LINE_BYTES
        };
        if self.block().prefetched.iter().any(is_near) {
            return Ok(());
        }
        self.block().prefetched.push(address.clone());
        let address = self.interned.addresses.id(address);
        self.push(PendingStmt::Prefetch { address })
    }
}
