//! Lanes of 64 bits, against the interpreter of programs.

use super::text::{kernel, program};
use super::words::{N, check_program, numbers, vectorized};
use crate::vector::{Unsupported, Width, lower};
use tvmtune_ir::dag::{BinaryOp, DType, Number, UnaryOp};
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Schedule, nest};

/// Floats of all sizes, special ones, and halves of integers.
fn floats(dtype: DType, seed: u64) -> Array {
    const SPECIAL: [f64; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        9.3e18,
        -9.3e18,
        2_147_483_648.0,
        1e-310,
        4_294_967_295.5,
    ];
    Array::from_fn(dtype, &[N], |n| {
        let bits = (n as u64 + 1).wrapping_mul(seed);
        let number = (bits >> 40) as f64 - f64::from(1 << 23);
        Number::Float(match n % 4 {
            0 => SPECIAL[(bits >> 33) as usize % SPECIAL.len()],
            1 => number / 2.0,
            2 => number * 1e12 + 0.25,
            _ => number / 3e4,
        })
    })
}

const SEEDS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// Checks a definition of `y` by `a` and `b` of a type.
fn check(dtype: DType, result: DType, definition: &str) {
    let text = format!(
        "#[autotune(dims(N = {N}))]
         fn f(a: Tensor<{dtype}, N>, b: Tensor<{dtype}, N>) -> Tensor<{result}, N> {{ compute(|i| {definition}) }}"
    );
    let arrays = SEEDS.map(|seed| match dtype.is_float() {
        true => floats(dtype, seed),
        false => numbers(seed),
    });
    for isa in [Isa::Avx2, Isa::Avx512] {
        let kernel = kernel(&vectorized(&program(&text), isa), isa);
        assert_eq!(kernel.width, Width::Bits64, "{definition}");
    }
    check_program(&text, &arrays);
}

#[test]
fn doubles_are_added_multiplied_chosen_and_rounded() {
    for definition in [
        "a[[i]] + b[[i]]",
        "a[[i]] - 0.1 * b[[i]]",
        "a[[i]] / b[[i]]",
        "-a[[N - 1 - i]].abs()",
        "a[[i]].abs().sqrt()",
        "rsqrt(b[[i]].abs())",
        "a[[i]].floor() + b[[i]].ceil() - a[[i]].round()",
        "a[[i]].min(b[[i]])",
        "max(a[[i]], b[[i]])",
        "a[[i]].clamp(-7.0, 40.0)",
        "if a[[i]] < b[[i]] { a[[i]] } else { 3.0 }",
        "a.get([i + 5]).unwrap_or(-3.0)",
        "i as f64 * 0.5",
    ] {
        check(DType::F64, DType::F64, definition);
    }
}

#[test]
fn singles_in_lanes_of_doubles_keep_their_digits() {
    for definition in [
        "(a[[i]] as f32 + b[[i]] as f32) as f64",
        "(a[[i]] as f32 * b[[i]] as f32) as f64 + a[[i]]",
        "((a[[i]] as f32).abs().sqrt() / 3.0) as f64",
        "rsqrt((a[[i]] as f32).abs()) as f64",
        "((i as f32) * 0.1) as f64",
    ] {
        check(DType::F64, DType::F64, definition);
    }
    check(DType::F64, DType::F32, "a[[i]] as f32");
    check(DType::F64, DType::F32, "(a[[i]] as f32) + 1.0");
}

#[test]
fn doubles_become_integers_and_these_doubles() {
    for dtype in [DType::I64, DType::I32, DType::U32, DType::I8, DType::U8] {
        check(DType::F64, dtype, &format!("a[[i]] as {dtype}"));
        check(DType::F64, DType::F64, &format!("(a[[i]] as {dtype}) as f64"));
    }
    check(DType::F64, DType::I64, "(if a[[i]] > b[[i]] { 3_i64 } else { -3 }) * (a[[i]] as i64)");
    check(DType::I64, DType::F64, "a[[i]] as f64");
    check(DType::I64, DType::F32, "(a[[i]] * 3) as f32");
    check(DType::I64, DType::F32, "((a[[i]] * b[[i]]) as f32) * 0.5 + (b[[i]] as f32)");
    check(DType::I64, DType::F64, "((a[[i]] % 1000) as i32) as f64 * 0.5");
}

#[test]
fn long_integers_are_multiplied_shifted_and_divided() {
    for definition in [
        "a[[i]] * b[[i]]",
        "a[[i]] * 3 + b[[i]].min(a[[i]])",
        "(a[[i]] << 7) ^ (b[[i]] >> 3)",
        "(a[[i]] * b[[i]]) >> (i as i64)",
        "(a[[i]] >> 20) / 7 + (b[[i]] >> 30) % 13",
        "((a[[i]] as i32) / (b[[i]] as i32)) as i64 * a[[i]]",
        "((a[[i]] as i32) % (i as i32 - 3)) as i64 * a[[i]]",
        "((a[[i]] as u32) / (b[[i]] as u32)) as i64 * a[[i]]",
        "a[[i]] / b[[i]]",
        "a[[i]] % b[[i]]",
        "a[[i]] / (i as i64 - 3) + a[[i]] % (b[[i]] >> 40)",
        "((a[[i]] as u8) * (b[[i]] as u8)) as i64 * b[[i]]",
        "((a[[i]] as i8) << 3) as i64 * b[[i]]",
    ] {
        check(DType::I64, DType::I64, definition);
    }
}

#[test]
fn long_numbers_are_reduced() {
    let (m, k) = (5, 37);
    for (dtype, reduction) in [
        ("i64", "sum(0..K, |k| x[[i, k]])"),
        ("i64", "prod(0..K, |k| x[[i, k]])"),
        ("i64", "max(0..K, |k| x[[i, k]])"),
        ("i64", "min(0..K, |k| x[[i, k]] - k as i64)"),
        ("f64", "sum(0..K, |k| x[[i, k]])"),
        ("f64", "sum(0..K, |k| x[[i, k]] * x[[0, k]])"),
        ("f64", "max(0..K, |k| x[[i, k]])"),
    ] {
        let text = format!(
            "#[autotune(dims(M = {m}, K = {k}))]
             fn f(x: Tensor<{dtype}, M, K>) -> Tensor<{dtype}, M> {{ compute(|i| {reduction}) }}"
        );
        let dtype = if dtype == "i64" { DType::I64 } else { DType::F64 };
        let x = Array::from_fn(dtype, &[m, k], |n| {
            let small = (n * 37 % 101) as i64 - 50;
            match dtype {
                DType::I64 => Number::Int(small * 0x1_0000_0001),
                _ => Number::Float(small as f64),
            }
        });
        check_program(&text, &[x]);
    }
}

#[test]
fn elements_are_looked_up_in_lanes_of_64_bits() {
    let table = Array::from_fn(DType::F64, &[23, 9], |n| Number::Float(n as f64 / 4.0));
    let ids = Array::from_fn(DType::I64, &[N], |n| Number::Int((n * 7 % 23) as i64));
    for (shape, definition) in [
        ("N", "|i| t.get([ids[[i]], i % 9]).unwrap_or(0.0) * 2.0"),
        ("N, 9", "|i, j| t.get([ids[[i]], j]).unwrap_or(0.0) + 0.5"),
    ] {
        let text = format!(
            "#[autotune(dims(N = {N}))]
             fn f(ids: Tensor<i64, N>, t: Tensor<f64, 23, 9>) -> Tensor<f64, {shape}> {{ compute({definition}) }}"
        );
        check_program(&text, &[ids.clone(), table.clone()]);
    }
}

#[test]
fn functions_of_doubles_are_close() {
    let functions = ["exp", "exp2", "exp_m1", "ln", "ln_1p", "log2", "tanh", "erf", "sin", "cos"];
    for function in functions {
        let text = format!(
            "#[autotune(dims(N = {N}))]
             fn f(a: Tensor<f64, N>) -> Tensor<f64, N> {{ compute(|i| a[[i]].{function}()) }}"
        );
        let dag = program(&text);
        // Some lanes have large angles.
        let size = |n: usize| if n.is_multiple_of(11) { 1e30 } else { 0.37 };
        let x = Array::from_fn(DType::F64, &[N], |n| Number::Float((n as f64 - 20.0) * size(n)));
        let want = interp::run(&dag, &[], std::slice::from_ref(&x), &[]);
        for isa in [Isa::Avx2, Isa::Avx512] {
            let kernel = kernel(&vectorized(&dag, isa), isa);
            let got =
                crate::interp::run(&kernel, &[], std::slice::from_ref(&x), &[], &want).unwrap();
            for n in 0..N as usize {
                let [got, want] = [&got[0], &want[0]].map(|it| it.get(n).to_f64());
                let is_close = got == want
                    || got.is_nan() && want.is_nan()
                    || (got - want).abs() <= 1e-15 * want.abs();
                assert!(is_close, "{function}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn what_lanes_of_64_bits_do_not_have_is_left_to_portable_code() {
    let refused = |options: &str, definition: &str| {
        let dag = program(&format!(
            "#[autotune(dims(N = 16){options})]
             fn f(a: Tensor<f64, N>, b: Tensor<i64, N>) -> Tensor<f64, N> {{ compute(|i| {definition}) }}"
        ));
        let nest = nest::lower_for_lanes(&Schedule::new(&dag));
        lower(&nest, Isa::Avx2).expect_err("left to portable code")
    };
    assert_eq!(refused("", "pow(a[[i]], 0.3)"), Unsupported::Operation(BinaryOp::Pow));
    let fixed = ", numerics = \"fixed\"";
    assert_eq!(refused(fixed, "exp(a[[i]])"), Unsupported::Function(UnaryOp::Exp, DType::F64));
    let exp = Unsupported::Function(UnaryOp::Exp, DType::F32);
    assert_eq!(refused("", "exp(a[[i]] as f32) as f64"), exp);
}

#[test]
fn sums_of_doubles_have_the_order_and_the_roundings_that_a_program_fixes() {
    let text = "#[autotune(dims(M = 5, K = 70), numerics = \"fixed\")]
        fn f(x: Tensor<f64, M, K>, y: Tensor<f64, K>) -> Tensor<f64, M> {
            compute(|i| sum(0..K, |k| x[[i, k]] * y[[k]]))
        }";
    let dag = program(text);
    let tenths = |n: usize| Number::Float((n * 37 % 101) as f64 / 10.0 + 1.0 / (1.0 + n as f64));
    let x = Array::from_fn(DType::F64, &[5, 70], tenths);
    let y = Array::from_fn(DType::F64, &[70], tenths);
    let want = interp::run_in_order(&dag, &[], &[x.clone(), y.clone()], &[]);
    for isa in [Isa::Avx2, Isa::Avx512] {
        let kernel = lower(&nest::lower_for_lanes(&Schedule::new(&dag)), isa).unwrap();
        let arrays = [x.clone(), y.clone()];
        let got = crate::interp::run(&kernel, &[], &arrays, &[], &want).unwrap();
        assert_eq!(got, want, "{isa:?}");
    }
}

#[test]
fn sums_of_singles_beside_doubles_are_refused_where_bits_are_fixed() {
    let lowered = |options: &str| {
        let dag = program(&format!(
            "#[autotune(dims(M = 5, K = 3){options})]
             fn f(x: Tensor<f32, M, K>, y: Tensor<f64, M>) -> Tensor<f64, M> {{
                 compute(|i| sum(0..K, |k| x[[i, k]]) as f64 + y[[i]])
             }}"
        ));
        lower(&nest::lower_for_lanes(&Schedule::new(&dag)), Isa::Avx2).map(|it| it.width)
    };
    assert_eq!(lowered(""), Ok(Width::Bits64));
    assert_eq!(lowered(", numerics = \"fixed\""), Err(Unsupported::Type(DType::F32)));
}

#[test]
fn longs_are_rounded_to_singles_once() {
    // Halfway between two floats, and a little to either side, in every number of digits.
    let numbers = Array::from_fn(DType::I64, &[N], |n| {
        let (digits, digit) = (25 + (n as u32 / 2) % 38, n as i64 / 2 % 3 - 1);
        let half = (1_i64 << digits) + 3 * (1_i64 << (digits - 24));
        let number = half + digit * (1 + (n as i64 % 5) * i64::from(digits > 30));
        Number::Int(if n % 2 == 0 { number } else { -number })
    });
    let text = format!(
        "#[autotune(dims(N = {N}))]
         fn f(a: Tensor<i64, N>) -> Tensor<f32, N> {{ compute(|i| a[[i]] as f32) }}"
    );
    check_program(&text, &[numbers]);
}

#[test]
fn scalars_of_every_type_are_widened() {
    let check = |dtype: &str, values: &[Number]| {
        let dag = program(&format!(
            "#[autotune(dims(N = {N}))]
             fn f(a: Tensor<f64, N>, s: {dtype}) -> Tensor<f64, N> {{ compute(|i| a[[i]] + s as f64) }}"
        ));
        let a = Array::zeros(DType::F64, &[N]);
        for value in values {
            let want = interp::run(&dag, &[], std::slice::from_ref(&a), &[*value]);
            for isa in [Isa::Avx2, Isa::Avx512] {
                let kernel = kernel(&vectorized(&dag, isa), isa);
                let params = std::slice::from_ref(&a);
                let got = crate::interp::run(&kernel, &[], params, &[*value], &want).unwrap();
                let [got, want] = [&got[0], &want[0]].map(|it| it.get(3).to_f64());
                assert!(
                    got == want || got.is_nan() && want.is_nan(),
                    "{value:?}: {got}, not {want}"
                );
            }
        }
    };
    let floats = [0.1_f32, -1e-40, 3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 1e-45];
    check("f32", &floats.map(|it| Number::Float(it.into())));
    check("f64", &[0.1, -1e-310, 1e300].map(Number::Float));
    for (dtype, values) in [
        ("i64", [i64::MIN, -1, 1 << 40]),
        ("i32", [i32::MIN.into(), -1, 7]),
        ("u32", [u32::MAX.into(), 1 << 31, 7]),
        ("i8", [-128, -1, 127]),
        ("u8", [0, 255, 127]),
    ] {
        check(dtype, &values.map(Number::Int));
    }
}
