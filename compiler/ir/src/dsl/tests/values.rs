//! The results of programs, against values worked out by hand or by plain loops.

use super::{dag, program};
use crate::dag::{DType, Dag, Number};
use crate::interp::{Array, run};

fn f32s(shape: &[u64], values: &[f32]) -> Array {
    Array::from_f32(shape, values.to_vec())
}

/// The result of a program over `x: f32[M]`, as `f32`.
fn map(definition: &str, x: &[f32]) -> Vec<f32> {
    let source = format!(
        "#[autotune(dims(M = 1..=64))]
         fn f(x: Tensor<f32, M>) -> Tensor<f32, M> {{ compute(|i| {definition}) }}"
    );
    let x = f32s(&[x.len() as u64], x);
    run(&dag(&source), &[x.len() as i64], &[x], &[])[0].to_f32_vec()
}

#[test]
fn softmax_sums_to_one() {
    let softmax = dag("
        #[autotune(dims(R = 1..=8192, D = 4))]
        fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
            compute(|r, d| e[[r, d]] / sum(0..D, |k| e[[r, k]]))
        }");
    let x = f32s(&[2, 4], &[0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1000.0]);
    let got = run(&softmax, &[2], &[x], &[])[0].to_f32_vec();
    assert_eq!(got, [0.25, 0.25, 0.25, 0.25, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn a_padded_convolution_reads_zeros_outside() {
    let conv = dag("
        #[autotune(dims(W = 1..=99))]
        fn conv(x: Tensor<f32, W>, w: Weight<f32, 3>) -> Tensor<f32, W> {
            compute(|p| sum(0..3, |s| x.get([p + s - 1]).unwrap_or(0.0) * w[[s]]))
        }");
    let (x, w) = (f32s(&[4], &[1.0, 2.0, 3.0, 4.0]), f32s(&[3], &[1.0, 10.0, 100.0]));
    let got = run(&conv, &[4], &[x, w], &[])[0].to_f32_vec();
    assert_eq!(got, [210.0, 321.0, 432.0, 43.0]);
}

#[test]
fn a_gather_takes_the_default_for_ids_outside() {
    let gather = dag("
        #[autotune(dims(B = 1..=8, V = 3, D = 2))]
        fn embed(ids: Tensor<i64, B>, table: Weight<f32, V, D>) -> Tensor<f32, B, D> {
            compute(|b, d| table.get([ids[[b]], d]).unwrap_or(-1.0))
        }");
    let ids = Array::from_fn(DType::I64, &[4], |n| Number::Int([2, -1, 0, 3][n]));
    let table = f32s(&[3, 2], &[0.0, 1.0, 10.0, 11.0, 20.0, 21.0]);
    let got = run(&gather, &[4], &[ids, table], &[])[0].to_f32_vec();
    assert_eq!(got, [20.0, 21.0, -1.0, -1.0, 0.0, 1.0, -1.0, -1.0]);
}

#[test]
fn argmax_takes_the_first_of_equals_and_stays_inside_for_nans() {
    let argmax = dag("
        #[autotune(dims(R = 1..=8))]
        fn f(x: Tensor<f32, R, 4>) -> (Tensor<i32, R>, Tensor<i64, R>) {
            (
                compute(|r| argmax(0..4, |k| x[[r, k]]) as i32),
                compute(|r| argmin(1..4, |k| x[[r, k]] * 2.0)),
            )
        }");
    let nan = f32::NAN;
    let x = f32s(&[3, 4], &[1.0, 7.0, 7.0, -2.0, nan, 1.0, nan, 1.0, nan, nan, nan, nan]);
    let got = run(&argmax, &[3], &[x], &[]);
    assert_eq!(got[0].to_f32_vec(), [1.0, 1.0, 3.0]);
    assert_eq!(got[1].to_f32_vec(), [3.0, 1.0, 3.0]);
}

#[test]
fn argmax_goes_up_to_an_index_and_over_several_ranges() {
    let argmax = dag("
        #[autotune(dims(R = 1..=8))]
        fn f(x: Tensor<f32, R, 4>) -> (Tensor<i64, R, 4>, Tensor<i64, R, 4>, Tensor<i64, 1>) {
            (
                compute(|r, i| argmax(0..=i, |k| x[[r, k]])),
                compute(|r, i| argmin(i..4, |k| x[[r, k]] * x[[r, k - i]])),
                compute(|_| argmax((0..R, 1..4), |r, k| x[[r, k]])),
            )
        }");
    let nan = f32::NAN;
    let x = f32s(&[3, 4], &[1.0, 7.0, 7.0, 9.0, nan, 1.0, nan, 1.0, nan, 2.0, nan, 9.0]);
    let got = run(&argmax, &[3], &[x], &[]);
    // Of NaNs alone, it is the last one that counts.
    let upto = [0.0, 1.0, 1.0, 3.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 3.0];
    assert_eq!(got[0].to_f32_vec(), upto);
    // The products are 1 49 49 81, 7 49 63, 7 63, 9; NaN 1 NaN 1, NaN NaN NaN, NaN NaN, NaN; NaN 4 NaN 81, ..
    let from = [0.0, 1.0, 2.0, 3.0, 1.0, 3.0, 3.0, 3.0, 1.0, 3.0, 3.0, 3.0];
    assert_eq!(got[1].to_f32_vec(), from);
    // Of 3 x 3: the first 9 is the last of the first row.
    assert_eq!(got[2].to_f32_vec(), [2.0]);
}

#[test]
fn logsumexp_does_not_overflow_and_keeps_infinities() {
    let dag = dag("
        #[autotune(dims(R = 1..=8))]
        fn f(x: Tensor<f32, R, 3>) -> (Tensor<f32, R>, Tensor<f32, R, 3>, Tensor<f32, 1>) {
            (
                compute(|r| logsumexp(0..3, |k| x[[r, k]])),
                compute(|r, i| logsumexp(0..i, |k| x[[r, k]])),
                compute(|_| logsumexp((0..R, 0..3), |r, k| x[[r, k]])),
            )
        }");
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows =
        [[1e38, 1e38, -3e38], [-1e38, -1e38, -1e38], [1.0, 2.0, -inf], [-inf; 3], [inf, 1.0, -inf]];
    let x = f32s(&[5, 3], rows.as_flattened());
    let got = run(&dag, &[5], &[x], &[]);
    let two = 2.0 + (1.0 + (-1.0f32).exp()).ln();
    assert_eq!(got[0].to_f32_vec(), [1e38, -1e38, two, -inf, inf]);
    // Of no index, it is the logarithm of 0.
    assert_eq!(got[1].to_f32_vec()[6..9], [-inf, 1.0, two]);
    assert_eq!(got[2].to_f32_vec(), [inf]);
    let got = run(&dag, &[1], &[f32s(&[1, 3], &[nan, 1.0, 2.0])], &[]);
    assert!(got[0].to_f32_vec()[0].is_nan());
}

#[test]
fn logsumexp_of_a_prefix_that_may_be_empty_reads_nothing_behind_it() {
    let dag = dag("#[autotune(dims(R = 2, N = 1..=8))]
        fn f(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
            compute(|r, t| logsumexp(0..t, |s| x[[r, s + 1]]))
        }");
    for n in 1..=3 {
        let x = f32s(&[2, n], &[1.0, 2.0, 0.5, 4.0, 3.0, 1.5][..2 * n as usize]);
        let got = run(&dag, &[n as i64], std::slice::from_ref(&x), &[])[0].to_f32_vec();
        assert_eq!(got[0], f32::NEG_INFINITY);
        if n > 1 {
            assert_eq!(got[1], x.to_f32_vec()[1]);
        }
    }
}

#[test]
fn logsumexp_up_to_an_index_is_a_recurrence() {
    let source = |body: &str, accum: &str| {
        format!(
            "#[autotune(dims(R = 2, T = 5){accum})]
            fn f(x: Tensor<f32, R, T>) -> Tensor<f32, R, T> {{ compute(|r, t| {body}) }}"
        )
    };
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = f32s(&[2, 5], &[-inf, 80.0, -80.0, 81.0, inf, 1.0, 2.0, 0.5, nan, 1.0]);
    let of_two = |a: f64, b: f64| (a.exp() + b.exp()).ln();
    for accum in ["", ", accum = f64"] {
        let dag = dag(&source("logsumexp(0..=t, |s| x[[r, s]])", accum));
        let got = run(&dag, &[], std::slice::from_ref(&x), &[])[0].to_f32_vec();
        let second = of_two(1.0, 2.0);
        let expected = [
            -inf,
            80.0,
            80.0,
            of_two(80.0, 81.0) as f32,
            inf,
            1.0,
            second as f32,
            of_two(second, 0.5) as f32,
        ];
        for (got, expected) in got.iter().zip(expected) {
            assert!(
                *got == expected || (got - expected).abs() < 1e-6 * expected.abs(),
                "{got} {expected}"
            );
        }
        assert!(got[8].is_nan() && got[9].is_nan());
        assert_eq!(dag.computes.iter().filter(|it| it.is_recurrent()).count(), 1);
    }
    // Values that depend on the end of the range, and suffixes, have a maximum and a sum of their own.
    for body in [
        "logsumexp(0..=t, |s| x[[r, s]] * x[[r, t]])",
        "logsumexp(t..T, |s| x[[r, s]])",
        "logsumexp(t..=t, |s| x[[r, s]])",
    ] {
        let dag = dag(&source(body, ""));
        assert!(!dag.computes.iter().any(|it| it.is_recurrent()), "{body}");
    }
}

#[test]
fn logsumexp_up_to_an_index_counts_equal_values_and_is_as_wide_as_sums() {
    let source = |accum: &str| {
        format!(
            "#[autotune(dims(T = 4096){accum})]
            fn f(x: Tensor<f32, T>) -> Tensor<f32, T> {{ compute(|t| logsumexp(0..=t, |s| x[[s]])) }}"
        )
    };
    let equal = f32s(&[4096], &[0.5; 4096]);
    let greatest_error = |accum: &str| {
        let got = run(&dag(&source(accum)), &[], std::slice::from_ref(&equal), &[])[0].to_f32_vec();
        let expected = |n: usize| 0.5 + ((n + 1) as f64).ln();
        let errors = got.iter().enumerate().map(|(n, it)| (f64::from(*it) - expected(n)).abs());
        errors.fold(0.0, f64::max)
    };
    assert!(greatest_error("") < 1e-3);
    assert!(greatest_error(", accum = f64") < 5e-7, "one rounding of at most 2^-21");
}

#[test]
fn only_f32_is_rounded_to_tf32() {
    let error = |dtype: &str| {
        let source = format!(
            "#[autotune(dims(M = 1..=64))]
             fn f(x: Tensor<{dtype}, M>) -> Tensor<f32, M> {{ compute(|i| tf32(x[[i]]) as f32) }}"
        );
        program(&source).err().map(|it| it.to_string())
    };
    assert_eq!((error("f32"), error("f16")), (None, None));
    let f64s = "`tf32` rounds an f32, not f64: convert with `as f32`";
    assert_eq!(error("f64").as_deref(), Some(f64s));
    let integers = "`tf32` applies to floats, and this is i32: convert it with `as f32`";
    assert_eq!(error("i32").as_deref(), Some(integers));
}

#[test]
fn functions_agree_with_those_of_rust() {
    let x = [-2.5f32, -1.0, -0.49999997, 0.0, 0.3, 0.5, 1.5, 2.5, 8388609.0];
    type Case = (&'static str, fn(f32) -> f32);
    let cases: [Case; 15] = [
        ("x[[i]].round()", f32::round),
        ("x[[i]].round_ties_even()", f32::round_ties_even),
        ("x[[i]].floor()", f32::floor),
        ("tf32(x[[i]] * 1.0005)", |x| {
            let x = x * 1.0005;
            let digit = if x == 0.0 { 1.0 } else { (x.abs().log2().floor() - 10.0).exp2() };
            (x / digit).round_ties_even() * digit
        }),
        ("x[[i]].ceil()", f32::ceil),
        ("x[[i]].abs().sqrt()", |x| x.abs().sqrt()),
        ("-x[[i]]", |x| -x),
        ("x[[i]].clamp(-1.0, 1.0)", |x| x.clamp(-1.0, 1.0)),
        ("relu(x[[i]])", |x| x.max(0.0)),
        ("x[[i]].powi(3)", |x| x * x * x),
        ("x[[i]] % 0.4", |x| x % 0.4),
        ("if x[[i]] > 0.4 { 1.0 } else if x[[i]] < -1.0 { x[[i]] } else { 0.25 }", |x| {
            if x > 0.4 {
                1.0
            } else if x < -1.0 {
                x
            } else {
                0.25
            }
        }),
        ("(x[[i]] as i32 / 2 * 7 % 5) as f32", |x| (x as i32 / 2 * 7 % 5) as f32),
        ("(x[[i]] * 100.0) as i8 as f32", |x| f32::from((x * 100.0) as i8)),
        ("x[[i]] as u8 as f32 - f32::consts::PI", |x| f32::from(x as u8) - std::f32::consts::PI),
    ];
    for (definition, want) in cases {
        assert_eq!(map(definition, &x), x.map(want), "{definition}");
    }
}

#[test]
fn smooth_functions_have_their_known_values() {
    let close = |definition: &str, want: [f32; 3]| {
        for (got, want) in map(definition, &[-1.0, 0.0, 2.0]).into_iter().zip(want) {
            assert!((got - want).abs() < 1e-6, "{definition}: {got}, not {want}");
        }
    };
    close("gelu(x[[i]])", [-0.158_655_25, 0.0, 1.954_499_7]);
    close("gelu_tanh(x[[i]])", [-0.158_808, 0.0, 1.954_597_7]);
    close("silu(x[[i]])", [-0.268_941_43, 0.0, 1.761_594_2]);
    close("sigmoid(x[[i]])", [0.268_941_43, 0.5, 0.880_797]);
    close("exp(x[[i]])", [0.367_879_44, 1.0, 7.389_056]);
    close("x[[i]].tanh() + erf(x[[i]])", [-1.604_295, 0.0, 1.959_349_8]);
    close("exp2(x[[i]]) + ln_1p(x[[i]] + 1.0)", [0.5, 1.693_147_2, 5.386_294_4]);
    close("x[[i]].exp_m1() - log2(x[[i]] + 2.0)", [-0.632_120_56, -1.0, 4.389_056]);
    close("recip(x[[i]] + 2.0)", [1.0, 0.5, 0.25]);
    close("softplus(x[[i]])", [0.313_261_7, std::f32::consts::LN_2, 2.126_928]);
    close("mish(x[[i]])", [-0.303_401_47, 0.0, 1.943_959]);
    close("hardswish(x[[i]])", [-1.0 / 3.0, 0.0, 5.0 / 3.0]);
    close("hardsigmoid(x[[i]] * 2.0)", [1.0 / 6.0, 0.5, 1.0]);
    close("leaky_relu(x[[i]], 0.1)", [-0.1, 0.0, 2.0]);
    close("rsqrt(x[[i]] * x[[i]] + 1.0)", [0.707_106_77, 1.0, 0.447_213_6]);
}

#[test]
fn bits_of_integers_are_those_of_rust() {
    let x = [-2_147_483_648.0, -1000.0, -1.0, 0.0, 5.0, 100.0, 2_147_483_520.0];
    let check = |definition: &str, right: &dyn Fn(i32) -> i64| {
        let definition = format!("{{ let n = x[[i]] as i32; ({definition}) as f32 }}");
        for (got, x) in map(&definition, &x).into_iter().zip(x) {
            let want = right(x as i32) as f32;
            assert_eq!(got, want, "{definition} of {x}");
        }
    };
    check("n & 0xf0", &|n| (n & 0xf0).into());
    check("n >> 4 & 0xf", &|n| (n >> 4 & 0xf).into());
    check("(n | 1) ^ (n << 3)", &|n| ((n | 1) ^ (n << 3)).into());
    check("!n", &|n| (!n).into());
    check("!(n as u32) >> 5", &|n| (!(n as u32) >> 5).into());
    check("(n as u8) << 3_u8 ^ 0x81", &|n| ((n as u8) << 3 ^ 0x81).into());
    check("(n as i8) >> (n as i8)", &|n| (n as i8).wrapping_shr(n as u32).into());
    check("(n as i64) << (n as i64)", &|n| i64::from(n).wrapping_shl(n as u32));
    check("n & (1 << 6 | !0x7f)", &|n| (n & (1 << 6 | !0x7f)).into());
}

#[test]
fn reductions_up_to_several_indices_are_reductions_of_reductions() {
    let of = |ranges: &str, value: &str| {
        dag(&format!(
            "
            #[autotune(dims(M = 4, N = 5))]
            fn f(x: Tensor<i32, M, N>) -> Tensor<i32, M, N> {{
                compute(|i, j| sum({ranges}, |r, s| {value}))
            }}"
        ))
    };
    let x = Array::from_fn(DType::I32, &[4, 5], |n| Number::Int((n * n) as i64 % 7 - 3));
    let at = |r: usize, s: usize| x.get(5 * r + s).to_f64();
    let check = |ranges: &str, value: &str, n: usize, of_cell: &dyn Fn(usize, usize) -> f64| {
        let dag = of(ranges, value);
        let n_reduced = dag.computes.iter().map(|it| it.axes.len() - it.n_spatial).max();
        assert_eq!(n_reduced, Some(n), "{ranges} {value}");
        let got = &run(&dag, &[], std::slice::from_ref(&x), &[])[0];
        for cell in 0..20 {
            assert_eq!(got.get(cell).to_f64(), of_cell(cell / 5, cell % 5), "{ranges} {value}");
        }
    };
    let sum_of = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
        rows.flat_map(|r| columns.clone().map(move |s| (r, s))).map(|(r, s)| at(r, s)).sum::<f64>()
    };
    check("(0..=i, 0..=j)", "x[[r, s]]", 1, &|i, j| sum_of(0..i + 1, 0..j + 1));
    check("(i..M, 0..j)", "x[[r, s]]", 1, &|i, j| sum_of(i..4, 0..j));
    // One end alone, both ends in one index, or a value that depends on the index.
    check("(0..=i, 0..N)", "x[[r, s]]", 2, &|i, _| sum_of(0..i + 1, 0..5));
    check("(0..=i, 0..=j)", "x[[r, s]] * x[[i, j]]", 2, &|i, j| {
        sum_of(0..i + 1, 0..j + 1) * at(i, j)
    });
}

#[test]
fn a_choice_of_literals_takes_the_type_that_it_meets() {
    let mask = dag("
        #[autotune(dims(M = 1..=8))]
        fn f(x: Tensor<f32, M>) -> Tensor<u8, M> {
            compute(|i| if x[[i]] > 1.0 { 255 } else if x[[i]] > 0.0 { 200 } else { 0 })
        }");
    let x = Array::from_f32(&[3], vec![2.0, 0.5, -1.0]);
    let numbers = |it: &Array| (0..it.len()).map(|n| it.get(n).to_f64()).collect::<Vec<_>>();
    assert_eq!(numbers(&run(&mask, &[3], &[x], &[])[0]), [255.0, 200.0, 0.0]);
    let check = |definition: &str, want: [f32; 3]| {
        assert_eq!(map(definition, &[2.0, 0.5, -1.0]), want, "{definition}");
    };
    check(
        "(x[[i]] as i64 + if x[[i]] > 0.0 { 3_000_000_000 } else { -1 }) as f32",
        [3_000_000_002.0, 3e9, -2.0],
    );
    check("(0.25_f64 * if x[[i]] > 0.0 { 0.5 } else { 3.0 }) as f32", [0.125, 0.125, 0.75]);
    check("if x[[i]] > 0.0 { 0.1 } else { 0.3 }", [0.1, 0.1, 0.3]);
    check("x.get([if x[[i]] > 1.0 { 2 } else { 0 }]).unwrap_or(9.0)", [-1.0, 2.0, 2.0]);
    check("-(if x[[i]] > 0.0 { 1 } else { 2 }) as f32", [-1.0, -1.0, -2.0]);
    check("(if x[[i]] > 0.0 { 300 } else { 2 } as u8) as f32", [44.0, 44.0, 2.0]);
}

#[test]
fn activations_are_right_at_the_ends_and_keep_a_nan() {
    let (infinity, nan) = (f32::INFINITY, f32::NAN);
    let x = [-infinity, -1e38, -100.0, 1e38, infinity, nan];
    let check = |definition: &str, want: [f32; 6]| {
        for (got, want) in map(definition, &x).into_iter().zip(want) {
            assert!(got == want || got.is_nan() && want.is_nan(), "{definition}: {got}, {want}");
        }
    };
    let tiny = (-100.0_f64).exp() as f32;
    check("softplus(x[[i]])", [0.0, 0.0, tiny, 1e38, infinity, nan]);
    check("mish(x[[i]])", [nan, 0.0, -100.0 * tiny, 1e38, infinity, nan]);
    check("hardswish(x[[i]])", [nan, 0.0, 0.0, 1e38, infinity, nan]);
    check("hardsigmoid(x[[i]])", [0.0, 0.0, 0.0, 1.0, 1.0, nan]);
    check("leaky_relu(x[[i]], 0.5)", [-infinity, -0.5e38, -50.0, 1e38, infinity, nan]);
    check("recip(x[[i]] / 2.0)", [0.0, -2.0 / 1e38, -0.02, 2.0 / 1e38, 0.0, nan]);
}

#[test]
fn halves_round_once() {
    // 2048 + 1 + 1 is 2048 if each sum rounds, and 2050 if only the last does.
    let add = dag("
        #[autotune(dims(M = 1..=8))]
        fn f(x: Tensor<f16, M>) -> Tensor<f16, M> { compute(|i| x[[i]] + 1.0 + 1.0) }");
    let x = Array::from_fn(DType::F16, &[1], |_| Number::Float(2048.0));
    assert_eq!(run(&add, &[1], &[x], &[])[0].to_f32_vec(), [2050.0]);
}

#[test]
fn scalars_masks_and_means_over_dynamic_extents() {
    let f = dag("
        #[autotune(dims(M = 1..=8, N = 1..=8))]
        fn f(x: Tensor<f32, M, N>, causal: bool, bias: i32) -> (Tensor<f32, M>, Tensor<f32, M, N>) {
            let mean = compute(|i| mean(0..N, |j| x[[i, j]]));
            let out = compute(|i, j| if causal && j > i { bias as f32 } else { x[[i, j]] });
            (mean, out)
        }");
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]);
    let got = run(&f, &[2, 3], &[x], &[Number::Bool(true), Number::Int(-7)]);
    assert_eq!(got[0].to_f32_vec(), [2.0, 6.0]);
    assert_eq!(got[1].to_f32_vec(), [1.0, -7.0, -7.0, 4.0, 5.0, -7.0]);
}

#[test]
fn splitting_and_merging_heads_is_the_identity() {
    let f = dag("
        #[autotune(dims(M = 1..=8, S = 3))]
        fn f(x: Tensor<f32, M, { S * 4 }>) -> Tensor<f32, M, 12> {
            let y: Tensor<f32, S, M, 4> = compute(|s, m, d| x[[m, s * 4 + d]]);
            compute(|m, c| y[[c / 4, m, c % 4]])
        }");
    let x = Array::random(DType::F32, &[5, 12], 3);
    assert_eq!(run(&f, &[5], std::slice::from_ref(&x), &[])[0], x);
}

#[test]
fn a_matrix_product_of_ordinary_size_is_evaluated_quickly() {
    let matmul = dag("
        #[autotune(dims(M = 1..=512))]
        fn f(x: Tensor<f32, M, 384>, w: Weight<f32, 384, 384>) -> Tensor<f32, M, 384> {
            compute(|i, j| sum(0..384, |k| x[[i, k]] * w[[j, k]]))
        }");
    let x = Array::whole_numbers(DType::F32, &[128, 384], 1);
    let w = Array::whole_numbers(DType::F32, &[384, 384], 2);
    let start = std::time::Instant::now();
    let got = run(&matmul, &[128], &[x.clone(), w.clone()], &[]);
    println!("128 x 384 x 384 took {:?}", start.elapsed());
    let (x, w) = (x.to_f32_vec(), w.to_f32_vec());
    let want: f32 = (0..384).map(|k| x[127 * 384 + k] * w[383 * 384 + k]).sum();
    assert_eq!(got[0].to_f32_vec()[127 * 384 + 383], want);
}

#[test]
fn a_range_may_end_or_start_at_an_index() {
    let x = [1.0, 2.0, 4.0, 8.0];
    assert_eq!(map("sum(0..=i, |k| x[[k]])", &x), [1.0, 3.0, 7.0, 15.0]);
    assert_eq!(map("sum(0..i, |k| x[[k]])", &x), [0.0, 1.0, 3.0, 7.0]);
    assert_eq!(map("sum(i..M, |k| x[[k]])", &x), [15.0, 14.0, 12.0, 8.0]);
    assert_eq!(map("sum(i + 1..M, |k| x[[k]])", &x), [14.0, 12.0, 8.0, 0.0]);
    assert_eq!(map("prod(0..=i, |k| x[[k]])", &x), [1.0, 2.0, 8.0, 64.0]);
    assert_eq!(map("mean(0..=i, |k| x[[k]])", &x), [1.0, 1.5, 7.0 / 3.0, 3.75]);
    assert_eq!(map("max(0..i, |k| x[[k]])", &x), [f32::NEG_INFINITY, 1.0, 2.0, 4.0]);
    assert_eq!(map("sum(i..i + 2, |k| x.get([k]).unwrap_or(0.0))", &x), [3.0, 6.0, 12.0, 8.0]);
    let truth = "if all(i..M, |k| x[[k]] > 2.0) { 1.0 } else { 0.0 }";
    assert_eq!(map(truth, &x), [0.0, 0.0, 1.0, 1.0]);
    // With one index there is none before it.
    assert_eq!(map("sum(0..i, |k| x[[k]])", &[3.0]), [0.0]);
    assert_eq!(map("sum(i + 1..M, |k| x[[k]])", &[3.0]), [0.0]);
}

#[test]
fn ranges_up_to_an_index_are_choices() {
    let text = |body: &str| {
        let source = format!(
            "#[autotune(dims(M = 64))]
             fn f(x: Tensor<f32, M, M>) -> Tensor<f32, M, M> {{ compute(|i, j| {body}) }}"
        );
        crate::dag::print::canonical(&dag(&source))
    };
    let range = "sum(0..=j, |k| x[[i, k]])";
    let choice = "sum(0..M, |k| if k < j + 1 { x[[i, k]] } else { 0.0 })";
    assert_eq!(text(range), text(choice));
}

#[test]
fn zeros_of_either_sign_are_two_numbers() {
    // Branches and tensors that differ in a sign only are not one.
    let choice = map("1.0 / (if x[[i]] > 0.0 { 0.0 } else { -0.0 })", &[1.0, -1.0]);
    assert_eq!(choice, [f32::INFINITY, f32::NEG_INFINITY]);
    let tensors = dag("
        #[autotune(dims(M = 1..=4))]
        fn f(x: Tensor<f32, M>) -> Tensor<f32, M> {
            let a: Tensor<f32, M> = compute(|i| 0.0);
            let b: Tensor<f32, M> = compute(|i| -0.0);
            compute(|i| max(0..M, |k| x[[k]] / a[[k]]) - min(0..M, |k| x[[k]] / b[[k]]))
        }");
    let got = run(&tensors, &[1], &[f32s(&[1], &[1.0])], &[])[0].to_f32_vec();
    assert_eq!(got, [f32::INFINITY]);
}

#[test]
fn a_folded_nan_is_the_one_that_text_can_say() {
    let product = dag("
        #[autotune(dims(M = 4))]
        fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|i| x[[i]] + f32::INFINITY * -0.0) }");
    let text = crate::dag::print::canonical(&product);
    let again: Dag = text.parse().unwrap();
    assert_eq!(again.computes[0].body, product.computes[0].body);
}
