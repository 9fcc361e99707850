//! Conversions to 64 bits that are clamped to fewer: `(x as i64).clamp(0, 99)`.
//!
//! Minima and maxima keep the order of their operands. So a conversion that saturates at 32 bits instead of 64
//! gives the same result, if it is bounded by numbers of 32 bits: one word does where there would be two. Sums
//! stay: a sum with the greatest integer wraps.

use super::context::Lowering;
use super::numbering::ValueId;
use super::tree::{Term, TermKind};
use super::{Unsupported, VectorBinary};
use tvmtune_ir::dag::BinaryOp;

impl Lowering<'_> {
    /// Returns whether a number of 64 bits, of which one word is wanted, is made of conversions of floats by
    /// minima and maxima.
    pub(super) fn saturates(&self, term: &Term) -> bool {
        if !self.is_wide(term) && !self.has_wide_operand(term) {
            return true;
        }
        match &term.kind {
            TermKind::Cast(a) => a.dtype.is_float(),
            TermKind::Binary(BinaryOp::Min | BinaryOp::Max, a, b) => {
                self.saturates(a) && self.saturates(b)
            }
            _ => false,
        }
    }

    /// Lowers such a number, or an operand of it, saturated at 32 bits.
    pub(super) fn saturated(&mut self, term: &Term) -> Result<ValueId, Unsupported> {
        match &term.kind {
            _ if !self.is_wide(term) && !self.has_wide_operand(term) => self.term(term),
            TermKind::Cast(a) => {
                let value = self.term(a)?;
                Ok(self.graph().float_to_int(value))
            }
            TermKind::Binary(op, a, b) => {
                let [a, b] = [self.saturated(a)?, self.saturated(b)?];
                let is_least = *op == BinaryOp::Min;
                let op = if is_least { VectorBinary::MinI } else { VectorBinary::MaxI };
                Ok(self.graph().binary(op, a, b))
            }
            _ => Err(Unsupported::Range),
        }
    }
}
