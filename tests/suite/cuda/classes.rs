//! The cases that are checked on GPUs, here by the emulator: one program of each class that users
//! write, at awkward extents, by its default schedule and sampled ones, copies completing early and late.

use tvmtune_acceptance::case::{self, Case, Check, Class};
use tvmtune_acceptance::{bundle, problem::Problem};
use tvmtune_emulator::{Completion, Module, Options, Order};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;

use super::{ptx, target};

/// Checks all cases of a class.
#[track_caller]
fn check(class: Class) {
    let Some(nvrtc) = nvrtc() else { return };
    let cases = case::all().filter(|it| it.class == class);
    for (case, check) in cases.flat_map(|case| case.checks.iter().map(move |it| (case, it))) {
        check_at(nvrtc, case, check);
    }
}

#[track_caller]
fn check_at(nvrtc: &Nvrtc, case: &Case, check: &Check) {
    let problem = Problem::new(case, check.dims).unwrap();
    let scalars = problem.scalars();
    let candidates =
        bundle::checked(&problem, &target()).unwrap_or_else(|why| panic!("{}: {why}", case.name));
    for (_, _, generated) in candidates {
        let source = &generated.unit.source;
        let module = Module::parse(&ptx(nvrtc, &generated, "compute_90")).unwrap();
        for (n, dims) in check.at.iter().enumerate() {
            let params = problem.params(dims);
            let completion = [Completion::Late, Completion::Random(5)][n % 2];
            let order = [Order::Random(3), Order::Descending][n % 2];
            let options = Options { completion, order, ..Options::default() };
            let results = emulate::run(&generated, &module, dims, &params, &scalars, &options)
                .unwrap_or_else(|it| panic!("{it}\n{}\n{source}", generated.nest));
            let difference = problem.difference(dims, &params, &results);
            assert_eq!(difference, None, "{dims:?}\n{}\n{source}", generated.nest);
        }
    }
}

#[test]
fn products_of_f32() {
    check(Class::MatrixF32);
}

#[test]
fn products_by_matrix_instructions() {
    check(Class::MatrixNarrow);
}

#[test]
fn convolutions() {
    check(Class::Convolution);
}

#[test]
fn attention_as_its_parts() {
    check(Class::Attention);
}

#[test]
fn rows() {
    check(Class::Rows);
}

#[test]
fn reductions() {
    check(Class::Reduction);
}

#[test]
fn elementwise_programs() {
    check(Class::Elementwise);
}

#[test]
fn gathers_and_transposes() {
    check(Class::Movement);
}

#[test]
fn reductions_in_pieces() {
    // Of 8192 elements and of what is left, then of all pieces.
    check(
        "#[autotune(dims(N = 1..=40000))]
        fn total(x: Tensor<f32, N>) -> Tensor<f32> {
            compute(|| sum(0..N, |i| x[[i]]) / 3.0)
        }",
        &[&[1], &[8191], &[40000]],
    );
    check(
        "#[autotune(dims(M = 1..=700, N = 20))]
        fn columns(x: Tensor<f16, M, N>) -> Tensor<f16, N> {
            compute(|j| (sum(0..M, |i| x[[i, j]] as f32) / 700.0) as f16)
        }",
        &[&[1], &[513], &[700]],
    );
    check(
        "#[autotune(dims(B = 1..=2, N = 17, K = 1024))]
        fn matvec(x: Tensor<f32, B, K>, w: Weight<f32, K, N>) -> Tensor<f32, B, N> {
            compute(|b, j| sum(0..K, |k| x[[b, k]] * w[[k, j]]))
        }",
        &[&[1], &[2]],
    );
    check(
        "#[autotune(dims(M = 1..=9, N = 24, K = 1000))]
        fn matmul(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| max(sum(0..K, |k| x[[i, k]] * w[[j, k]]), 0.0))
        }",
        &[&[1], &[9]],
    );
    check(
        "#[autotune(dims(M = 1..=20, N = 24, K = 1024))]
        fn matmul(x: Tensor<f16, M, K>, w: Weight<f16, N, K>) -> Tensor<f16, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }",
        &[&[1], &[20]],
    );
}

#[test]
fn reductions_across_memory() {
    check(
        "#[autotune(dims(B = 1..=3, S = 70, D = 24))]
        fn mean_pool(x: Tensor<f16, B, S, D>) -> Tensor<f16, B, D> {
            compute(|b, d| (sum(0..S, |s| x[[b, s, d]] as f32) / 70.0) as f16)
        }",
        &[&[1], &[3]],
    );
    check(
        "#[autotune(dims(M = 1..=100, D = 37))]
        fn moments(x: Tensor<f32, M, D>) -> Tensor<f32, D> {
            let m = compute(|d| sum(0..M, |i| x[[i, d]]) / 100.0);
            compute(|d| sum(0..M, |i| (x[[i, d]] - m[[d]]) * (x[[i, d]] - m[[d]])))
        }",
        &[&[1], &[33], &[100]],
    );
    check(
        "#[autotune(dims(H = 40, B = 5, W = 1..=9))]
        fn corners(x: Tensor<f32, H, W, B>) -> Tensor<f32, B, W> {
            compute(|b, w| max(0..H, |h| x[[h, w, b]]))
        }",
        &[&[1], &[9]],
    );
}
