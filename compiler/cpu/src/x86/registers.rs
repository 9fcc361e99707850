//! Allocatable registers of each class, and those that the emitter keeps for itself.
//!
//! `rsp` is the frame; `rax`, `rdx`, `k6` and `k7` are the emitter's scratch registers.

use super::encode::{Gpr, RBP, RBX, RCX, RDI, RSI};
use tvmtune_ir::target::Isa;

/// General registers to be had; those that belong to the caller come last.
pub(super) const INTS: [Gpr; 13] =
    [RCX, RSI, RDI, Gpr(8), Gpr(9), Gpr(10), Gpr(11), RBX, RBP, Gpr(12), Gpr(13), Gpr(14), Gpr(15)];

/// How many of [`INTS`] a function may change.
pub(super) const N_CALLER_SAVED: usize = 7;

/// How many registers of each class there are to be had.
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
    /// All that the instruction set has, but for those that code generation needs itself.
    pub fn of(isa: Isa) -> Self {
        Self { vectors: isa.registers() as usize, masks: MASKS.len(), ints: INTS.len() }
    }
}

/// Mask registers to be had: `k0` means no mask, and two are the emitter's.
pub(super) const MASKS: [u8; 5] = [1, 2, 3, 4, 5];
