//! Mistakes beyond the limits of programs: numbers, and depth.

use super::language::item;
use super::rustc::Case;

/// All cases.
pub(super) fn cases() -> Vec<Case> {
    let one = |mistake, signature: &str, attribute: &str, body: &str| {
        item(
            mistake,
            &format!("{signature} {{ {body} }}"),
            &format!("{attribute}\n{signature} {{ {body} }}"),
        )
    };
    let dims = "#[autotune(dims(M = 1..=64))]";
    let wide = "#[autotune(dims(M = 1..=2147483647))]";
    vec![
        one(
            "the least integer as an extent",
            "pub fn f(x: Tensor<f32, M, -9223372036854775808>) -> Tensor<f32, M>",
            dims,
            "compute(|i| x[[i, 0]])",
        ),
        one(
            "a parameter larger than any memory",
            "pub fn f(x: Tensor<f32, M, { M * M }>) -> Tensor<f32, M>",
            wide,
            "compute(|i| x[[i, 0]])",
        ),
        one(
            "an intermediate tensor larger than any memory",
            "pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M>",
            wide,
            "let t = compute(|i, j| x[[i]] * x[[j]]);\n    compute(|i| x[[i]] + t[[0, 0]])",
        ),
        one(
            "indices far outside",
            "pub fn f(x: Tensor<f32, M, 4096>) -> Tensor<f32, M>",
            dims,
            "compute(|i| x.get([i * 1000000000000, 0]).unwrap_or(0.0))",
        ),
        one(
            "a range without end",
            "pub fn f(x: Tensor<f32, M>) -> Tensor<f32, M>",
            dims,
            "compute(|i| sum(0..140737488355329, |_| x[[i]]))",
        ),
        item(
            "3,000 calls in one another",
            "relu(relu(relu(relu(",
            &format!(
                "{dims}\npub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> {{\n    compute(|i| {}x[[i]]{})\n}}",
                "relu(".repeat(3000),
                ")".repeat(3000)
            ),
        ),
        item(
            "a choice of 100,000",
            "else if i < 1 { 0.0 } else if i < 1 { 0.0 }",
            &format!(
                "{dims}\npub fn f(x: Tensor<f32, M>) -> Tensor<f32, M> {{\n    compute(|i| if i < 1 {{ 0.0 }} {} else {{ x[[i]] }})\n}}",
                "else if i < 1 { 0.0 } ".repeat(100_000)
            ),
        ),
    ]
}
