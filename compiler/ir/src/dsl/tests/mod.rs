//! The meaning of programs, as canonical text; see the modules for errors, values and identity.

mod errors;
mod functions;
mod fuzz;
mod identity;
mod in_place;
mod index_choices;
mod instances;
mod language;
mod library;
mod lower_ends;
mod reductions;
mod scan;
mod template;
mod top;
mod values;

use super::{ParamKind, program};
use crate::dag::{DType, Dag, ScalarId, TensorId, print, verify};

fn dag(source: &str) -> Dag {
    let dag = program(source).unwrap_or_else(|error| panic!("{}", errors::render(source, error)));
    assert_eq!(verify(&dag), [], "{source}");
    dag
}

fn computes(source: &str) -> String {
    let text = print::canonical(&dag(source));
    let is_compute = |it: &&str| it.contains(" = ") || it.starts_with("return");
    text.lines().filter(is_compute).collect::<Vec<_>>().join("\n")
}

/// The computes of a program over `x: f32[M, 8]`, `h: f16[M, 8]` and `n: i32[M]` with this body.
fn body(result: &str, body: &str) -> String {
    computes(&with_body(result, body))
}

fn with_body(result: &str, body: &str) -> String {
    format!(
        "#[autotune(dims(M = 1..=64, K = 8))]
         fn f(x: Tensor<f32, M, K>, h: Tensor<f16, M, K>, n: Tensor<i32, M>, eps: f32) -> {result} {{
             {body}
         }}"
    )
}

#[test]
fn the_programs_of_the_front_page() {
    insta::assert_snapshot!(print::canonical(&dag("
        #[autotune(dims(M = 1..=512, N = 1536, K = 384), buckets(M = [1, 16, 64, 256, 512]))]
        pub fn linear_gelu(
            x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>,
        ) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
            compute(|i, j| gelu(h[[i, j]]))
        }")), @r#"
    tvmtune dag v1
    dim d0 in 1..=512
    input t0: f32[d0, 384]
    weight t1: f32[1536, 384]
    weight t2: f32[1536]
    t3: f32[d0, 1536] = sum(v2 < 384) mul(t0[v0, v2], t1[v1, v2])
    t4: f32[d0, 1536] = add(t3[v0, v1], t2[v1])
    t5: f32[d0, 1536] = mul(mul(0.5_f32, t4[v0, v1]), add(1.0_f32, erf(mul(t4[v0, v1], 0.70710677_f32))))
    return t5
    "#);
    insta::assert_snapshot!(print::canonical(&dag("
        #[autotune(dims(R = 1..=8192, D = 384))]
        pub fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
            let s = compute(|r| sum(0..D, |d| e[[r, d]]));
            compute(|r, d| e[[r, d]] / s[[r]])
        }")), @r#"
    tvmtune dag v1
    dim d0 in 1..=8192
    input t0: f32[d0, 384]
    t1: f32[d0] = max(v1 < 384) t0[v0, v1]
    t2: f32[d0, 384] = exp(sub(t0[v0, v1], t1[v0]))
    t3: f32[d0] = sum(v1 < 384) t2[v0, v1]
    t4: f32[d0, 384] = div(t2[v0, v1], t3[v0])
    return t4
    "#);
    insta::assert_snapshot!(print::canonical(&dag("
        #[autotune(dims(B = 1..=8, C = 64, H = 56, W = 56, O = 64, T = 3))]
        pub fn conv3x3(
            x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C, T, T>,
        ) -> Tensor<f32, B, O, H, W> {
            compute(|n, o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }")), @r#"
    tvmtune dag v1
    dim d0 in 1..=8
    input t0: f32[d0, 64, 56, 56]
    weight t1: f32[64, 64, 3, 3]
    t2: f32[d0, 64, 56, 56] = sum(v4 < 64, v5 < 3, v6 < 3) mul(select(and(and(and(ge(index(v2 + v5 - 1), index(0)), lt(index(v2 + v5 - 1), index(56))), ge(index(v3 + v6 - 1), index(0))), lt(index(v3 + v6 - 1), index(56))), t0[v0, v4, v2 + v5 - 1, v3 + v6 - 1], 0.0_f32), t1[v1, v4, v5, v6])
    return t2
    "#);
}

#[test]
fn nested_sums_are_one_and_other_reductions_stand_alone() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| sum(0..M, |a| sum(0..K, |b| x[[a, b]] * x[[i, b]])))"), @r#"
    t3: f32[d0] = sum(v1 < d0, v2 < 8) mul(t0[v1, v2], t0[v0, v2])
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| max(0..M, |a| sum(0..K, |b| x[[a, b]] * x[[i, b]])))"), @r#"
    t3: f32[d0, d0] = sum(v2 < 8) mul(t0[v1, v2], t0[v0, v2])
    t4: f32[d0] = max(v1 < d0) t3[v0, v1]
    return t4
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M, K>",
        "compute(|i, j| x[[i, j]] / sum(0..K, |k| x[[i, k]]) + sum(0..K, |q| x[[i, q]]))"), @r#"
    t3: f32[d0] = sum(v1 < 8) t0[v0, v1]
    t4: f32[d0, 8] = add(div(t0[v0, v1], t3[v0]), t3[v0])
    return t4
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| mean((0..M, 1..K), |a, b| x[[a, b]] * x[[i, 0]]))"), @r#"
    t3: f32[d0] = sum(v1 < d0, v2 < 7) mul(t0[v1, v2 + 1], t0[v0, 0])
    t4: f32[d0] = div(t3[v0], f32(index(7*d0)))
    return t4
    "#);
}

#[test]
fn a_reduction_that_is_the_whole_definition_is_the_compute() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "let s = compute(|i| sum(0..K, |k| x[[i, k]])); s"), @r#"
    t3: f32[d0] = sum(v1 < 8) t0[v0, v1]
    return t3
    "#);
    insta::assert_snapshot!(body("(Tensor<f32, M>, Tensor<f32, M>)",
        "let s = compute(|i| sum(0..K, |k| x[[i, k]]));
         let t = compute(|i| s[[i]]);
         (s, t)"), @r#"
    t3: f32[d0] = sum(v1 < 8) t0[v0, v1]
    t4: f32[d0] = t3[v0]
    return t3, t4
    "#);
    insta::assert_snapshot!(body("Tensor<f32>", "compute(|| sum(0..M, |i| x[[i, 0]]))"), @r#"
    t3: f32[] = sum(v0 < d0) t0[v0, 0]
    return t3
    "#);
}

#[test]
fn argmax_is_a_maximum_and_the_least_index_that_has_it() {
    insta::assert_snapshot!(body("Tensor<i32, M>",
        "compute(|i| argmax(0..K, |k| x[[i, k]]) as i32)"), @r#"
    t3: f32[d0] = max(v1 < 8) t0[v0, v1]
    t4: i32[d0] = min(v1 < 8) select(eq(t0[v0, v1], t3[v0]), i32(index(v1)), 7_i32)
    return t4
    "#);
    insta::assert_snapshot!(body("Tensor<i64, M>",
        "compute(|i| argmin(2..K, |k| h[[i, k]] * 2.0))"), @r#"
    t3: f32[d0, 6] = mul(f32(t1[v0, v1 + 2]), 2.0_f32)
    t4: f32[d0] = min(v1 < 6) t3[v0, v1]
    t5: i32[d0] = min(v1 < 6) select(eq(t3[v0, v1], t4[v0]), i32(index(v1 + 2)), 7_i32)
    t6: i64[d0] = i64(t5[v0])
    return t6
    "#);
}

#[test]
fn halves_are_widened_when_read_and_rounded_when_stored() {
    insta::assert_snapshot!(body("Tensor<f16, M, K>", "compute(|i, j| h[[i, j]] * 2.0 + eps)"), @r#"
    t3: f16[d0, 8] = f16(add(mul(f32(t1[v0, v1]), 2.0_f32), s0))
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f16, M>", "compute(|i| sum(0..K, |k| h[[i, k]]))"), @r#"
    t3: f32[d0] = sum(v1 < 8) f32(t1[v0, v1])
    t4: f16[d0] = f16(t3[v0])
    return t4
    "#);
    insta::assert_snapshot!(body("Tensor<bf16, M, K>",
        "let c = compute(|i, j| h[[i, j]]);
         let d = compute(|i, j| (c[[i, j]] + 1.0) as f16);
         compute(|i, j| d[[i, j]])"), @r#"
    t3: f16[d0, 8] = t1[v0, v1]
    t4: f16[d0, 8] = f16(add(f32(t3[v0, v1]), 1.0_f32))
    t5: bf16[d0, 8] = bf16(f32(t4[v0, v1]))
    return t5
    "#);
}

#[test]
fn halves_are_converted_by_way_of_f32_alone() {
    insta::assert_snapshot!(body("(Tensor<f16, M>, Tensor<f64, M>)",
        "(compute(|i| (n[[i]] as f64 / 3.0) as f16), compute(|i| h[[i, 0]] as f64))"), @r#"
    t3: f16[d0] = f16(f32(div(f64(t2[v0]), 3.0_f64)))
    t4: f64[d0] = f64(f32(t1[v0, 0]))
    return t3, t4
    "#);
}

#[test]
fn accumulation_in_f64_casts_on_the_way_in_and_out() {
    insta::assert_snapshot!(computes("
        #[autotune(dims(M = 1..=64, K = 8), accum = f64)]
        fn f(x: Tensor<f32, M, K>) -> Tensor<f32> {
            compute(|| sum(0..M, |i| sum(0..K, |k| x[[i, k]])))
        }"), @r#"
    t1: f64[] = sum(v0 < d0, v1 < 8) f64(t0[v0, v1])
    t2: f32[] = f32(t1[])
    return t2
    "#);
}

#[test]
fn reads_that_may_fall_outside_ask_for_what_can_fail_and_no_more() {
    insta::assert_snapshot!(body("Tensor<f32, M, K>",
        "compute(|i, j| x.get([i, j]).unwrap_or(0.0) + x.get([i, j + 1]).unwrap_or(1.5))"), @r#"
    t3: f32[d0, 8] = add(t0[v0, v1], select(lt(index(v1 + 1), index(8)), t0[v0, v1 + 1], 1.5_f32))
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M, K>",
        "compute(|i, j| x.get([n[[i]], j]).unwrap_or(f32::NEG_INFINITY))"), @r#"
    t3: f32[d0, 8] = select(and(ge(t2[v0], 0_i32), lt(t2[v0], i32(index(d0)))), t0[t2[v0], v1], -inf_f32)
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f16, M>",
        "compute(|i| h.get([i, n[[i]] as usize]).unwrap_or(0.0))"), @r#"
    t3: f16[d0] = f16(select(and(ge(t2[v0], 0_i32), lt(t2[v0], 8_i32)), f32(t1[v0, t2[v0]]), 0.0_f32))
    return t3
    "#);
}

#[test]
fn conditions_prove_what_stands_behind_them() {
    insta::assert_snapshot!(body("Tensor<f32, M, K>",
        "compute(|i, j| if i >= 1 && !(j == 0) { x[[i - 1, j]] } else if j < K - 1 { x[[i, j + 1]] } else { 0.0 })"), @r#"
    t3: f32[d0, 8] = select(and(ge(index(v0), index(1)), ne(index(v1), index(0))), t0[v0 - 1, v1], select(lt(index(v1), index(7)), t0[v0, v1 + 1], 0.0_f32))
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| x[[i, n[[i]].clamp(0, K as i32 - 1)]])"), @r#"
    t3: f32[d0] = t0[v0, min(max(t2[v0], 0_i32), 7_i32)]
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| if n[[i]] >= 0 && n[[i]] < 8 { x[[i, n[[i]]]] } else { 0.0 })"), @r#"
    t3: f32[d0] = select(and(ge(t2[v0], 0_i32), lt(t2[v0], 8_i32)), t0[v0, t2[v0]], 0.0_f32)
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M, K>",
        "compute(|i, j| if j != 0 { x[[i, j - 1]] } else { x[[i, abs(j - 3)]] })"), @r#"
    t3: f32[d0, 8] = select(ne(index(v1), index(0)), t0[v0, v1 - 1], t0[v0, -v1 + 3])
    return t3
    "#);
}

#[test]
fn indices_are_exact_and_divide() {
    insta::assert_snapshot!(computes("
        #[autotune(dims(M = 1..=64, S = 4))]
        fn heads(x: Tensor<f32, M, { S * 64 }>) -> Tensor<f32, S, M, 64> {
            let y: Tensor<f32, M, S, 64> = compute(|m, s, d| x[[m, s * 64 + d]]);
            let z: Tensor<f32, M, { S * 64 }> = compute(|m, c| y[[m, c / 64, c % 64]]);
            compute(|s, m, d| z[[m, s * 64 + d]] + (s.min(2) + M) as f32)
        }"), @r#"
    t1: f32[d0, 4, 64] = t0[v0, 64*v1 + v2]
    t2: f32[d0, 256] = t1[v0, ((v1)/(64)), ((v1)%(64))]
    t3: f32[4, d0, 64] = add(t2[v1, 64*v0 + v2], f32(index(d0 + (min(v0, 2)))))
    return t3
    "#);
}

#[test]
fn numbers_take_their_type_from_what_they_meet() {
    insta::assert_snapshot!(body("Tensor<f64, M>",
        "let one = 1.0; let third = one / 3.0;
         compute(|i| x[[i, 0]] as f64 * third + 1e-3)"), @r#"
    t3: f64[d0] = add(mul(f64(t0[v0, 0]), 0.3333333333333333_f64), 0.001_f64)
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<i32, M>",
        "compute(|i| { let a = n[[i]] / 2 % 3; let b: i32 = a.max(1) * -1; if b > 0 { b } else { 7 } })"), @r#"
    t3: i32[d0] = select(gt(mul(max(rem(div(t2[v0], 2_i32), 3_i32), 1_i32), -1_i32), 0_i32), mul(max(rem(div(t2[v0], 2_i32), 3_i32), 1_i32), -1_i32), 7_i32)
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<bool, M>",
        "compute(|i| any(0..K, |k| x[[i, k]] > 0.5 || k > i) && !(n[[i]] == 3))"), @r#"
    t3: bool[d0] = any(v1 < 8) or(gt(t0[v0, v1], 0.5_f32), gt(index(v1), index(v0)))
    t4: bool[d0] = and(t3[v0], ne(t2[v0], 3_i32))
    return t4
    "#);
    insta::assert_snapshot!(body("Tensor<i8, M>",
        "compute(|i| (x[[i, 0]] / eps).round_ties_even().clamp(-128.0, 127.0) as i8)"), @r#"
    t3: i8[d0] = i8(min(max(round(div(t0[v0, 0], s0)), -128.0_f32), 127.0_f32))
    return t3
    "#);
}

#[test]
fn functions_expand_into_operations() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| silu(x[[i, 0]]) + sigmoid(x[[i, 1]]) + relu(x[[i, 2]]) + x[[i, 3]].powi(3))"), @r#"
    t3: f32[d0] = add(add(add(div(t0[v0, 0], add(1.0_f32, exp(neg(t0[v0, 0])))), div(1.0_f32, add(1.0_f32, exp(neg(t0[v0, 1]))))), max(t0[v0, 2], 0.0_f32)), mul(t0[v0, 3], mul(t0[v0, 3], t0[v0, 3])))
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| gelu_tanh(x[[i, 0]]).mul_add(eps, x[[i, 1]].powi(-2)).powf(0.5))"), @r#"
    t3: f32[d0] = pow(add(mul(mul(mul(0.5_f32, t0[v0, 0]), add(1.0_f32, tanh(mul(0.7978846_f32, add(t0[v0, 0], mul(0.044715_f32, mul(mul(t0[v0, 0], t0[v0, 0]), t0[v0, 0]))))))), s0), div(1.0_f32, mul(t0[v0, 1], t0[v0, 1]))), 0.5_f32)
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| exp2(x[[i, 0]]) + x[[i, 1]].exp_m1() * log2(x[[i, 2]]) - softplus(x[[i, 3]]))"), @r#"
    t3: f32[d0] = sub(add(exp2(t0[v0, 0]), mul(exp_m1(t0[v0, 1]), log2(t0[v0, 2]))), add(max(t0[v0, 3], 0.0_f32), ln_1p(exp(neg(abs(t0[v0, 3]))))))
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| leaky_relu(x[[i, 0]], 0.01) + hardsigmoid(x[[i, 1]]) + hardswish(x[[i, 2]]).recip())"), @r#"
    t3: f32[d0] = add(add(select(gt(t0[v0, 0], 0.0_f32), t0[v0, 0], mul(0.01_f32, t0[v0, 0])), div(select(lt(add(t0[v0, 1], 3.0_f32), 0.0_f32), 0.0_f32, select(gt(add(t0[v0, 1], 3.0_f32), 6.0_f32), 6.0_f32, add(t0[v0, 1], 3.0_f32))), 6.0_f32)), div(1.0_f32, mul(t0[v0, 2], div(min(max(add(t0[v0, 2], 3.0_f32), 0.0_f32), 6.0_f32), 6.0_f32))))
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>", "compute(|i| mish(x[[i, 0]]))"), @r#"
    t3: f32[d0] = mul(t0[v0, 0], div(mul(exp(min(t0[v0, 0], 20.0_f32)), add(exp(min(t0[v0, 0], 20.0_f32)), 2.0_f32)), add(mul(exp(min(t0[v0, 0], 20.0_f32)), add(exp(min(t0[v0, 0], 20.0_f32)), 2.0_f32)), 2.0_f32)))
    return t3
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>", "compute(|i| round(x[[i, 0]]))"), @r#"
    t3: f32[d0] = select(lt(t0[v0, 0], 0.0_f32), neg(select(ge(sub(abs(t0[v0, 0]), floor(abs(t0[v0, 0]))), 0.5_f32), add(floor(abs(t0[v0, 0])), 1.0_f32), floor(abs(t0[v0, 0])))), select(gt(t0[v0, 0], 0.0_f32), select(ge(sub(abs(t0[v0, 0]), floor(abs(t0[v0, 0]))), 0.5_f32), add(floor(abs(t0[v0, 0])), 1.0_f32), floor(abs(t0[v0, 0]))), t0[v0, 0]))
    return t3
    "#);
}

#[test]
fn dead_computes_are_dropped_and_equal_definitions_are_shared() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "let unused = compute(|i| exp(x[[i, 0]]));
         let a = compute(|i| sum(0..K, |k| x[[i, k]]));
         let b = compute(|q| sum(0..K, |r| x[[q, r]]));
         compute(|i| a[[i]] * b[[i]] * 1.0)"), @r#"
    t3: f32[d0] = sum(v1 < 8) t0[v0, v1]
    t4: f32[d0] = mul(t3[v0], t3[v0])
    return t4
    "#);
}

#[test]
fn a_bucket_knows_more_than_the_whole_range() {
    let dag = dag("
        #[autotune(dims(M = 1..=64))]
        fn f(x: Tensor<f32, M>) -> Tensor<f32, M> {
            compute(|i| x.get([i + 8]).unwrap_or(0.0) + x.get([7 - i]).unwrap_or(0.0))
        }");
    let narrow = dag.specialize(&[crate::poly::Interval { lo: 1, hi: 8 }]);
    assert_eq!(verify(&narrow), []);
    insta::assert_snapshot!(print::canonical(&narrow), @r#"
    tvmtune dag v1
    dim d0 in 1..=8
    input t0: f32[d0]
    t1: f32[d0] = add(0.0_f32, select(lt(index(-v0 + 7), index(d0)), t0[-v0 + 7], 0.0_f32))
    return t1
    "#);
}

#[test]
fn a_program_knows_its_signature() {
    let function: syn::ItemFn = syn::parse_str(
        "/// Documented.
         #[autotune(dims(N = 4, M = 1..=512), buckets(M = [1, 16, 64]), tol(abs = 1e-2), crate = ::other)]
         #[inline]
         pub(crate) fn f(eps: f32, x: Tensor<f32, N, M>, w: Weight<bf16, { N * 2 }>) -> (Tensor<f32, M>, Tensor<f16, N>) {
             (compute(|m| x[[0, m]] * eps), compute(|n| w[[n]]))
         }",
    )
    .unwrap();
    let options = super::attribute(&function).unwrap().unwrap();
    let Ok(program) = super::parse(options, &function) else { panic!("the program is right") };
    assert_eq!(program.attributes.len(), 2);
    let params = program.params.iter().map(|it| (it.ident.to_string(), it.kind, it.dtype));
    let expected = [
        ("eps".to_owned(), ParamKind::Scalar(ScalarId(0)), DType::F32),
        ("x".to_owned(), ParamKind::Input(TensorId(0)), DType::F32),
        ("w".to_owned(), ParamKind::Weight(TensorId(1)), DType::Bf16),
    ];
    assert_eq!(params.collect::<Vec<_>>(), expected);
    let buckets = program.buckets();
    let ends: Vec<_> = buckets[0].iter().map(|it| (it.lo, it.hi)).collect();
    assert_eq!(ends, [(1, 1), (2, 16), (17, 64), (65, 512)]);
    let tolerance = program.tolerance();
    assert_eq!((tolerance.rel, tolerance.abs), (2e-3, 1e-2));
    assert!(program.options.krate.is_some());
    assert_eq!(program.outputs.len(), 2);
}
