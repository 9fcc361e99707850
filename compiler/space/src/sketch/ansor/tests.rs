//! The derivations that Ansor's own tests expect, with how each comes about.
//!
//! Source: `tests/python/auto_scheduler/test_auto_scheduler_sketch_generation.py` of TVM 0.16, with
//! its programs and extents, on four cores.

use super::*;
use crate::fits::gpu::fits;
use tvmtune_cuda::grid;
use tvmtune_ir::dsl;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{GpuTarget, Isa};
use tvmtune_schedule::{Schedule, nest};

/// The dag of an annotated function.
fn dag_of(source: &str) -> Dag {
    dsl::program(source).expect("a program")
}

/// The rules of each derivation, in alphabetical order.
fn derived(source: &str, target: &Target) -> Vec<String> {
    let mut all: Vec<String> = derivations(&dag_of(source), target)
        .into_iter()
        .map(|it| it.b.name[1..].join("; "))
        .collect();
    all.sort();
    all
}

fn check(source: &str, expected: &[impl AsRef<str>]) {
    let target = Target::generic(Isa::Avx512);
    let names: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    assert_eq!(derived(source, &target), names);
    let sketches = ansor(&dag_of(source), &target);
    assert_eq!(sketches.len(), expected.len(), "each derivation is a sketch");
}

const MATMUL: &str = "#[autotune(dims(M = 512))]
    fn c(a: Tensor<f32, M, M>, b: Tensor<f32, M, M>) -> Tensor<f32, M, M> {
        compute(|i, j| sum(0..M, |k| a[[i, k]] * b[[k, j]]))
    }";

const FLAT_MATMUL: &str = "#[autotune(dims(M = 8, K = 512))]
    fn c(a: Tensor<f32, M, K>, b: Tensor<f32, K, M>) -> Tensor<f32, M, M> {
        compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
    }";

const TWO_MATMULS: &str = "#[autotune(dims(M = 512))]
    fn e(a: Tensor<f32, M, M>, b: Tensor<f32, M, M>, c: Tensor<f32, M, M>) -> Tensor<f32, M, M> {
        let d = compute(|i, j| sum(0..M, |k| a[[i, k]] * b[[k, j]]));
        compute(|i, j| sum(0..M, |k| d[[i, k]] * c[[k, j]]))
    }";

const CONVOLUTION: &str = "#[autotune(dims(N = 1, H = 56, C = 512, P = 58))]
    fn out(
        x: Tensor<f32, N, C, H, H>, w: Tensor<f32, C, C, 3, 3>,
        bias: Tensor<f32, C>, scale: Tensor<f32, C>, offset: Tensor<f32, C>,
    ) -> Tensor<f32, N, C, H, H> {
        let pad: Tensor<f32, N, C, P, P> =
            compute(|n, c, y, z| x.get([n, c, y - 1, z - 1]).unwrap_or(0.0));
        let conv: Tensor<f32, N, C, H, H> = compute(|n, c, y, z| {
            sum((0..C, 0..3, 0..3), |d, r, s| pad[[n, d, y + r, z + s]] * w[[c, d, r, s]])
        });
        let biased = compute(|n, c, y, z| conv[[n, c, y, z]] + bias[[c]]);
        let scaled = compute(|n, c, y, z| biased[[n, c, y, z]] * scale[[c]]);
        let moved = compute(|n, c, y, z| scaled[[n, c, y, z]] + offset[[c]]);
        compute(|n, c, y, z| max(moved[[n, c, y, z]], 0.0))
    }";

const POOL: &str = "#[autotune(dims(N = 1, H = 56, C = 512, P = 57))]
    fn out(x: Tensor<f32, N, C, H, H>) -> Tensor<f32, N, C, H, H> {
        let pad: Tensor<f32, N, C, P, P> =
            compute(|n, c, y, z| x.get([n, c, y - 1, z - 1]).unwrap_or(-1e38));
        compute(|n, c, y, z| max((0..2, 0..2), |r, s| pad[[n, c, y + r, z + s]]))
    }";

const ROW_MINIMUM: &str = "#[autotune(dims(M = 10, N = 1024))]
    fn c(a: Tensor<f32, M, N>) -> Tensor<f32, M> { compute(|i| min(0..N, |j| a[[i, j]])) }";

const SUM: &str = "#[autotune(dims(N = 128))]
    fn c(a: Tensor<f32, N>) -> Tensor<f32> { compute(|| sum(0..N, |i| a[[i]])) }";

/// A softmax over the last axis of a tensor of that shape.
fn softmax(shape: &str, m: u64, n: u64) -> String {
    let n_outer = shape.split(',').count() - 1;
    let outer = ["h", "i", "k"][..n_outer].join(", ");
    format!(
        "#[autotune(dims(M = {m}, N = {n}))]
        fn y(x: Tensor<f32, {shape}>) -> Tensor<f32, {shape}> {{
            let peak = compute(|{outer}| max(0..N, |j| x[[{outer}, j]]));
            let raised = compute(|{outer}, j| exp(x[[{outer}, j]] - peak[[{outer}]]));
            let total = compute(|{outer}| sum(0..N, |j| raised[[{outer}, j]]));
            compute(|{outer}, j| raised[[{outer}, j]] / total[[{outer}]])
        }}"
    )
}

/// The ways of a reduction in tiles that nothing follows.
const TILED: [&str; 3] = [
    "out: cache write; out_acc: tile, fused at 1",
    "out: cache write; out_acc: tile, fused at 2",
    "out: tile",
];

/// The ways to reduce rows.
fn rows(name: &str) -> [String; 3] {
    [String::new(), format!("{name}: rfactor inner"), format!("{name}: rfactor outer")]
}

/// Each of the ones with each of the others.
fn pairs(first: &[impl AsRef<str>], second: &[impl AsRef<str>]) -> Vec<String> {
    let join = |a: &str, b: &str| {
        if a.is_empty() || b.is_empty() { format!("{a}{b}") } else { format!("{a}; {b}") }
    };
    let with = |a| second.iter().map(move |b| join(a, b.as_ref()));
    let mut all: Vec<String> = first.iter().flat_map(|it| with(it.as_ref())).collect();
    all.sort();
    all
}

#[test]
fn a_product_of_matrices() {
    check(MATMUL, &TILED);
}

#[test]
fn a_product_with_few_elements() {
    let all = [TILED[0], TILED[1], "out: rfactor inner", "out: rfactor outer", TILED[2]];
    check(FLAT_MATMUL, &all);
}

#[test]
fn two_products_of_matrices() {
    let first = TILED.map(|it| it.replace("out", "d"));
    check(TWO_MATMULS, &pairs(&TILED, &first));
}

#[test]
fn a_convolution_with_an_epilogue() {
    check(CONVOLUTION, &["conv: tile", "conv: tile, fused at 1", "conv: tile, fused at 2"]);
}

#[test]
fn a_pool() {
    check(POOL, &[""]);
}

#[test]
fn minima_of_rows() {
    check(ROW_MINIMUM, &rows("out"));
}

#[test]
fn a_softmax() {
    check(&softmax("M, N", 1, 1024), &pairs(&rows("total"), &rows("peak")));
    check(&softmax("M, 12, N, N", 1, 128), &pairs(&rows("total"), &rows("peak")));
}

#[test]
fn a_sum_of_everything() {
    check(SUM, &rows("out"));
}

/// The same for a GPU, on which the default of each sketch runs.
fn check_gpu(source: &str, expected: &[impl AsRef<str>]) {
    let gpu = GpuTarget::generic(Arch { sm: 80, exact: true });
    let names: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    let dag = dag_of(source);
    assert_eq!(derived(source, &gpu.into()), names);
    let sketches = ansor(&dag, &gpu.into());
    assert_eq!(sketches.len(), expected.len(), "each derivation is a sketch");
    for sketch in sketches {
        let trace = sketch.instructions(&sketch.default);
        let nest = nest::lower(&Schedule::replay(&dag, &trace).unwrap());
        let grid = grid::place(&nest).unwrap_or_else(|it| panic!("{it}\n{nest}"));
        assert_eq!(fits(&grid, &gpu), Ok(()), "{nest}");
    }
}

/// The way of a product on a GPU: accumulators in registers, factors in shared memory.
const SHARED: &str = "out: cache write; out_acc: tile, fused at 3; b: shared; a: shared";

#[test]
fn products_of_matrices_on_a_gpu() {
    check_gpu(MATMUL, &[SHARED]);
    check_gpu(&FLAT_MATMUL.replace("512", "1024"), &[SHARED, "out: cross-thread"]);
    let second = "out: cache write; out_acc: tile, fused at 3; d: shared";
    check_gpu(TWO_MATMULS, &[format!("{second}; d: tile; c: shared; b: shared; a: shared")]);
}

#[test]
fn a_convolution_on_a_gpu() {
    // Later stages are inlined, and padding is made on the way to shared memory.
    let expected = ["conv: tile, fused at 3; pad: shared; w: shared"];
    check_gpu(CONVOLUTION, &expected);
    let wide = CONVOLUTION.replace("58", "60").replace("0..3", "0..5").replace("- 1", "- 2");
    check_gpu(&wide.replace("C, 3, 3>", "C, 5, 5>"), &expected);
}

#[test]
fn reductions_of_rows_on_a_gpu() {
    let rows = |name: &str| [String::new(), format!("{name}: cross-thread")];
    check_gpu(POOL, &[""]);
    check_gpu(ROW_MINIMUM, &rows("out"));
    check_gpu(SUM, &rows("out"));
    check_gpu(&softmax("M, N", 2, 1024), &pairs(&rows("total"), &rows("peak")));
}

#[test]
fn derivations_of_many_reductions_are_bounded() {
    let stage =
        |n: usize| format!("let t{} = compute(|i| sum(0..N, |j| x[[i, j]] + t{n}[[i]]));\n", n + 1);
    let stages: String = (0..12).map(stage).collect();
    let source = format!(
        "#[autotune(dims(M = 16, N = 64))]
        fn f(x: Tensor<f32, M, N>, t0: Tensor<f32, M>) -> Tensor<f32, M> {{
            {stages} compute(|i| t12[[i]] + 1.0)
        }}"
    );
    let n = derived(&source, &Target::generic(Isa::Avx512)).len();
    assert!((MAX_DERIVATIONS / 2..=MAX_DERIVATIONS).contains(&n), "{n}");
}
