//! One program of each class that users write, at awkward extents: default schedules and sampled
//! ones, copies completing early and late.

use tvmtune_core::codegen::generate_cuda;
use tvmtune_core::dag::{self, Dag};
use tvmtune_core::interp::{self, Array};
use tvmtune_core::schedule::{Schedule, default};
use tvmtune_core::target::gpu::{Arch, GpuTarget};
use tvmtune_emulator::{Completion, Module, Options, Order};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::{emulate, program};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::ptx;

/// Points of a program's sketches beside the default schedule.
const POINTS: u64 = 3;

fn params(dag: &Dag, dims: &[i64]) -> Vec<Array> {
    let param = |(seed, id)| {
        let tensor = dag.tensor(id);
        let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
        match tensor.dtype.is_float() {
            true => Array::random(tensor.dtype, &shape, seed),
            false => Array::whole_numbers(tensor.dtype, &shape, seed),
        }
    };
    (1..).zip(dag.params()).map(param).collect()
}

#[track_caller]
fn check(text: &str, dims: &[&[i64]]) {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dag::build(&program(text)).unwrap();
    let target = GpuTarget::generic(Arch { sm: 90, exact: true }).into();
    let space = Space::new(&dag, &target);
    let mut random = Random::new(11);
    let sampled = (0..POINTS).map(|_| space.instructions(&space.random(&mut random)));
    let sampled = sampled.filter_map(|it| Schedule::replay(&dag, &it).ok());
    let schedules = std::iter::once(default::schedule(&dag, &target)).chain(sampled);
    for (n, schedule) in schedules.enumerate() {
        let generated = match generate_cuda(&schedule) {
            Ok(generated) => generated,
            Err(why) => {
                assert!(n > 0, "the default schedule cannot be placed: {why}");
                continue;
            }
        };
        if generated.grid.kernels.iter().any(|it| it.shared_bytes > 227 * 1024) {
            assert!(n > 0, "the default schedule wants too much shared memory");
            continue;
        }
        let source = &generated.unit.source;
        let module = Module::parse(&ptx(nvrtc, &generated, "compute_90")).unwrap();
        for (n, dims) in dims.iter().enumerate() {
            let params = params(&dag, dims);
            let expected = interp::dag::run(&dag, dims, &params, &[]);
            let completion = [Completion::Late, Completion::Random(5)][n % 2];
            let order = [Order::Random(3), Order::Descending][n % 2];
            let options = Options { completion, order, ..Options::default() };
            let results = emulate::run(&generated, &module, dims, &params, &[], &options)
                .unwrap_or_else(|it| panic!("{it}\n{}\n{source}", generated.nest));
            for (result, expected) in results.iter().zip(&expected) {
                let error = result.max_error(expected, 2e-3, 1e-4);
                assert_eq!(error, None, "{dims:?}\n{}\n{source}", generated.nest);
            }
        }
    }
}

#[test]
fn convolutions() {
    check(
        "#[autotune(dims(B = 1..=2, C = 5, H = 9, W = 11, O = 7, T = 3))]
        fn conv(x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C, T, T>) -> Tensor<f32, B, O, H, W> {
            compute(|n, o, y, p| max(sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }), 0.0))
        }",
        &[&[1], &[2]],
    );
}

#[test]
fn depthwise_convolutions() {
    check(
        "#[autotune(dims(C = 6, H = 10, W = 12))]
        fn depthwise(x: Tensor<f32, C, H, W>, w: Weight<f32, C, 3, 3>) -> Tensor<f32, C, H, W> {
            compute(|c, y, p| sum((0..3, 0..3), |r, s| {
                x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[c, r, s]]
            }))
        }",
        &[&[]],
    );
}

#[test]
fn attention_as_its_parts() {
    check(
        "#[autotune(dims(H = 2, S = 1..=20, D = 16))]
        fn attention(q: Tensor<f16, H, S, D>, k: Tensor<f16, H, S, D>, v: Tensor<f16, H, S, D>)
            -> Tensor<f16, H, S, D> {
            let s = compute(|h, i, j| sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]) * 0.25);
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let t = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|h, i, d| sum(0..S, |j| e[[h, i, j]] * v[[h, j, d]]) / t[[h, i]])
        }",
        &[&[1], &[7], &[20]],
    );
}

#[test]
fn rows() {
    check(
        "#[autotune(dims(R = 1..=9, D = 77))]
        fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
            let s = compute(|r| sum(0..D, |d| e[[r, d]]));
            compute(|r, d| e[[r, d]] / s[[r]])
        }",
        &[&[1], &[8], &[9]],
    );
    check(
        "#[autotune(dims(R = 1..=5, D = 96))]
        fn layernorm(x: Tensor<bf16, R, D>, g: Weight<bf16, D>) -> Tensor<bf16, R, D> {
            let m = compute(|r| sum(0..D, |d| x[[r, d]] as f32) / 96.0);
            let v = compute(|r| sum(0..D, |d| (x[[r, d]] as f32 - m[[r]]) * (x[[r, d]] as f32 - m[[r]])));
            compute(|r, d| ((x[[r, d]] as f32 - m[[r]]) * rsqrt(v[[r]] / 96.0 + 0.00001) * g[[d]] as f32) as bf16)
        }",
        &[&[1], &[5]],
    );
}

#[test]
fn rows_of_unknown_length() {
    check(
        "#[autotune(dims(R = 3, D = 1..=300))]
        fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
            let s = compute(|r| sum(0..D, |d| e[[r, d]]));
            compute(|r, d| e[[r, d]] / s[[r]])
        }",
        &[&[1], &[31], &[257], &[300]],
    );
}

#[test]
fn elementwise_programs() {
    check(
        "#[autotune(dims(N = 1..=1000))]
        fn gelu_scaled(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| gelu(x[[i]]) * y[[i]] + tanh(x[[i]]))
        }",
        &[&[1], &[255], &[1000]],
    );
}

#[test]
fn gathers_and_transposes() {
    check(
        "#[autotune(dims(T = 1..=6, V = 10, D = 33))]
        fn embed(ids: Tensor<i32, T>, table: Weight<f32, V, D>) -> Tensor<f32, T, D> {
            compute(|t, d| table.get([ids[[t]], d]).unwrap_or(0.0))
        }",
        &[&[1], &[6]],
    );
    check(
        "#[autotune(dims(M = 1..=70, N = 37))]
        fn transpose(x: Tensor<f16, M, N>) -> Tensor<f16, N, M> {
            compute(|i, j| x[[j, i]])
        }",
        &[&[1], &[33], &[70]],
    );
}

#[test]
fn reductions() {
    check(
        "#[autotune(dims(N = 1..=5000))]
        fn total(x: Tensor<f32, N>) -> Tensor<f32> {
            compute(|| sum(0..N, |i| x[[i]]))
        }",
        &[&[1], &[4999]],
    );
    check(
        "#[autotune(dims(M = 1..=40, N = 50))]
        fn columns(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
            compute(|j| max(0..M, |i| x[[i, j]]))
        }",
        &[&[1], &[40]],
    );
    check(
        "#[autotune(dims(N = 200, K = 300))]
        fn matvec(x: Tensor<f32, K>, w: Weight<f32, N, K>) -> Tensor<f32, N> {
            compute(|j| sum(0..K, |k| x[[k]] * w[[j, k]]))
        }",
        &[&[]],
    );
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
