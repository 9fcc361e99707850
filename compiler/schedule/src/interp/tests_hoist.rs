//! Loop-invariant code motion: the loop nests, their results, and divisors that stay.

use crate::nest::lower;
use crate::nest::tests::{nest_of, scheduled};
use crate::{ErrorKind, Schedule, StageId};
use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::Array;

/// Rows of `x`, with a number for each and one for each column.
fn program(body: &str) -> String {
    format!(
        "#[autotune(dims(M = 5, N = 7))]
         fn f(x: Tensor<f32, M, N>, s: Tensor<f32, M>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {{
             {body}
         }}"
    )
}

const SOFTMAX: &str = "
    let m = compute(|i| max(0..N, |j| x[[i, j]]));
    let e = compute(|i, j| exp(x[[i, j]] - m[[i]]));
    let t = compute(|i| sum(0..N, |j| e[[i, j]]));
    compute(|i, j| e[[i, j]] / t[[i]])";

#[test]
fn quotients_by_a_row_invariant_divisor_become_products() {
    insta::assert_snapshot!(nest_of(&program(SOFTMAX), "hoist_invariant s3"), @r"
    workspace m[5]: f32
    workspace e[5, 7]: f32
    workspace t[5]: f32
    workspace out_same[5]: f32
    for i in 0..5
      m[i] = -inf
      for j in 0..7
        m[i] max= x[i, j]
    for i in 0..5
      for j in 0..7
        e[i, j] = exp(x[i, j] - m[i])
    for i in 0..5
      t[i] = 0
      for j in 0..7
        t[i] += e[i, j]
    for i in 0..5
      out_same[i] = 1 / t[i]
    for i in 0..5
      for j in 0..7
        out[i, j] = e[i, j] * out_same[i]
    ");
}

#[test]
fn values_that_are_the_same_along_columns_are_computed_once() {
    let body = "compute(|i, j| x[[i, j]] * exp(b[[j]] + 1.0) + exp(b[[j]] + 1.0))";
    insta::assert_snapshot!(nest_of(&program(body), "hoist_invariant s0"), @r"
    workspace out_same[7]: f32
    for j in 0..7
      out_same[j] = exp(b[j] + 1)
    for i in 0..5
      for j in 0..7
        out[i, j] = x[i, j] * out_same[j] + out_same[j]
    ");
}

/// The refusal to hoist from the last stage of a program; `None` if it hoists.
fn refused(body: &str) -> Option<ErrorKind> {
    let mut schedule = Schedule::new(&tvmtune_ir::dsl::program(&program(body)).unwrap());
    let last = StageId(schedule.stages.len() as u32 - 1);
    schedule.hoist_invariant(last).err().map(|it| it.kind)
}

/// Returns whether a quotient by this row-invariant number is hoisted.
fn divides(divisor: &str) -> bool {
    let body = format!("let d = compute(|i| {divisor}); compute(|i, j| x[[i, j]] / d[[i]])");
    refused(&body).is_none()
}

#[test]
fn divisors_are_inverted_that_are_normal_numbers_for_certain() {
    for divisor in [
        "sum(0..N, |j| exp(tanh(x[[i, j]]))) + 1.0",
        "sqrt(mean(0..N, |j| x[[i, j]] * x[[i, j]]) + 1e-5)",
        "max(sqrt(sum(0..N, |j| x[[i, j]] * x[[i, j]])), 1e-12)",
        "max(sum(0..N, |j| abs(x[[i, j]])), 1e-3).min(1e3)",
        "tanh(s[[i]]) + 1.5",
        "sqrt(s[[i]]) + 1e-20",
        "3.0 - erf(s[[i]])",
        "exp2(tanh(s[[i]])) + 1.0",
        "exp_m1(tanh(s[[i]])) + 2.0",
        "2.0 / sqrt(abs(s[[i]]) + 1.0) + 1.0",
        "if s[[i]] > 1.0 { 2.0 } else { 4.0 }",
    ] {
        assert!(divides(divisor), "{divisor}");
    }
}

#[test]
fn divisors_that_may_be_anything_are_not() {
    for divisor in [
        "s[[i]] + 0.0",
        "s[[i]] * s[[i]]",
        // Too small, and too large.
        "s[[i]] * s[[i]] + 1e-38",
        "abs(s[[i]]) + 1.0",
        "exp(s[[i]])",
        "sqrt(s[[i]])",
        "sum(0..N, |j| exp(x[[i, j]])) + 1.0",
        "sum(0..N, |j| tanh(x[[i, j]])) + 2.0",
        "sqrt(s[[i]] + 1e-5) - 1e-5",
        "max(0..N, |j| x[[i, j]])",
        "min(sqrt(s[[i]]) + 1.0, s[[i]])",
        "tanh(s[[i]]) + 1.0",
        "exp_m1(tanh(s[[i]])) + 1.0",
        "log2(abs(s[[i]]) + 1.0) + 1.0",
        "1.0 / (sqrt(s[[i]]) + 1.0)",
        "if s[[i]] > 1.0 { 2.0 } else { s[[i]] }",
    ] {
        assert!(!divides(divisor), "{divisor}");
    }
}

#[test]
fn only_the_sum_of_a_whole_softmax_is_known_to_be_one_at_least() {
    let softmax = |peak: &str, sum: &str| {
        refused(&format!(
            "let m = compute(|i| {peak});
             let t = compute(|i| sum({sum}));
             compute(|i, j| x[[i, j]] / t[[i]])"
        ))
        .is_none()
    };
    let (peak, sum) = ("max(0..N, |j| x[[i, j]])", "0..N, |j| exp(x[[i, j]] - m[[i]])");
    assert!(softmax(peak, sum));
    assert!(!softmax("min(0..N, |j| x[[i, j]])", sum));
    assert!(!softmax("max(0..N, |j| x[[i, j]] * 2.0)", sum));
    assert!(!softmax("max(0..7, |j| b[[j]] + s[[i]])", sum));
    // Without the first column, which may be the largest.
    assert!(!softmax(peak, "1..N, |j| exp(x[[i, j]] - m[[i]])"));
    assert!(!softmax(peak, "0..N, |j| if j > 0 { exp(x[[i, j]] - m[[i]]) } else { 0.0 }"));
    assert!(!softmax(peak, "0..N, |j| exp(x[[i, j]] * 2.0 - m[[i]])"));
    assert!(!softmax(peak, "0..N, |j| exp(m[[i]] - x[[i, j]])"));
}

#[test]
fn only_costly_parts_outside_of_conditions_are_hoisted() {
    let nothing = Some(ErrorKind::NothingInvariant);
    assert_eq!(refused("compute(|i, j| x[[i, j]] * (s[[i]] + 1.0))"), nothing);
    assert_eq!(refused("compute(|i, j| exp(x[[i, j]] + s[[i]] + b[[j]]))"), nothing);
    assert_eq!(refused("compute(|i, j| x[[i, j]] / 3.0)"), nothing);
    let whole = "compute(|i, j| (s[[i]] as i32 / 3 * 3 + b[[j]] as i32) as f32)";
    assert_eq!(refused(whole), nothing);
    assert_eq!(
        refused("compute(|i, j| if j > 3 { exp(s.get([i + 1]).unwrap_or(0.0)) } else { 0.0 })"),
        nothing
    );
    let mut schedule = scheduled(&program(SOFTMAX), "");
    assert_eq!(schedule.hoist_invariant(StageId(0)).err().map(|it| it.kind), nothing);
}

#[test]
fn hoisting_keeps_the_results() {
    let rms = "
        let t = compute(|i| sqrt(mean(0..N, |j| x[[i, j]] * x[[i, j]]) + 1e-5));
        compute(|i, j| x[[i, j]] / t[[i]] * exp(s[[i]]) + b[[j]] / (1.0 + exp(b[[j]])))";
    for (body, lifts) in [(SOFTMAX, 1), (rms, 3)] {
        let program = program(body);
        let last = scheduled(&program, "").order.len() - 1;
        let schedule = scheduled(&program, &format!("hoist_invariant s{last}\n").repeat(lifts));
        let mut again = schedule.clone();
        let last = StageId(last as u32);
        assert_eq!(again.hoist_invariant(last).unwrap_err().kind, ErrorKind::NothingInvariant);
        let shapes: [&[u64]; 3] = [&[5, 7], &[5], &[7]];
        let params: Vec<Array> =
            (1..).zip(shapes).map(|(seed, it)| Array::random(DType::F32, it, seed)).collect();
        let expected = tvmtune_ir::interp::run(&schedule.dag, &[], &params, &[]);
        let got = crate::interp::run(&lower(&schedule), &[], &params, &[]).unwrap();
        assert_eq!(got[0].max_error(&expected[0], 1e-6, 1e-6), None, "{body}");
    }
}

/// A program of operands of a product.
fn product(sum: &str) -> String {
    format!(
        "#[autotune]
         fn f(
             x: Tensor<f32, 3, 8>, w: Tensor<f32, 6, 4>, s: Tensor<f32, 4>, m: Tensor<f32, 3>,
         ) -> Tensor<f32, 3, 4> {{
             compute(|i, j| {sum})
         }}"
    )
}

#[test]
fn operands_of_products_are_computed_once_for_each_element() {
    let sum = "sum(0..6, |k| tanh(x[[i, k + 2]]) * w[[k, j]])";
    insta::assert_snapshot!(nest_of(&product(sum), "hoist_invariant s0"), @r"
    workspace out_same[3, 8]: f32
    for x0 in 0..3
      for x1 in 0..8
        out_same[x0, x1] = tanh(x[x0, x1])
    for i in 0..3
      for j in 0..4
        out[i, j] = 0
        for k in 0..6
          out[i, j] += out_same[i, k + 2] * w[k, j]
    ");
    let sum = "sum(0..6, |k| x[[i, k]] * (if k > j { w[[k, j]] } else { s[[j]] }))";
    insta::assert_snapshot!(nest_of(&product(sum), "hoist_invariant s0"), @r"
    workspace out_same[6, 4]: f32
    for k in 0..6
      for j in 0..4
        out_same[k, j] = select(k > j, w[k, j], s[j])
    for i in 0..3
      for j in 0..4
        out[i, j] = 0
        for k in 0..6
          out[i, j] += x[i, k] * out_same[k, j]
    ");
}

/// A difference costs a load in each iteration, beside its arithmetic.
#[test]
fn differences_of_operands_are_computed_once_for_each_element() {
    let sum = "sum(0..6, |k| x[[i, k]] * (w[[k, j]] - s[[j]]))";
    insta::assert_snapshot!(nest_of(&product(sum), "hoist_invariant s0"), @r"
    workspace out_same[6, 4]: f32
    for k in 0..6
      for j in 0..4
        out_same[k, j] = w[k, j] - s[j]
    for i in 0..3
      for j in 0..4
        out[i, j] = 0
        for k in 0..6
          out[i, j] += x[i, k] * out_same[k, j]
    ");
    // At one index of a tensor, and at a part of it of another.
    let sum = "sum(0..6, |k| (x[[i, k + 2]] - m[[i]]) * w[[k, j]])";
    insta::assert_snapshot!(nest_of(&product(sum), "hoist_invariant s0"), @r"
    workspace out_same[3, 8]: f32
    for x0 in 0..3
      for x1 in 0..8
        out_same[x0, x1] = x[x0, x1] - m[x0]
    for i in 0..3
      for j in 0..4
        out[i, j] = 0
        for k in 0..6
          out[i, j] += out_same[i, k + 2] * w[k, j]
    ");
}

/// One function of other axes, and of other elements, is one stage.
#[test]
fn operands_of_one_function_are_computed_once() {
    let gram = |sum: &str| {
        format!(
            "#[autotune]
             fn f(x: Tensor<f32, 9, 4>, m: Tensor<f32, 4>) -> Tensor<f32, 4, 4> {{
                 compute(|i, j| {sum})
             }}"
        )
    };
    let sum = "sum(0..9, |k| (x[[k, i]] - m[[i]]) * (x[[k, j]] - m[[j]]))";
    insta::assert_snapshot!(nest_of(&gram(sum), "hoist_invariant s0"), @r"
    workspace out_same[9, 4]: f32
    for k in 0..9
      for i in 0..4
        out_same[k, i] = x[k, i] - m[i]
    for i in 0..4
      for j in 0..4
        out[i, j] = 0
        for k in 0..9
          out[i, j] += out_same[k, i] * out_same[k, j]
    ");
    let sum = "sum(0..8, |k| exp(x[[k + 1, i]]) * exp(x[[k, j]]))";
    insta::assert_snapshot!(nest_of(&gram(sum), "hoist_invariant s0"), @r"
    workspace out_same[9, 4]: f32
    for x0 in 0..9
      for x1 in 0..4
        out_same[x0, x1] = exp(x[x0, x1])
    for i in 0..4
      for j in 0..4
        out[i, j] = 0
        for k in 0..8
          out[i, j] += out_same[k + 1, i] * out_same[k, j]
    ");
    // Another function of as much work.
    let sum = "sum(0..9, |k| (x[[k, i]] - m[[i]]) * (m[[j]] - x[[k, j]]))";
    insta::assert_snapshot!(nest_of(&gram(sum), "hoist_invariant s0"), @r"
    workspace out_same[9, 4]: f32
    for k in 0..9
      for i in 0..4
        out_same[k, i] = x[k, i] - m[i]
    for i in 0..4
      for j in 0..4
        out[i, j] = 0
        for k in 0..9
          out[i, j] += out_same[k, i] * (m[j] - x[k, j])
    ");
}

#[test]
fn operands_that_are_no_function_of_elements_stay() {
    let hoist = |sum: &str| {
        let dag = tvmtune_ir::dsl::program(&product(sum)).unwrap();
        Schedule::new(&dag).hoist_invariant(StageId(0)).err().map(|it| it.kind)
    };
    let nothing = Some(ErrorKind::NothingInvariant);
    for sum in [
        // All axes, no work, a sum of indices beside the element.
        "sum(0..6, |k| tanh(x[[i, k]] * w[[k, j]]))",
        "sum(0..6, |k| x[[i, k]] * w[[k, j]])",
        // Little work, of one element.
        "sum(0..6, |k| (x[[i, k]] - 0.5) * w[[k, j]])",
        "sum(0..6, |k| x[[i, k]] * x[[i, k]] * w[[k, j]])",
        "sum(0..6, |k| x.get([i, k + 3]).unwrap_or(0.0) * w[[k, j]])",
        // Only where the condition holds, an element is there.
        "sum(0..9, |k| if k + i < 6 { tanh(x[[i, k]] + s[[0]]) * w[[k, j]] } else { 0.0 })",
        // Elements of one tensor, and of two, at different indices.
        "sum(0..6, |k| tanh(x[[i, k + 2]] + x[[i, k + 1]]) * w[[k, j]])",
        "sum(0..6, |k| tanh(x[[i, k + 2]] + w[[k, 0]]) * w[[k, j]])",
        // Elements of another at a part of the index, of which there are fewer.
        "sum(0..6, |k| tanh(x[[i, k + 2]] + s[[i]]) * w[[k, j]])",
    ] {
        assert_eq!(hoist(sum), nothing, "{sum}");
    }
    // An element is defined wherever it is read.
    assert_eq!(
        hoist("sum(0..9, |k| if k + i < 6 { tanh(x[[i, k]]) * w[[k, j]] } else { 0.0 })"),
        None
    );
}

#[test]
fn elements_that_a_launch_may_not_have_are_not_read_by_their_readers() {
    // A launch of one row has no second row, so the bounds check stays with the read.
    let source = "#[autotune(dims(M = 1..=16))]
        fn f(x: Tensor<f16, M, 8, 10>) -> Tensor<f32, 8> {
            compute(|i| sum(0..10, |k| x.get([1, (i + 1) / 2, i]).unwrap_or(0.0) * 1.0))
        }";
    let dag = tvmtune_ir::dsl::program(source).unwrap();
    let refused = Schedule::new(&dag).hoist_invariant(StageId(0)).err().map(|it| it.kind);
    assert_eq!(refused, Some(ErrorKind::NothingInvariant));
    // A condition on the element itself needs it in any case.
    let source =
        product("sum(0..6, |k| (if x[[i, k]] > 0.0 { exp(x[[i, k]]) } else { 0.5 }) * w[[k, j]])");
    let dag = tvmtune_ir::dsl::program(&source).unwrap();
    Schedule::new(&dag).hoist_invariant(StageId(0)).unwrap();
}

#[test]
fn hoisting_operands_keeps_the_bits() {
    for sum in [
        "sum(0..6, |k| tanh(x[[i, k + 2]]) * w[[k, j]])",
        "sum(0..6, |k| x[[i, k]] * (if k > j { w[[k, j]] } else { s[[j]] }))",
        "sum(0..6, |k| exp(x[[i, k]]) * x[[i, k]] * w[[k, j]])",
        "sum(0..6, |k| (x[[i, k + 2]] - m[[i]]) * w[[k, j]])",
    ] {
        let schedule = scheduled(&product(sum), "hoist_invariant s0");
        let params = (1..)
            .zip([&[3, 8][..], &[6, 4], &[4], &[3]])
            .map(|(seed, shape)| Array::random(DType::F32, shape, seed));
        let params: Vec<Array> = params.collect();
        let run = |it| crate::interp::run(&lower(it), &[], &params, &[]).unwrap();
        assert_eq!(run(&schedule), run(&Schedule::new(&schedule.dag)), "{sum}");
    }
}
