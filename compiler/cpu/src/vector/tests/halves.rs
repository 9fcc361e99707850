//! Products of integers of 16 bits, against the interpreter of programs.

use super::text::{kernel, program};
use super::words::{check_program, vectorized};
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;

const N: u64 = 70;

/// All kinds of numbers of a type, its ends among them.
fn numbers(dtype: DType, step: i64) -> Array {
    let range = tvmtune_ir::dag::integer_range(dtype);
    let extent = (range.hi - range.lo).saturating_add(1);
    Array::from_fn(dtype, &[N], |n| {
        Number::Int(match n {
            0..4 => range.lo,
            4..8 => range.hi,
            _ => range.lo + (n as i64 * step).rem_euclid(extent),
        })
    })
}

fn check([a, b]: [DType; 2], product: &str, is_of_halves: bool) {
    let text = format!(
        "#[autotune(dims(N = {N}))]
         fn f(a: Tensor<{a}, N>, b: Tensor<{b}, N>) -> Tensor<i32, N> {{ compute(|i| {product}) }}"
    );
    for reversed in [false, true] {
        let mut right = numbers(b, 89);
        if reversed {
            right = Array::from_fn(b, &[N], |n| right.get(N as usize - 1 - n));
        }
        check_program(&text, &[numbers(a, 37), right]);
    }
    let code = kernel(&vectorized(&program(&text), Isa::Avx2), Isa::Avx2).to_string();
    assert_eq!(code.contains("DotHalves"), is_of_halves, "{text}:\n{code}");
}

#[test]
fn products_of_narrow_integers_are_those_of_halves() {
    let narrow = [DType::I8, DType::U8];
    for types in narrow.map(|a| narrow.map(|b| [a, b])).concat() {
        check(types, "a[[i]] as i32 * b[[i]] as i32", true);
        check(types, "(a[[i]] as i32 - 128) * (b[[i]] as i32 * 127)", true);
        check(types, "(a[[i]] as i32 * 200) * (b[[i]] as i32)", types[0] == DType::I8);
        check(types, "a[[i]] as i32 * 3", false);
    }
    check([DType::I32, DType::I8], "a[[i]] * b[[i]] as i32", false);
    check([DType::I32, DType::I8], "a[[i]].clamp(-32768, 32767) * b[[i]] as i32", true);
    check([DType::I32, DType::U8], "a[[i]].clamp(-32768, 32768) * b[[i]] as i32", false);
}
