//! Allocatable registers of each class.
//!
//! `rsp` is the frame; `rax`, `rdx`, `k6` and `k7` are the emitter's scratch registers.

use super::encode::{Gpr, RBP, RBX, RCX, RDI, RSI};
use tvmtune_ir::target::Isa;

/// Allocatable general registers, caller-saved ones first.
pub(super) const ALLOCATABLE_GPRS: [Gpr; 13] =
    [RCX, RSI, RDI, Gpr(8), Gpr(9), Gpr(10), Gpr(11), RBX, RBP, Gpr(12), Gpr(13), Gpr(14), Gpr(15)];

pub(super) const N_CALLER_SAVED: usize = 7;

/// The number of allocatable registers of each class.
#[derive(Clone, Copy, Debug)]
pub struct RegisterFile {
    /// Vector registers; at least 4.
    pub vectors: usize,
    /// Mask registers, for AVX-512.
    pub masks: usize,
    /// General registers for addresses and counters.
    pub ints: usize,
}

impl RegisterFile {
    /// Returns all registers of an instruction set that are not reserved.
    pub fn of(isa: Isa) -> Self {
        Self {
            vectors: isa.registers() as usize,
            masks: ALLOCATABLE_MASKS.len(),
            ints: ALLOCATABLE_GPRS.len(),
        }
    }
}

/// Allocatable mask registers: `k0` encodes no mask, `k6` and `k7` are reserved.
pub(super) const ALLOCATABLE_MASKS: [u8; 5] = [1, 2, 3, 4, 5];
