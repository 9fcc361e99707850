//! The identity of workloads: changes of a program that change it, and changes that do not.

use super::dag;
use crate::workload::{Strength, class, id};

const LINEAR: &str = "
    #[autotune(dims(M = 1..=512, N = 64, K = 32))]
    pub fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, s: f32) -> Tensor<f32, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) * s)
    }";

#[test]
fn identities_are_those_of_the_first_release() {
    insta::assert_snapshot!(id(&dag(LINEAR)), @"0f3aad1b85f612a8bccc48d18a5a8504c79b6b5ea0a1da96393bfca4467b35c8");
    insta::assert_snapshot!(class(&dag(LINEAR), Strength::Shape), @"b51544d3894a993ad769fab8ce2a0388d2e9b308d2a55112f822d558eb92f515");
}

#[test]
fn names_formatting_and_comments_do_not_matter() {
    let linear = id(&dag(LINEAR));
    for same in [
        // Names.
        "#[autotune(dims(A = 1..=512, B = 64, C = 32))]
         fn other(p: Tensor<f32, A, C>, q: Weight<f32, B, C>, r: f32) -> Tensor<f32, A, B> {
             compute(|a, b| sum(0..C, |c| p[[a, c]] * q[[b, c]]) * r)
         }",
        // The formatting of a long closure, and comments.
        "/// Documented.
         #[inline]
         #[tvmtune_runtime::autotune(dims(K = 32, N = 64, M = 1..=512), buckets(M = [1, 64]), tol(rel = 1e-2))]
         pub(crate) fn linear(
             x: Tensor<f32, M, K>,
             w: Weight<f32, N, K>, // weights
             s: f32,
         ) -> Tensor<f32, M, N> {
             let y = compute(|i, j| {
                 sum(0..K, |k| {
                     let product = x[[i, k]] * w[[j, k]];
                     product
                 }) * s
             });
             y
         }",
        // Extents as expressions, and a definition that nothing needs.
        "#[autotune(dims(M = 1..=512, K = 32))]
         fn linear(x: Tensor<f32, M, K>, w: Weight<f32, { K * 2 }, 32>, s: f32) -> Tensor<f32, M, 64> {
             let unused = compute(|i| x[[i, 0]]);
             compute(|i, j| (sum((0..K), |k| x[[i, k]] * w[[j, k]])) * s)
         }",
        // The sum as a tensor of its own.
        "#[autotune(dims(M = 1..=512, N = 64, K = 32))]
         fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, s: f32) -> Tensor<f32, M, N> {
             let h: Tensor<f32, M, N> = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]));
             compute(|i, j| h[[i, j]] * s)
         }",
    ] {
        assert_eq!(id(&dag(same)), linear, "{same}");
    }
}

#[test]
fn every_change_of_meaning_changes_the_identity() {
    let mut seen = std::collections::BTreeMap::from([(id(&dag(LINEAR)), LINEAR.to_owned())]);
    for (from, to) in [
        ("1..=512", "1..=511"),
        ("1..=512", "2..=512"),
        ("N = 64", "N = 65"),
        ("K = 32", "K = 33"),
        ("M = 1..=512", "M = 512"),
        ("Weight<", "Tensor<"),
        ("w: Weight<f32", "w: Weight<f16"),
        ("-> Tensor<f32", "-> Tensor<f16"),
        ("sum(", "max("),
        (" * s)", " + s)"),
        (" * s)", ")"),
        ("s: f32", "s: f32, t: f32"),
        (" * w[[j, k]])", " - w[[j, k]])"),
        ("x[[i, k]] *", "x[[i, K - 1 - k]] *"),
        ("sum(0..K", "sum(1..K"),
        (" * s)", " * s * 2.0)"),
        (" * s)", " * s * 2.5)"),
        (" * s)", " * s * (i as f32))"),
        ("x[[i, k]] *", "x.get([i, k + 1]).unwrap_or(0.0) *"),
        ("x[[i, k]] *", "x.get([i, k + 1]).unwrap_or(1.0) *"),
    ] {
        let changed = LINEAR.replace(from, to);
        assert_ne!(changed, LINEAR);
        if let Some(same) = seen.insert(id(&dag(&changed)), changed.clone()) {
            panic!("{changed}\nhas the identity of {same}");
        }
    }
}

#[test]
fn a_class_leaves_extents_out_and_nothing_else() {
    let conv = |b: &str, c: u32, h: u32, pad: u32| {
        format!(
            "#[autotune(dims(B = {b}, C = {c}, H = {h}, T = 3))]
             fn conv(x: Tensor<f32, B, C, H>, w: Weight<f32, C, C, T>) -> Tensor<f32, B, C, H> {{
                 compute(|n, o, y| sum((0..C, 0..T), |c, r| {{
                     x.get([n, c, y + r - {pad}]).unwrap_or(0.0) * w[[o, c, r]]
                 }}) / {c}.0)
             }}"
        )
    };
    let one = class(&dag(&conv("1..=8", 64, 56, 1)), Strength::Shape);
    assert_eq!(class(&dag(&conv("4", 512, 7, 1)), Strength::Shape), one);
    assert_ne!(
        class(&dag(&conv("1..=8", 64, 56, 2)), Strength::Shape),
        one,
        "padding is structure"
    );
    assert_ne!(class(&dag(LINEAR), Strength::Shape), one);
    let text = crate::dag::print::class(&dag(&conv("1..=8", 64, 56, 1)));
    insta::assert_snapshot!(text, @r#"
    tvmtune class v1
    input t0: f32[_, _, _]
    weight t1: f32[_, _, _]
    t2: f32[_, _, _] = sum(v3 < _, v4 < _) mul(select(and(ge(index(-1 + v2 + v4), _), lt(index(-1 + v2 + v4), _)), t0[v0, v3, -1 + v2 + v4], __f32), t1[v1, v3, v4])
    t3: f32[_, _, _] = div(t2[v0, v1, v2], __f32)
    return t3
    "#);
}
