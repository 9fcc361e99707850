//! Measures against register spills: partial unrolling of long copies, and launch bounds.
//!
//! A loop that a schedule unrolls is unrolled fully: its variable indexes registers, or unrolling
//! hides latency. A long copy is unrolled only in part: all of its addresses, computed ahead, take
//! more registers than there are.

use super::Printer;
use crate::grid::{MemoryScope, Stmt};
use tvmtune_ir::dag::{Expr, Subscript};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::Statement;

/// Longer loops are unrolled in part.
const LONG: i64 = 8;
/// The unroll factor of those.
const PART: i64 = 4;

/// Registers of a multiprocessor.
const REGISTERS: i64 = 65_536;
/// Registers of a thread beside its arrays.
const OTHERS: i64 = 56;

impl Printer<'_> {
    /// Returns the launch bounds: threads of a block and, where they keep tiles, the least blocks of a
    /// multiprocessor: left alone, the assembler spills a few registers for one block more.
    pub(super) fn bounds(&self) -> String {
        let threads = i64::from(self.kernel.block_threads());
        let arrays = self.used(|it| it == MemoryScope::Registers);
        let arrays: i64 = arrays.into_iter().map(|it| self.n_elements(it)).sum();
        let fragments = self.kernel.fragments.iter().map(|it| it.count * i64::from(it.registers));
        let needed = arrays + fragments.sum::<i64>() + OTHERS;
        match self.kernel.shared_bytes {
            // `setmaxnreg` redistributes the registers of one block, as many as these bounds allow: with
            // room for two blocks there are half of them, and a grant waits for ever.
            _ if self.kernel.redistributed_registers().is_some() => format!("{threads}, 1"),
            0 => threads.to_string(),
            _ if 2 * threads * needed <= REGISTERS => format!("{threads}, 2"),
            _ => format!("{threads}, 1"),
        }
    }

    /// Returns the unroll pragma of a loop; `None` if it stays a loop.
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

    /// Returns whether a statement only copies to memory, from memory or from registers that the variable
    /// does not index.
    fn only_copies(&self, stmt: &Stmt, var: VarId) -> bool {
        !stmt.any(&|it| match it {
            Stmt::Store { tensor, value, .. } => {
                self.in_registers(*tensor) || self.names_registers(value, var)
            }
            Stmt::For { .. } | Stmt::If { .. } | Stmt::CpAsync { .. } => false,
            _ => true,
        })
    }

    fn names_registers(&self, value: &Expr, var: VarId) -> bool {
        value.any(&mut |it| {
            let Expr::Read { tensor, index } = it else { return false };
            let mut affine = index.iter().filter_map(Subscript::affine);
            self.in_registers(*tensor) && affine.any(|it| it.mentions(var))
        })
    }
}
