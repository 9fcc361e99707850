//! What keeps registers from being spilled: how far long copies are written out, and how many blocks
//! share the registers of a multiprocessor.
//!
//! A loop that a schedule unrolls is written out as a whole: its variable says which register is
//! meant, or arithmetic waits for less. But of a long copy only a part is: all its addresses, kept
//! for the next one, take more registers than there are.

use super::Printer;
use crate::grid::{LoopKind, MemoryScope, Stmt};
use tvmtune_ir::dag::{Expr, Subscript};
use tvmtune_ir::poly::{Poly, VarId};

/// Longer loops are written out in part.
const LONG: i64 = 8;
/// Iterations one after the other, of a loop written out in part.
const PART: i64 = 4;

/// Registers of a multiprocessor.
const REGISTERS: i64 = 65_536;
/// Registers of a thread beside its arrays.
const OTHERS: i64 = 56;

impl Printer<'_> {
    /// How many threads a block has; and, where they keep tiles, how many blocks are enough for a
    /// multiprocessor: left alone, the assembler spills a few registers for one block more.
    pub(super) fn bounds(&self) -> String {
        let threads = i64::from(self.kernel.block_threads());
        let arrays = self.used(|it| it == MemoryScope::Registers);
        let arrays: i64 = arrays.into_iter().map(|it| self.n_elements(it)).sum();
        let fragments = self.kernel.fragments.iter().map(|it| it.count * i64::from(it.registers));
        let needed = arrays + fragments.sum::<i64>() + OTHERS;
        match self.kernel.shared_bytes {
            0 => threads.to_string(),
            _ if 2 * threads * needed <= REGISTERS => format!("{threads}, 2"),
            _ => format!("{threads}, 1"),
        }
    }

    /// What says before a loop how far to write it out; `None` if it stays a loop.
    pub(super) fn pragma(
        &self,
        var: VarId,
        extent: &Poly,
        kind: LoopKind,
        body: &[Stmt],
    ) -> Option<String> {
        let is_long = extent.as_constant().is_none_or(|it| it > LONG);
        match kind {
            LoopKind::Serial => None,
            LoopKind::Unrolled if is_long && body.iter().all(|it| self.only_copies(it, var)) => {
                Some(format!("#pragma unroll {PART}"))
            }
            _ => Some("#pragma unroll".to_owned()),
        }
    }

    /// Whether a statement does nothing but store to memory what it reads of other memory, or of
    /// registers that the variable does not tell apart.
    fn only_copies(&self, stmt: &Stmt, var: VarId) -> bool {
        let mut only = true;
        stmt.walk(&mut |it| match it {
            Stmt::Store { tensor, value, .. } => {
                only &= !self.in_registers(*tensor) && !self.names_registers(value, var);
            }
            Stmt::For { .. } | Stmt::If { .. } | Stmt::CpAsync { .. } => {}
            _ => only = false,
        });
        only
    }

    fn names_registers(&self, value: &Expr, var: VarId) -> bool {
        let mut found = false;
        value.walk(&mut |it| {
            if let Expr::Read { tensor, index } = it {
                found |= self.in_registers(*tensor) && mentions(index, var);
            }
        });
        found
    }
}

fn mentions(index: &[Subscript], var: VarId) -> bool {
    index.iter().any(|it| matches!(it, Subscript::Affine(at) if at.mentions(var)))
}
