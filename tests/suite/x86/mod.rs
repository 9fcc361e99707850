//! Machine code computes what the interpreter computes, bit for bit, and accesses no other memory.

mod abi;
mod generate;
pub(super) mod run;
mod schedules;
mod tile;

use proptest::prelude::*;
use tvmtune_cpu::vector::{Simd, Width};
use tvmtune_cpu::x86::RegisterFile;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::arbitrary::runner;

/// Checks random kernels of up to so many registers, assembled for a register file.
fn check(simd: Simd, cases: u32, max_regs: u32, file: RegisterFile) -> u64 {
    if !run::executes(simd.isa) {
        return 0;
    }
    let spills = std::cell::Cell::new(0);
    let tape = proptest::collection::vec(any::<u32>(), 0..300);
    let result = runner(cases).run(&tape, |tape| {
        let program = generate::program(&tape, simd, max_regs);
        match run::check(&program, file) {
            Ok(n) => spills.set(spills.get() + u64::from(n)),
            Err(error) => prop_assert!(false, "{error}\n{}", program.kernel),
        }
        Ok(())
    });
    result.unwrap();
    spills.get()
}

/// Checks random kernels in lanes of either width.
fn check_lanes(isa: Isa, cases: u32, max_regs: u32, file: RegisterFile) -> u64 {
    let widths = [Width::Bits32, Width::Bits64];
    widths.iter().map(|it| check(Simd { isa, width: *it }, cases, max_regs, file)).sum()
}

#[test]
fn random_kernels_for_avx512_compute_what_the_interpreter_does() {
    check_lanes(Isa::Avx512, 2000, 8, RegisterFile::of(Isa::Avx512));
}

#[test]
fn random_kernels_for_avx2_compute_what_the_interpreter_does() {
    check_lanes(Isa::Avx2, 2000, 8, RegisterFile::of(Isa::Avx2));
}

#[test]
fn random_kernels_that_run_out_of_registers_spill_and_stay_right() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        let nothing = RegisterFile { vectors: 4, masks: 0, ints: 0 };
        let little = RegisterFile { vectors: 5, masks: 1, ints: 3 };
        let spills = check_lanes(isa, 600, 24, nothing) + check_lanes(isa, 600, 24, little);
        assert!(!run::executes(isa) || spills > 200, "only {spills} spills");
    }
}
