//! Step 6 of 12, for x86-64: a kernel to machine code.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> kernel -> [codegen] -> compile -> measure -> ...
//! ```
//!
//! In: a [`Kernel`]. Out: [`MachineCode`], a blob of bytes for each phase. Next: the worker maps
//! the blobs to measure them, and the macro embeds the same blobs.
//!
//! Walk: `address.rs` plans which addresses are kept in registers, `select` makes instructions of
//! statements (`inst.rs` has their data), `liveness.rs` and `regalloc.rs` give them registers,
//! `spill.rs` helps where those run out, and `emit` writes bytes through `encode.rs` and the table
//! in `opcode.rs`.
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
//! - Every kernel assembles: what does not fit registers goes to the stack.
//! - No instruction is reordered, merged or dropped: the mix was decided in [`crate::kernel`].
//! - Memory of lanes that are masked off is not touched.

mod address;
mod emit;
mod encode;
mod inst;
mod liveness;
mod opcode;
mod regalloc;
mod registers;
mod select;
mod spill;
mod stack;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_int;

use crate::kernel::Kernel;
pub use registers::RegisterFile;

/// The code of a kernel. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineCode {
    /// A blob for each phase of the kernel, in order.
    pub phases: Vec<Vec<u8>>,
    /// How many times a vector had to move to the stack for want of registers. A schedule that
    /// causes many is not a good one.
    pub spills: u32,
}

/// Assembles a kernel.
pub fn assemble(kernel: &Kernel) -> MachineCode {
    assemble_in(kernel, RegisterFile::of(kernel.isa))
}

/// Assembles a kernel with fewer registers than there are: for tests of what happens then.
pub fn assemble_in(kernel: &Kernel, file: RegisterFile) -> MachineCode {
    let mut result = MachineCode { phases: Vec::new(), spills: 0 };
    for phase in &kernel.phases {
        let mut asm = encode::Assembler::default();
        let mut code = select::select(kernel, phase, &mut asm.constants);
        let assignment = regalloc::allocate(&mut code, file, kernel.isa.lanes() * 4);
        emit::emit(&mut asm, &code, &assignment, kernel.isa);
        result.spills += assignment.spills;
        result.phases.push(asm.finish());
    }
    result
}
