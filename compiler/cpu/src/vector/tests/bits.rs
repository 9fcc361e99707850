//! Operations on the bits of integers of each type, against the interpreter of programs.

use super::text::{A, kernel, program};
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

const N: u64 = 70;

/// Bit patterns, small numbers, and the ends of the type.
fn numbers(dtype: DType, seed: u32) -> Array {
    Array::from_fn(dtype, &[N], |n| {
        let bits = (n as u32 + 1).wrapping_mul(seed);
        let value = match n % 4 {
            0 => i64::from(bits % 40),
            1 => -i64::from(bits % 9),
            2 => i64::from(bits.cast_signed()),
            _ => i64::from(bits >> 31) << 31,
        };
        Number::Int(value).cast(dtype)
    })
}

fn check(dtype: DType, definition: &str) {
    let dag = program(&format!(
        "#[autotune(dims(N = {N}))]
         fn f(a: Tensor<{dtype}, N>, b: Tensor<{dtype}, N>) -> Tensor<{dtype}, N> {{
             compute(|i| {definition})
         }}"
    ));
    let arrays = [numbers(dtype, 0x9e37_79b9), numbers(dtype, 0x85eb_ca6b)];
    let want = interp::run(&dag, &[], &arrays, &[]);
    for isa in [Isa::Avx2, Isa::Avx512] {
        let mut schedule = Schedule::new(&dag);
        let parts = schedule.split(StageId(0), A[0], &[isa.lanes().into()]).unwrap();
        schedule.annotate(StageId(0), parts[1], LoopKind::Vectorized).unwrap();
        let kernel = kernel(&schedule, isa);
        let got = crate::interp::run(&kernel, &[], &arrays, &[], &want).unwrap();
        assert_eq!(got, want, "{definition} of {dtype} on {isa:?}");
    }
}

#[test]
fn bits_of_every_type_are_those_of_the_program() {
    for dtype in [DType::I8, DType::U8, DType::I32, DType::U32] {
        for definition in [
            "a[[i]] & b[[i]]",
            "(a[[i]] | b[[i]]) ^ 5",
            "!a[[i]] ^ b[[i]]",
            "a[[i]] << b[[i]]",
            "a[[i]] >> b[[i]]",
            "(a[[i]] << 3) + (b[[i]] >> 2)",
            "(a[[i]] >> 7) & (3 << b[[i]])",
            "if (a[[i]] & 4) == 0 { !b[[i]] } else { a[[i]] >> 33 }",
        ] {
            check(dtype, definition);
        }
    }
}

#[test]
fn long_integers_that_fit_have_bits_in_lanes() {
    let dag = program(
        "#[autotune(dims(N = 70))]
         fn f(a: Tensor<i32, N>, x: Tensor<i32, 16>) -> Tensor<i32, N> {
             compute(|i| x[[a[[i]] as i64 & 0xf]])
         }",
    );
    let table = Array::from_fn(DType::I32, &[16], |n| Number::Int(7 * n as i64));
    let arrays = [numbers(DType::I32, 0x9e37_79b9), table];
    let want = interp::run(&dag, &[], &arrays, &[]);
    let mut schedule = Schedule::new(&dag);
    let parts = schedule.split(StageId(0), A[0], &[8]).unwrap();
    schedule.annotate(StageId(0), parts[1], LoopKind::Vectorized).unwrap();
    let kernel = kernel(&schedule, Isa::Avx2);
    assert_eq!(crate::interp::run(&kernel, &[], &arrays, &[], &want).unwrap(), want);
}
