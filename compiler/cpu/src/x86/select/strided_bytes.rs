//! Selection of loads whose elements are a few bytes apart: contiguous loads, whose bytes are shuffled to their
//! lanes.
//!
//! ```text
//! x[3 * n]  =>   a = bytes of x[0..16], b = of x[16..32], c = of x[30..46]
//!                r = bytes 0, 3, .. 15 of a | bytes 18, 21, .. 30 of b | bytes 33, 36, .. 45 of c
//! ```
//!
//! The last load ends with the last element, so that nothing behind it is read. Bytes between two active elements
//! are in bounds.

use super::super::encode::Width;
use super::super::induction::BytesApart;
use super::super::inst::{MemOperand, Operand, VirtReg};
use super::super::opcode;
use super::Selector;

/// Bytes of a vector in which each one can be shuffled to any place.
const N_BYTES: u32 = 16;
/// The control of a byte that becomes 0.
const CLEARED: u32 = 0x80;

impl Selector<'_> {
    /// Loads elements of one byte that are some bytes apart into the low bytes of a vector, one after the other,
    /// 0 where lanes are not active.
    pub(super) fn load_bytes_apart(&mut self, first: MemOperand, bytes: BytesApart) -> VirtReg {
        let BytesApart { step, active, first: first_lane, span } = bytes;
        let (op, loaded) = match span {
            N_BYTES.. => (opcode::MOVUPS, N_BYTES),
            _ => (opcode::MOVQ, N_BYTES / 2),
        };
        let n_parts = span.div_ceil(loaded);
        let mut result: Option<VirtReg> = None;
        for n in 0..n_parts {
            let start = (n * loaded).min(span - loaded);
            let control = |lane: u32| {
                let is_active = lane < u16::BITS && active >> lane & 1 == 1;
                let at = lane.checked_sub(first_lane).filter(|_| is_active).map(|it| step * it);
                at.filter(|it| it / loaded == n).map_or(CLEARED, |it| it - start)
            };
            let words: Vec<u32> = (0..N_BYTES / 4)
                .map(|word| (0..4).map(|byte| control(4 * word + byte) << (8 * byte)).sum())
                .collect();
            let place =
                MemOperand { disp: first.disp + (step * first_lane + start) as i32, ..first };
            let part = self.byte_inst(op, None, Operand::Mem(place), Width::W128);
            let control = Operand::Mem(MemOperand::pool(self.constants.intern(&words)));
            let picked = self.byte_inst(opcode::PSHUFB, Some(part), control, Width::W128);
            result = Some(match result {
                None => picked,
                Some(before) => {
                    let picked = Operand::Reg(picked);
                    self.byte_inst(opcode::POR, Some(before), picked, Width::W128)
                }
            });
        }
        result.expect("an active lane has a part")
    }
}
