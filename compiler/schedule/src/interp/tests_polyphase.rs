//! Polyphase decompositions: the loop nests, their results, and refusals.

use crate::nest::lower;
use crate::nest::tests::{nest_of, scheduled, tried};
use crate::nest::verify::verify;
use crate::{ErrorKind, ReductionOrder, StageId};
use tvmtune_ir::dag::{DType, Expr};
use tvmtune_ir::interp::Array;

#[test]
fn a_transposed_convolution_is_one_for_each_remainder() {
    let program = "
        #[autotune(dims(C = 1..=8, N = 1..=50))]
        fn deconv(x: Tensor<f32, C, N>, w: Tensor<f32, C, 4>) -> Tensor<f32, { N * 2 }> {
            compute(|i| sum((0..C, 0..4), |c, k| if (i + 5 - k) % 2 == 0 {
                x.get([c, (i + 5 - k) / 2 - 2]).unwrap_or(0.0) * w[[c, k]]
            } else { 0.0 }))
        }";
    insta::assert_snapshot!(nest_of(program, "polyphase s0"), @r#"
    workspace out_phases[2, N]: f32
    for i_p in 0..2
      for i_q in 0..N
        out_phases[i_p, i_q] = 0
        for c in 0..C
          for k in 0..2
            out_phases[i_p, i_q] += select((i_p + i_q - k) >= 0 && (i_p + i_q - k) < N, x[c, i_p + i_q - k], 0) * w[c, -i_p + 2*k + 1]
    for i in 0..2*N
      out[i] = out_phases[((i)%(2)), ((i)/(2))]
    "#);
}

/// Runs a program of a reduction by phases. `x` has three channels of `N`, `w` has `K` taps.
#[track_caller]
fn check(taps: u32, length: &str, reduction: &str) {
    let program = format!(
        "#[autotune(dims(N = 1..=30))]
         fn f(x: Tensor<f32, 4, N>, w: Tensor<f32, 4, {taps}>) -> Tensor<f32, {{ {length} }}> {{
             compute(|i| {reduction})
         }}"
    );
    let schedule = scheduled(&program, "polyphase s0");
    let nest = lower(&schedule);
    assert_eq!(verify(&nest), []);
    for n in [1, 2, 3, 4, 5, 7, 30] {
        let params = [
            Array::whole_numbers(DType::F32, &[4, n as u64], 1),
            Array::whole_numbers(DType::F32, &[4, taps.into()], 2),
        ];
        let expected = tvmtune_ir::interp::run(&schedule.dag, &[n], &params, &[]);
        let got = crate::interp::run(&nest, &[n], &params, &[]).unwrap();
        assert!(got == expected, "{reduction} of {n}: {got:?}, not {expected:?}\n{nest}");
    }
}

/// Terms of transposed convolutions, by the stride, the dilation and the padding.
fn transposed(stride: u32, dilation: u32, padding: u32) -> String {
    // An index is divided only where it is not negative.
    let place = format!("(i + {} - {dilation} * k)", padding + 20 * stride);
    format!(
        "if {place} % {stride} == 0 {{ x.get([c, {place} / {stride} - 20]).unwrap_or(0.0) * w[[c, k]] }} \
         else {{ 0.0 }}"
    )
}

#[test]
fn phases_of_every_stride_dilation_and_padding_are_what_the_program_says() {
    for (taps, stride, dilation, padding) in [
        (4, 2, 1, 1),
        (3, 2, 1, 1),
        (2, 2, 1, 0),
        (3, 2, 1, 0),
        (1, 2, 1, 0),
        (8, 4, 1, 2),
        (5, 3, 1, 1),
        (3, 3, 1, 2),
        (4, 3, 2, 3),
        (3, 2, 3, 2),
        (16, 8, 1, 4),
    ] {
        let term = transposed(stride, dilation, padding);
        let sum = format!("sum((0..4, 0..{taps}), |c, k| {term})");
        for length in [format!("N * {stride}"), format!("N * {stride} + 1"), "N + 3".to_owned()] {
            check(taps, &length, &sum);
        }
    }
}

#[test]
fn other_spellings_and_reducers_have_phases() {
    for reduction in [
        // The condition in two, and the other one.
        "sum((0..4, 0..4), |c, k| if (i + k) % 2 != 0 { 0.0 } else { w[[c, k]] * x[[c, 0]] })",
        "sum((0..4, 0..4), |c, k| if (i + k) % 2 != 0 || c == 2 { 0.0 } else { w[[c, k]] * x[[c, 0]] })",
        "sum((0..4, 0..4), |c, k| if c > 1 { if (i + k) % 2 == 0 { w[[c, k]] } else { 0.0 } } else { 0.0 })",
        "sum((0..4, 0..4), |c, k| if (i + k) % 2 == 0 && k < c { w[[c, k]] } else { 0.0 })",
        "sum((0..4, 0..4), |c, k| if (i + 3 * k + 2) % 4 == 1 { w[[c, k]] } else { 0.0 })",
        "sum((0..4, 0..4), |c, k| if (i + k) % 2 == 0 && (i + c) % 2 == 1 { w[[c, k]] } else { 0.0 })",
        "max((0..4, 0..4), |c, k| if (i + k) % 2 == 0 { w[[c, k]] } else { f32::NEG_INFINITY })",
        "sum((0..4, 0..4), |c, k| if i + k - 3 * ((i + k) / 3) == 1 { w[[c, k]] * x[[c, 0]] } else { 0.0 })",
        // Groups of channels.
        "sum(0..2, |k| w.get([i / 2 * 2 + k, 3]).unwrap_or(0.0))",
        "sum(0..2, |k| x.get([k, i / 2 + k]).unwrap_or(0.0))",
    ] {
        check(4, "N * 2", reduction);
    }
}

#[test]
fn what_has_no_phases_is_refused() {
    let kind = |reduction: &str| {
        let program = format!(
            "#[autotune(dims(N = 2..=30))]
             fn f(x: Tensor<f32, N>, y: Tensor<f32, {{ N * 2 }}>) -> Tensor<f32, N> {{ compute(|i| {reduction}) }}"
        );
        tried(&program, "polyphase s0").err().map(|it| it.kind)
    };
    assert_eq!(kind("x[[i]]"), Some(ErrorKind::NotReduction));
    for reduction in [
        "sum(0..N, |k| x[[k]])",
        // Not the identity where the condition fails.
        "sum(0..4, |k| if (i + k) % 2 == 0 { x[[0]] } else { 1.0 })",
        // Remainders by what is known at launch, and of reduced indices.
        "sum(0..N, |k| if (i + k) % N == 0 { x[[k]] } else { 0.0 })",
        "sum(0..4, |k| x[[(i + k) % 2]])",
        "sum(0..N * 2, |k| x.get([k / 2]).unwrap_or(0.0))",
        // More phases than anybody has.
        "sum(0..4, |k| if (i + 9 * k) % 1000000007 == 0 { x[[0]] } else { 0.0 })",
        "sum(0..2, |k| x.get([i / 1000000007 * 2 + k]).unwrap_or(0.0) + y[[i]])",
        // The read beyond the end of phases that are not whole.
        "sum(0..2, |k| if (i + k) % 2 == 0 { x[[i]] } else { 0.0 })",
        // Heads that share keys: not a reduced index that is divided.
        "sum(0..2, |k| x.get([i / 2]).unwrap_or(0.0) * y[[k]])",
    ] {
        assert_eq!(kind(reduction), Some(ErrorKind::NotPeriodic), "{reduction}");
    }
}

#[test]
fn phases_of_a_sequence_keep_its_order_and_those_of_partial_results_do_not() {
    let with = |options: &str, line: &str| {
        let program = format!(
            "#[autotune(dims(N = 8..=30){options})]
            fn f(x: Tensor<f32, N>, y: Tensor<f32, 40>) -> Tensor<f32, {{ N * 2 }}> {{
                compute(|i| sum(0..40, |k| if (i + k) % 2 == 0 {{ x.get([(i + k) / 2]).unwrap_or(0.0) * y[[k]] }} else {{ 0.0 }}))
            }}"
        );
        tried(&program, line)
    };
    let schedule = with(", numerics = \"fixed\"", "polyphase s0").unwrap();
    let phases = schedule.stage(StageId(1));
    assert_eq!(phases.reduction, ReductionOrder::Sequence);
    // A product under a condition is rounded before it is added.
    assert!(matches!(phases.compute.body, Expr::Cast(DType::F32, _)));
    assert!(matches!(
        with("", "polyphase s0").unwrap().stage(StageId(1)).compute.body,
        Expr::Binary(..)
    ));
    let blocks = with(", order = \"blocks(8)\"", "polyphase s1");
    assert_eq!(blocks.err().map(|it| it.kind), Some(ErrorKind::FixedNumerics));
}
