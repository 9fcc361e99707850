//! Mistakes in dimensions that begin at others.

use super::language::item;
use super::rustc::Case;

/// A program over `x: f32[M, S]` and `b: f32[T]` with these dimensions beside `M`.
fn dims(mistake: &'static str, dims: &str) -> Case {
    let source = format!(
        "#[autotune(dims(M = 1..=64, {dims}))]\n\
         pub fn f(x: Tensor<f32, M, S>, b: Tensor<f32, T>) -> Tensor<f32, M, T> {{\n    \
         compute(|i, t| x[[i, t]] * b[[t]])\n}}"
    );
    item(mistake, dims, &source)
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        dims("a capacity that may be less than what is used", "T = 1..=64, S = 1..=128"),
        dims("a dimension that begins at a later one", "S = T..=128, T = 1..=64"),
        dims("a capacity that ends before the length", "T = 1..=64, S = T..=63"),
        dims("a length up to a capacity", "S = 1..=128, T = 1..=S"),
        dims("a dimension that begins at two", "T = 1..=64, S = T + M..=256"),
        dims("a dimension that begins where another one ends", "T = 1..=64, S = 65 - T..=128"),
        dims("a half-open range from a dimension", "T = 1..=64, S = T..128"),
        dims("a range that may begin at 0", "T = 1..=64, S = T - 1..=128"),
    ]
}
