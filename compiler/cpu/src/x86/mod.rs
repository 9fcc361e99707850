//! Step 6 of 12, for x86-64: vector code to machine code.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> vector code -> [codegen] -> compile -> measure -> ...
//! ```
//!
//! In: a [`VectorCode`]. Out: [`MachineCode`], a blob of bytes for each phase. Next: the worker maps
//! the blobs to measure them, and the macro embeds the same blobs.
//!
//! Passes: `induction` reduces the strength of addresses, `select` selects instructions (`inst`),
//! `liveness` and `regalloc` allocate `registers` by linear scan, `sink` and `spill` make room where they
//! do not suffice, and `emit` writes bytes through `encode` and the table in `opcode`.
//!
//! # What a blob is
//!
//! A function `extern "sysv64" fn(table: *const u64, scratch: *mut u8, first: u64, end: u64)`
//! that runs tasks `first..end` of its phase, entered at its first byte. It is independent of its
//! position, makes no calls, keeps the caller's registers, and its constants follow its code.
//! Aligned to 64 bytes it runs fastest.
//!
//! # Invariants
//!
//! - All vector code assembles: registers that do not fit are spilled.
//! - No instruction inside a loop is reordered, merged or dropped: [`crate::vector`] decides the mix.
//!   Strided accesses that it puts side by side become a transposition, and stores of bytes side by side one of
//!   a whole vector.
//! - Memory of lanes that are masked off is not touched, but for words between two active lanes of a load whose
//!   elements are a few words apart, which are elements of the same tensor.

mod emit;
mod encode;
mod induction;
mod inst;
mod lane_ops;
mod liveness;
mod opcode;
mod regalloc;
mod registers;
mod select;
mod sink;
mod spill;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_int;
#[cfg(test)]
mod tests_machine;
#[cfg(test)]
mod tests_strided;

use crate::vector::VectorCode;
pub use registers::RegisterFile;

/// Machine code. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineCode {
    /// A blob for each phase, in order.
    pub phases: Vec<Vec<u8>>,
    /// Number of vector intervals that were spilled; many indicate a bad schedule.
    pub spills: u32,
}

/// Assembles vector code.
pub fn assemble(kernel: &VectorCode) -> MachineCode {
    assemble_in(kernel, RegisterFile::of(kernel.isa))
}

/// Assembles vector code with a smaller register file, for tests of spilling.
pub fn assemble_in(kernel: &VectorCode, file: RegisterFile) -> MachineCode {
    let mut result = MachineCode { phases: Vec::new(), spills: 0 };
    for phase in &kernel.phases {
        let mut asm = encode::Assembler::default();
        let mut code = select::select(kernel, phase, &mut asm.constants);
        let assignment = regalloc::allocate(&mut code, file, kernel.isa.lanes() * 4);
        emit::emit(&mut asm, &code, &assignment, kernel.simd());
        result.spills += assignment.spills;
        result.phases.push(asm.finish());
    }
    result
}
