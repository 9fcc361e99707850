//! Step 11 of 12: expands `#[autotune]`.
//!
//! Users get the attribute through `tvmtune_runtime::autotune`, whose crate documents what it
//! generates.

#![forbid(unsafe_code)]

mod compiler;
mod constants;
mod emit;
mod expand;
mod expanded;
mod functions;
mod infer;
mod inline;
mod operand;
mod parent;
mod plan;
mod script;
mod scripted;
mod stub;

use proc_macro::TokenStream;

/// Turns a tensor program into a tuned kernel: a function and a module of the same name.
///
/// ```text
/// #[autotune(dims(M = 1..=512, N = 1536, K = 384), buckets(M = [1, 16, 64, 256, 512]))]
/// pub fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
///     compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
/// }
/// ```
///
/// | argument | meaning |
/// |---|---|
/// | `dims(M = 1..=512, N = 64)` | extents: a range is known at launch only, an integer or a constant of the crate is baked in |
/// | `buckets(M = [16, 512])` | upper ends of the ranges in which schedules may differ |
/// | `types(W in [f32, bf16])` | element types that `W` stands for: a program for each |
/// | `accum = f32` | the type that sums of small floats accumulate in |
/// | `tol(rel = 1e-3, abs = 1e-5)` | how far tuned results may be from the reference |
/// | `crate = ::path` | where the crate `tvmtune_runtime` is, if it goes by another name |
#[proc_macro_attribute]
pub fn autotune(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::autotune(options.into(), item.into()).into()
}

/// Makes a function one that programs may call: `#[autotune::inline] fn gate(x: f32) -> f32 { .. }`.
///
/// ```text
/// #[autotune::inline]
/// fn gate(x: f32) -> f32 {
///     x * sigmoid(1.702 * x)
/// }
///
/// #[autotune(dims(M = 1..=512, N = 1536))]
/// fn activation(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
///     compute(|i, j| gate(x[[i, j]]))
/// }
/// ```
///
/// Its body is an expression of the language, of numbers that are its parameters. An op that calls it means
/// what it would mean with the body in the place of the call. It is a function of Rust as well.
///
/// | argument | meaning |
/// |---|---|
/// | `crate = ::path` | where the crate `tvmtune_runtime` is, if it goes by another name |
#[proc_macro_attribute]
pub fn autotune_inline(options: TokenStream, item: TokenStream) -> TokenStream {
    inline::inline(options.into(), item.into()).into()
}
