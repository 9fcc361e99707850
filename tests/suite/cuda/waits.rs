//! Every wait that is printed is needed, and the emulator sees when one is missing: each is taken
//! out of the text, one at a time.

use tvmtune_core::codegen::{GeneratedCuda, generate_cuda};
use tvmtune_core::dag;
use tvmtune_core::interp::{self, Array};
use tvmtune_core::schedule::default;
use tvmtune_core::target::gpu::{Arch, GpuTarget};
use tvmtune_emulator::{Completion, FaultKind, Module, Options};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::{emulate, program};

use super::ptx;

/// What threads wait by.
const WAITS: [&str; 3] = ["__syncthreads();", "__syncwarp();", "copy_async_wait<"];

/// Whether a run shows a fault of order, by the line at which it was seen.
fn fault(generated: &GeneratedCuda, text: &str, params: &[Array]) -> Option<(FaultKind, String)> {
    let module = Module::parse(text).unwrap();
    for completion in [Completion::Eager, Completion::Late] {
        let options = Options { completion, ..Options::default() };
        if let Err(fault) = emulate::run(generated, &module, &[], params, &[], &options) {
            assert!(fault.line().is_some(), "{fault}");
            return Some((fault.kind, fault.to_string()));
        }
    }
    None
}

#[track_caller]
fn check(source: &str, n_expected: usize) {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dag::build(&program(source)).unwrap();
    let target = GpuTarget::generic(Arch { sm: 80, exact: false });
    let generated = generate_cuda(&default::schedule(&dag, &target.into())).unwrap();
    let param = |(seed, id)| {
        let tensor = dag.tensor(id);
        let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(&[]) as u64).collect();
        Array::whole_numbers(tensor.dtype, &shape, seed)
    };
    let params: Vec<Array> = (1..).zip(dag.params()).map(param).collect();
    let whole = ptx(nvrtc, &generated, "compute_80");
    assert_eq!(fault(&generated, &whole, &params), None);
    let expected = interp::dag::run(&dag, &[], &params, &[]);
    let module = Module::parse(&whole).unwrap();
    let results = emulate::run(&generated, &module, &[], &params, &[], &Options::default());
    for (result, expected) in results.unwrap().iter().zip(&expected) {
        assert_eq!(result.max_error(expected, 1e-4, 1e-4), None);
    }

    let lines: Vec<&str> = generated.unit.source.lines().collect();
    let is_wait = |line: &&str| WAITS.iter().any(|it| line.trim().starts_with(it));
    let waits: Vec<usize> = (0..lines.len()).filter(|it| is_wait(&lines[*it])).collect();
    assert_eq!(waits.len(), n_expected, "{}", generated.unit.source);
    for wait in waits {
        let mut without = generated.clone();
        let kept = lines.iter().enumerate().filter(|it| it.0 != wait);
        without.unit.source = kept.map(|it| format!("{}\n", it.1)).collect();
        let text = ptx(nvrtc, &without, "compute_80");
        let found = fault(&without, &text, &params);
        let kinds = [FaultKind::Race, FaultKind::Uninitialised, FaultKind::ExitWhilePending];
        assert!(
            found.as_ref().is_some_and(|it| kinds.contains(&it.0)),
            "without line {}: {found:?}\n{}",
            wait + 1,
            generated.unit.source
        );
    }
}

#[test]
fn of_a_pipelined_product() {
    check(
        "#[autotune(dims(M = 64, N = 48, K = 80))]
        fn matmul(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }",
        2,
    );
}

#[test]
fn of_a_product_by_matrix_instructions() {
    check(
        "#[autotune(dims(M = 64, N = 48, K = 160))]
        fn matmul(x: Tensor<f16, M, K>, w: Weight<f16, N, K>) -> Tensor<f16, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }",
        2,
    );
}

#[test]
fn of_a_transpose() {
    check(
        "#[autotune(dims(M = 64, N = 40))]
        fn transpose(x: Tensor<f32, M, N>) -> Tensor<f32, N, M> {
            compute(|i, j| x[[j, i]] + 1.0)
        }",
        1,
    );
}

#[test]
fn of_rows_longer_than_a_warp() {
    // What warps combine, they combine in the device functions: nothing is left to wait for here.
    check(
        "#[autotune(dims(R = 3, D = 5000))]
        fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
            let s = compute(|r| sum(0..D, |d| e[[r, d]]));
            compute(|r, d| e[[r, d]] / s[[r]])
        }",
        0,
    );
}
