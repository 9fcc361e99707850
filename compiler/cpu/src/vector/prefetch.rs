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
//! An operand that is invariant in an inner loop is reused there. The prefetches of its next footprint are
//! spread over all inner iterations, so that memory and arithmetic are busy at the same time:
//!
//! ```text
//! pipelined:2 j { for i { for k { c[j, i] += a[i, k] * b[j, k] } } }
//!     =>   for j { for i { for k { c[j, i] += a[i, k] * b[j, k]; prefetch b[j + 1] at line K*i + k } } }
//! ```
//!
//! # Source
//!
//! Halide's `prefetch`; Mowry, Lam and Gupta, "Design and Evaluation of a Compiler Algorithm for
//! Prefetching" (1992).

use std::collections::BTreeSet;

use super::affine::{Affine, Coef, LANE};
use super::context::Lowering;
use super::cse::PendingStmt;
use super::tree::{Access, LoopMode, Node, Tree, Write};
use super::{Address, Base, PrefetchHint, Storage, Unsupported};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::VarId;

/// Size of a cache line, in bytes.
const LINE_BYTES: u64 = 64;
/// Bytes that an iteration reads from which the first-level cache, of 32 KiB or more, does not hold those
/// of the next as well.
const FIRST_LEVEL_BYTES: i64 = 16 << 10;

/// Lines that one iteration asks for, at most, beside those that it reads; chosen by judgement.
const MAX_LINES: i64 = 16;

/// Adds prefetches of the elements that a loop's body reads `iterations` later.
pub(super) fn insert(body: &mut [Node], tree: &Tree<'_>, var: VarId, iterations: i64) {
    let enclosing = Vec::new();
    let mut insertion = Insertion { tree, var, iterations, enclosing, prefetched: BTreeSet::new() };
    insertion.nodes(body);
}

struct Insertion<'a, 'n> {
    tree: &'a Tree<'n>,
    var: VarId,
    iterations: i64,
    /// The loops between the pipelined one and the current node, outermost first.
    enclosing: Vec<(VarId, LoopMode)>,
    prefetched: BTreeSet<TensorId>,
}

impl Insertion<'_, '_> {
    fn nodes(&mut self, nodes: &mut [Node]) {
        for node in nodes.iter_mut().rev() {
            match node {
                Node::Loop(it) => {
                    self.enclosing.push((it.var, it.kind));
                    self.nodes(&mut it.body);
                    self.enclosing.pop();
                }
                Node::If { body, .. } => self.nodes(body),
                Node::Write(write) => {
                    let later_reads = self.later_reads(write);
                    write.prefetches.extend(later_reads);
                }
            }
        }
    }

    /// Returns the elements of each tensor in memory to ask for where a statement reads it.
    fn later_reads(&mut self, write: &Write) -> Vec<(Access, PrefetchHint)> {
        let mut later_reads = Vec::new();
        write.value.for_each_read(&mut |access| {
            if self.tree.buffers[access.tensor.0 as usize].local || !access.gather.is_empty() {
                return;
            }
            let mut offset = access.offset.clone();
            let Some(step) = offset.coefficient(self.var).cloned() else { return };
            if self.prefetched.insert(access.tensor) {
                offset.add_scaled(&Affine::constant(self.iterations), &step);
                let later = Access { offset, ..access.clone() };
                let where_read = || vec![(later.clone(), PrefetchHint::Read)];
                later_reads.extend(self.spread(&later).unwrap_or_else(where_read));
            }
        });
        later_reads
    }

    /// Spreads the prefetches of an access that is invariant in a serial inner loop over all inner
    /// iterations: each prefetches the next few lines of the footprint. `None` if there is no such loop, if
    /// the footprint is not contiguous, or if the iterations are too few.
    fn spread(&self, later: &Access) -> Option<Vec<(Access, PrefetchHint)>> {
        let is_reuse = |var: &VarId| later.offset.coefficient(*var).is_none();
        let serial = |it: &&(VarId, LoopMode)| it.1 == LoopMode::Serial;
        let serial: Vec<VarId> = self.enclosing.iter().filter(serial).map(|it| it.0).collect();
        if !serial.iter().any(is_reuse) {
            return None;
        }
        let mut first = later.offset.clone();
        let mut dims = Vec::new();
        for (var, _) in &self.enclosing {
            if let Some(stride) = first.take(*var) {
                let Coef::Const(stride) = stride else { return None };
                dims.push((stride, self.tree.var(*var).extent.as_constant()?));
            }
        }
        dims.sort_unstable();
        let contiguous = dims.iter().try_fold(1, |n, it| (it.0 == n).then_some(n * it.1))?;
        let dtype = self.tree.buffers[later.tensor.0 as usize].dtype;
        let bytes = Storage::of(dtype, self.tree.simd.width)?.bytes();
        let per_line = LINE_BYTES as i64 / bytes;
        let mut lines = contiguous.unsigned_abs().div_ceil(per_line as u64) as i64;
        for var in serial {
            let n = self.tree.var(var).range.hi + 1;
            lines = (lines + n - 1) / n;
            first.add_term(var, Coef::Const(lines * per_line));
        }
        if lines > MAX_LINES {
            return None;
        }
        let fills_first_level = contiguous * bytes > FIRST_LEVEL_BYTES;
        let hint = if fills_first_level { PrefetchHint::ReadLater } else { PrefetchHint::Read };
        let line = |n: i64| {
            let mut offset = first.clone();
            offset.constant += n * per_line;
            (Access { offset, ..later.clone() }, hint)
        };
        Some((0..lines).map(line).collect())
    }
}

impl Lowering<'_> {
    /// Emits a prefetch of the cache line of an element or vector, once per block and line.
    pub(super) fn prefetch(
        &mut self,
        access: &Access,
        hint: PrefetchHint,
    ) -> Result<(), Unsupported> {
        let tensor = access.tensor;
        let dtype = self.tree.buffers[tensor.0 as usize].dtype;
        let Some(storage) = Storage::of(dtype, self.simd.width) else { return Ok(()) };
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
        self.push(PendingStmt::Prefetch { address, hint })
    }
}
