//! 64-bit integers as two words, against the interpreter of programs.

use super::text::{A, kernel, program};
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

pub(super) const N: u64 = 70;

/// Numbers around the ends of words, where carries and signs change, and small ones.
pub(super) fn numbers(seed: u64) -> Array {
    const EDGES: [i64; 9] =
        [0, -1, i64::MAX, i64::MIN, 1 << 31, -(1 << 31), u32::MAX as i64, 1 << 32, i32::MAX as i64];
    Array::from_fn(DType::I64, &[N], |n| {
        let bits = (n as u64 + 1).wrapping_mul(seed);
        let edge = EDGES[(bits >> 40) as usize % EDGES.len()];
        Number::Int(match n % 4 {
            0 => (bits >> 50) as i64 - 8000,
            1 => edge,
            2 => edge.wrapping_add((bits >> 60) as i64 - 8),
            _ => bits.cast_signed(),
        })
    })
}

/// Runs the last stage of a program in vectors along its last axis, around which it reduces.
pub(super) fn vectorized(dag: &Dag, isa: Isa) -> Schedule {
    let mut schedule = Schedule::new(dag);
    let last = StageId(schedule.order.len() as u32 - 1);
    let axis = A[schedule.stage(last).compute.n_spatial - 1];
    let parts = schedule.split(last, axis, &[isa.lanes().into()]).unwrap();
    let mut order = schedule.stage(last).order.clone();
    order.retain(|it| *it != parts[1]);
    order.push(parts[1]);
    schedule.reorder(last, &order).unwrap();
    schedule.annotate(last, parts[1], LoopKind::Vectorized).unwrap();
    schedule
}

pub(super) fn check_program(text: &str, arrays: &[Array]) {
    check_scheduled(text, arrays, &vectorized);
}

fn is_nan(array: &Array, n: usize) -> bool {
    matches!(array.get(n), Number::Float(it) if it.is_nan())
}

/// Checks a program under a schedule.
pub(super) fn check_scheduled(
    text: &str,
    arrays: &[Array],
    scheduled: &dyn Fn(&Dag, Isa) -> Schedule,
) {
    let dag = program(text);
    let want = interp::run(&dag, &[], arrays, &[]);
    for isa in [Isa::Avx2, Isa::Avx512] {
        let kernel = kernel(&scheduled(&dag, isa), isa);
        let got = crate::interp::run(&kernel, &[], arrays, &[], &want).unwrap();
        for (got, want) in got.iter().zip(&want) {
            let differs =
                |n: &usize| got.get(*n) != want.get(*n) && !(is_nan(got, *n) && is_nan(want, *n));
            let place = (0..want.len()).find(differs);
            let found = place.map(|n| (n, got.get(n), want.get(n)));
            assert_eq!(found, None, "{text} on {isa:?}");
        }
    }
}

fn check(definition: &str) {
    let text = format!(
        "#[autotune(dims(N = {N}))]
         fn f(a: Tensor<i64, N>, b: Tensor<i64, N>) -> Tensor<i64, N> {{ compute(|i| {definition}) }}"
    );
    check_program(&text, &[numbers(0x9e37_79b9_7f4a_7c15), numbers(0xc2b2_ae3d_27d4_eb4f)]);
}

#[test]
fn words_are_copied_added_and_chosen() {
    for definition in [
        "a[[i]]",
        "a[[N - 1 - i]]",
        "a[[i]] + b[[i]]",
        "a[[i]] - b[[i]] + 3",
        "-a[[i]]",
        "a[[i]].abs()",
        "(a[[i]] & b[[i]]) ^ (a[[i]] | 255)",
        "!a[[i]]",
        "a[[i]].min(b[[i]])",
        "max(a[[i]], b[[i]]) + i as i64",
        "a[[i]].clamp(-7, 40) + 1",
        "if i % 3 == 0 { a[[i]] } else { b[[i]] }",
        "a.get([i + 5]).unwrap_or(-3)",
        "if i + 5 >= N { -3 } else { a[[i + 5]] }",
    ] {
        check(definition);
    }
}

/// In all positions, the edges among them.
#[test]
fn words_that_are_the_same_in_all_lanes_are_multiplied_by_small_constants() {
    for n in 0..40 {
        check(&format!("a[[{n}]] * 16 + i as i64"));
        check(&format!("65535 * b[[{n}]] - (a[[{n}]] << 15) + a[[i]]"));
    }
}

#[test]
fn words_that_are_the_same_in_all_lanes_are_divided_by_small_constants() {
    for by in [1, 2, 3, 7, 512, 1000, 32_767, 32_768] {
        for n in 0..20 {
            check(&format!("a[[{n}]] % {by} + (b[[{n}]] / {by} + i as i64)"));
            check(&format!("a[[{n}]] / {by} - (b[[{n}]] % {by}) + a[[i]]"));
        }
    }
}

#[test]
fn words_of_each_lane_are_divided_where_lanes_of_64_bits_will_not_do() {
    for by in [2, 3, 1000, 4096, 32_767] {
        // No lane of 64 bits has powers of `f32`; these are exact.
        let text = format!(
            "#[autotune(dims(N = {N}))]
             fn f(a: Tensor<i64, N>) -> Tensor<f32, N> {{
                 compute(|i| exp2((i % 5) as f32) * (a[[i]] % {by}) as f32)
             }}"
        );
        check_program(&text, &[numbers(0x9e37_79b9_7f4a_7c15)]);
    }
}

#[test]
fn scalars_of_64_bits_choose_elements() {
    let definitions = [
        "x.get([(s + i as i64) % N as i64]).unwrap_or(-1.0)",
        "x.get([s + i as i64]).unwrap_or(-1.0)",
        "if i as i64 > s { x[[i]] } else { 0.0 }",
        "x.get([(s / 16) % 4 + i as i64]).unwrap_or(-1.0)",
    ];
    let x = Array::whole_numbers(DType::F32, &[N], 3);
    for definition in definitions {
        let dag = program(&format!(
            "#[autotune(dims(N = {N}))]
             fn f(x: Tensor<f32, N>, s: i64) -> Tensor<f32, N> {{ compute(|i| {definition}) }}"
        ));
        for isa in [Isa::Avx2, Isa::Avx512] {
            let kernel = kernel(&vectorized(&dag, isa), isa);
            for s in [0, 1, -1, 65, 70, 1 << 32, -(1 << 40), i64::MAX, i64::MIN] {
                let (scalars, arrays) = ([Number::Int(s)], std::slice::from_ref(&x));
                let want = interp::run(&dag, &[], arrays, &scalars);
                let got = crate::interp::run(&kernel, &[], arrays, &scalars, &want).unwrap();
                assert_eq!(got[0].to_f32_vec(), want[0].to_f32_vec(), "{definition}, s = {s}");
            }
        }
    }
}

#[test]
fn words_are_converted_from_floats() {
    const EDGES: [f32; 14] = [
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        2_147_483_648.0,
        -2_147_483_648.0,
        4_294_967_296.0,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        9.3e18,
        -9.3e18,
        0.99999994,
        -0.99999994,
    ];
    let floats = Array::from_fn(DType::F32, &[N], |n| {
        let bits = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fraction = (bits >> 40) as f64 / f64::from(1 << 24) - 0.5;
        Number::Float(match EDGES.get(n) {
            Some(edge) => f64::from(*edge),
            None => f64::from((fraction * f64::from(n as u32 % 70).exp2()) as f32),
        })
    });
    for definition in [
        "a[[i]] as i64",
        "(a[[i]].floor() as i64).clamp(-100, 100)",
        "(a[[i]] as i64) + 1",
        "max(a[[i]] as i64, 4294967295)",
        "(((a[[i]] as i64) - 200000).min(5) + (i as i64)).max(-9)",
        "(max(a[[i]] as i64, -3000000000) + 3000000000).min(40)",
        "(max((a[[i]] * 2.0) as i64, a[[i]] as i64) - 262143).clamp(0, 268435454)",
        "if (a[[i]] as i64) < 2147483648 { 1_i64 } else { 0 }",
    ] {
        let text = format!(
            "#[autotune(dims(N = {N}))]
             fn f(a: Tensor<f32, N>) -> Tensor<i64, N> {{ compute(|i| {definition}) }}"
        );
        check_program(&text, std::slice::from_ref(&floats));
    }
    let text = format!(
        "#[autotune(dims(N = {N}))]
         fn f(a: Tensor<f32, N>, x: Tensor<f32, N>) -> Tensor<f32, N> {{
             compute(|i| x[[(a[[i]] as i64 + 3).clamp(0, N - 1)]])
         }}"
    );
    check_program(&text, &[floats.clone(), floats]);
}

#[test]
fn floats_of_indices_fit_a_word_where_their_range_does() {
    for definition in [
        "(i as f32 * 0.5 - 0.25).floor() as i64",
        "((i as f32 + 0.5).ceil() * 1e4).max(i as f32) as i64 + 1",
        "(-(i as f32) * 3e7) as i64",
        // Two words, and a NaN.
        "(i as f32 * 3.2e7) as i64",
        "(i as f32 * 1e30 * 1e30 - i as f32 * 1e30 * 1e30) as i64",
    ] {
        check(definition);
    }
}

#[test]
fn floats_of_indices_take_two_words_where_they_are_just_beyond_one() {
    for definition in [
        // 71 times the number is below 2^31, and rounded to it.
        "((N + 1 - i) as f32 * 30246248.0) as i64",
        "(i as f32 * 3.2e7 - (N - i) as f32 * 3.2e7) as i64",
        "(-(i as f32)) as i64 - 2147483640",
        "max(((-(i as f32) - 0.5) as i64) + 2147483647, 3) + 1",
        // Conversions saturate at the ends of their type.
        "max(((i as f32 + 300.0) as u8) as i64 - 2147483647, -2147483647) - 300",
        // A product that underflows is 0.
        "max((((i + 1) as f32 * 1e-30 * 1e-30).ceil() as i64) - 2147483647, -2147483647) - 2",
        "max((((i + 1) as f32 * -1e-30 * 1e-30).floor() as i64) - 2147483647, -2147483648) - 1",
        // An infinity times 0 is a NaN.
        "max((((i + 1) as f32 * 1e30 * 1e30 * 0.0 + 9.0) as i64) - 2147483647, -2147483647) - 9",
    ] {
        check(definition);
    }
}

#[test]
fn clamped_conversions_of_unsigned_words_keep_their_sign() {
    let numbers = Array::from_fn(DType::U32, &[N], |n| {
        Number::Int(i64::from((n as u32 + 1).wrapping_mul(0x9e37_79b9) >> (n % 32)))
    });
    for definition in ["(a[[i]] as i64).min(5) + 1", "max(a[[i]] as i64, -7).min(2147483640) + 7"] {
        let text = format!(
            "#[autotune(dims(N = {N}))]
             fn f(a: Tensor<u32, N>) -> Tensor<i64, N> {{ compute(|i| {definition}) }}"
        );
        check_program(&text, std::slice::from_ref(&numbers));
    }
}

#[test]
fn words_are_compared_and_narrowed() {
    for op in ["<", "<=", "==", "!=", ">=", ">"] {
        check(&format!("if a[[i]] {op} b[[i]] {{ 1_i64 }} else {{ 2 }}"));
        check(&format!("if a[[i]] {op} 2147483647 {{ a[[i]] }} else {{ 2 }}"));
        for narrow in ["0", "2147483640", "(i as i64)", "(i as i64 - 9)", "-1"] {
            check(&format!("if a[[i]] {op} {narrow} {{ 1_i64 }} else {{ 2 }}"));
            check(&format!("if {narrow} {op} a[[i]] {{ 1_i64 }} else {{ 2 }}"));
        }
    }
    for dtype in ["i32", "u32", "i8", "u8"] {
        check(&format!("(a[[i]] as {dtype}) as i64"));
    }
}

/// Integers of every length around those where rounding changes: ties, and one more or less than these.
fn integers_of_every_length(seed: u64) -> Array {
    Array::from_fn(DType::I64, &[N], |n| {
        let (bits, length) = ((n as u64 + 1).wrapping_mul(seed), n as u32 % 64 + 1);
        let first = 1_u64 << (length - 1);
        let digits = match bits >> 61 {
            0 => first,
            // The first digits, and half of the last one that a float of 24 digits keeps, or a little more.
            1..4 => {
                let kept = (bits | 1 << 63) >> (64 - length) & !(first >> 23).wrapping_sub(1);
                (kept | first >> 24).wrapping_add((bits & 3).wrapping_sub(1))
            }
            4 => u64::MAX >> (64 - length),
            _ => (bits | 1 << 63) >> (64 - length),
        };
        let value = digits.cast_signed();
        Number::Int(if bits & 4 == 0 { value } else { value.wrapping_neg() })
    })
}

#[test]
fn words_are_converted_to_floats_rounded_once() {
    for dtype in ["f32", "f16", "bf16"] {
        // No lane of 64 bits has powers of `f32`, and these are exact.
        let text = format!(
            "#[autotune(dims(N = {N}))]
             fn f(a: Tensor<i64, N>) -> Tensor<f32, N> {{
                 compute(|i| exp2((i % 3) as f32) * (a[[i]] as {dtype}) as f32)
             }}"
        );
        for seed in 0..200_u64 {
            let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * seed + 1);
            check_program(&text, &[integers_of_every_length(seed)]);
        }
        check_program(&text, &[numbers(0x9e37_79b9_7f4a_7c15)]);
    }
}

#[test]
fn words_are_added_up_where_most_numbers_are_narrow() {
    for reduction in [
        "sum(0..K, |k| x[[i, k]])",
        "sum(0..K, |k| if x[[i, k]] < 9 { x[[i, k]] + 1 } else { k as i64 - 3 })",
    ] {
        // All digits of a sum, and the lowest ones, which a float of all leaves out.
        for (k, digits) in [(1, "-1"), (7, "65535"), (8, "-1"), (37, "65535"), (37, "-1")] {
            let text = format!(
                "#[autotune(dims(M = 5, K = {k}, N = 700))]
                 fn f(x: Tensor<i64, M, K>) -> Tensor<f32, M, N> {{
                     let n = compute(|i| {reduction});
                     compute(|i, j| (n[[i]] & {digits}) as f32 + j as f32)
                 }}"
            );
            let all = numbers(0x9e37_79b9_7f4a_7c15).repeated(&[5, k]);
            let width = |schedule: &dyn Fn(&Dag, Isa) -> Schedule| {
                check_scheduled(&text, std::slice::from_ref(&all), schedule);
                kernel(&schedule(&program(&text), Isa::Avx2), Isa::Avx2).width
            };
            assert_eq!(width(&vectorized), Width::Bits32, "{text}");
            // Lanes of the reduction itself.
            let by_lanes = |dag: &Dag, isa| {
                let mut schedule = vectorized(dag, isa);
                schedule.annotate(StageId(0), A[1], LoopKind::Vectorized).unwrap();
                schedule
            };
            assert_eq!(width(&by_lanes), Width::Bits32, "{text}");
        }
    }
}

#[test]
fn positions_are_stored_as_64_bits() {
    let x = Array::from_fn(DType::F32, &[9, 33], |n| Number::Float(((n * 37) % 101) as f64));
    let text = "#[autotune(dims(M = 9, K = 33))]
        fn f(x: Tensor<f32, M, K>) -> Tensor<i64, M> { compute(|i| argmax(0..K, |k| x[[i, k]]) - 20) }";
    check_program(text, &[x]);
}

#[test]
fn an_element_is_replaced_by_what_follows_from_it() {
    let text = format!(
        "#[autotune(dims(N = {N}))]
         fn f(y: InOut<i64, N>, b: Tensor<i64, N>) {{ y = compute(|i| y[[i]] + b[[i]]); }}"
    );
    check_program(&text, &[numbers(0x9e37_79b9_7f4a_7c15), numbers(0xc2b2_ae3d_27d4_eb4f)]);
}

#[test]
fn an_old_element_is_not_loaded_again_behind_its_low_word() {
    // More partial results than registers, so that loads of the last operands are repeated.
    let names: Vec<String> = (0..20).map(|n| format!("b{n}")).collect();
    let params: String = names.iter().map(|it| format!("{it}: Tensor<i64, N>, ")).collect();
    let terms: Vec<String> = names.iter().map(|it| format!("{it}[[i]]")).collect();
    let text = format!(
        "#[autotune(dims(N = {N}))]
         fn f({params}y: InOut<i64, N>) {{ y = compute(|i| {} + (y[[i]] + b19[[i]])); }}",
        terms[..19].join(" - ")
    );
    let arrays: Vec<Array> =
        (0..21).map(|n| numbers(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * n + 1))).collect();
    check_program(&text, &arrays);
}
