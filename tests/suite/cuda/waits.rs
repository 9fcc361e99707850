//! Every wait that is printed is needed, and the emulator sees when one is missing: each is taken
//! out of the text, one at a time.

use tvmtune_cuda::Generated;
use tvmtune_emulator::{Completion, FaultKind, Module, Options, Order};
use tvmtune_ir::dag::{DType, Dag};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::gpu::GpuTarget;
use tvmtune_schedule::Schedule;
use tvmtune_space::default;
use tvmtune_space::sketch::{TemplateKind, sketches};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::{arguments, emulate};

use super::persistent::small;
use super::programs::attention;
use super::{AMPERE, Launch, check_results, ptx, target};

/// Statements by which threads wait, or let others go on.
const WAITS: [&str; 16] = [
    "__syncthreads();",
    "__syncwarp();",
    "copy_async_wait<",
    "barrier_wait<",
    "fence_async();",
    "wgmma_fence();",
    "wgmma_commit();",
    "wgmma_wait<",
    "mbarrier_init(",
    "mbarrier_fence_init();",
    "mbarrier_wait(",
    "cluster_sync();",
    "if (threadIdx.x % 32 < ",
    "mbarrier_expect(",
    "mbarrier_arrive(",
    "if (threadIdx.x % 32 == 0) mbarrier_arrive(",
];

/// The faults that the emulator reports where one is missing.
const KINDS: [FaultKind; 8] = [
    FaultKind::Race,
    FaultKind::Uninitialised,
    FaultKind::ExitWhilePending,
    FaultKind::Deadlock,
    FaultKind::BadInstruction,
    FaultKind::DivergentCollective,
    FaultKind::BarrierMisuse,
    FaultKind::MissingProxyFence,
];

/// Returns whether a run shows a fault of order, by the line at which it was seen.
fn fault(generated: &Generated, text: &str, params: &[Array]) -> Option<(FaultKind, String)> {
    let module = Module::parse(text).unwrap();
    let random: Vec<Order> = (1..=8).map(Order::Random).collect();
    let orders = [&[Order::Ascending, Order::Descending], &random[..]].concat();
    let runs = [Completion::Eager, Completion::Late]
        .into_iter()
        .flat_map(|it| orders.iter().map(move |order| (it, *order)))
        .map(|(completion, order)| Options { completion, order, ..Options::default() });
    for options in runs {
        if let Err(fault) = emulate::run(generated, &module, &[], params, &[], &options) {
            assert!(fault.line().is_some(), "{fault}");
            return Some((fault.kind, fault.to_string()));
        }
    }
    None
}

/// The default schedule for an architecture without warpgroups.
#[track_caller]
fn check(source: &str, n_expected: usize) {
    let dag = dsl::program(source).unwrap();
    let schedule = default::schedule(&dag, &GpuTarget::generic(AMPERE).into());
    check_schedule(&dag, &schedule, "compute_80", n_expected);
}

/// The first point of a rule for warpgroups.
#[track_caller]
fn check_rule(template: TemplateKind, source: &str, n_expected: usize) {
    check_rule_on(&target(), template, source, n_expected);
}

/// The same on a GPU of that kind.
#[track_caller]
fn check_rule_on(target: &GpuTarget, template: TemplateKind, source: &str, n: usize) {
    let dag = dsl::program(source).unwrap();
    let sketches = sketches(&dag, &(*target).into());
    let sketch = sketches.iter().find(|it| it.uses(template)).expect("a template that applies");
    let schedule = Schedule::replay(&dag, &sketch.instructions(&sketch.default)).unwrap();
    check_schedule(&dag, &schedule, "compute_90a", n);
}

#[track_caller]
fn check_schedule(dag: &Dag, schedule: &Schedule, arch: &str, n_expected: usize) {
    let Some(nvrtc) = nvrtc() else { return };
    let generated = tvmtune_cuda::generate(schedule).unwrap();
    let params = arguments(dag, &[], Array::whole_numbers);
    let whole = ptx(nvrtc, &generated.unit.source, arch);
    assert_eq!(fault(&generated, &whole, &params), None);
    let expected = tvmtune_ir::interp::run(dag, &[], &params, &[]);
    let launch = Launch { dims: &[], params: &params, scalars: &[], expected: &expected };
    let tolerance = |dtype| if dtype == DType::F16 { (2e-3, 2e-3) } else { (1e-4, 1e-4) };
    let module = Module::parse(&whole).unwrap();
    check_results(&generated, &module, &launch, &Options::default(), &tolerance);

    let lines: Vec<&str> = generated.unit.source.lines().collect();
    let is_wait = |line: &&str| WAITS.iter().any(|it| line.trim().starts_with(it));
    let waits: Vec<usize> = (0..lines.len()).filter(|it| is_wait(&lines[*it])).collect();
    assert_eq!(waits.len(), n_expected, "{}", generated.unit.source);
    for wait in waits {
        let mut without = generated.clone();
        let kept = lines.iter().enumerate().filter(|it| it.0 != wait);
        without.unit.source = kept.map(|it| format!("{}\n", it.1)).collect();
        let text = ptx(nvrtc, &without.unit.source, arch);
        let found = fault(&without, &text, &params);
        assert!(
            found.as_ref().is_some_and(|it| KINDS.contains(&it.0)),
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
fn of_a_product_by_mma_instructions() {
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
    // Block all-reduces are device functions: no wait is left here.
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

const PRODUCT: &str = "#[autotune(dims(M = 128, N = 64, K = 1280))]
    fn matmul(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>) -> Tensor<bf16, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
    }";

#[test]
fn of_a_product_by_wgmma() {
    check_rule(TemplateKind::Wgmma, PRODUCT, 6);
}

#[test]
fn of_a_warp_specialized_product_by_wgmma() {
    check_rule(TemplateKind::WgmmaWarpSpecialized, PRODUCT, 13);
}

/// Two tiles of a block, each with more steps than stages.
#[test]
fn of_a_product_whose_blocks_take_several_tiles() {
    check_rule_on(
        &small(1),
        TemplateKind::WgmmaWarpSpecialized,
        &PRODUCT.replace("M = 128", "M = 192"),
        13,
    );
}

/// The same of clusters, each with two tiles.
#[test]
fn of_a_product_whose_clusters_take_several_tiles() {
    check_rule_on(
        &small(2),
        TemplateKind::WgmmaWarpSpecialized,
        &PRODUCT.replace("M = 128", "M = 512"),
        14,
    );
}

/// Those of the pipeline, and one between the exponentials and the second product.
#[test]
fn of_attention() {
    let text = |dtype| attention("H = 2, S = 150, D = 16", dtype, "S", "dot * 0.01");
    check(&text("f32"), 3);
    check(&text("f16"), 3);
}

/// Those of the circular buffers of keys and of values, and those of each product.
#[test]
fn of_warp_specialized_attention_by_wgmma() {
    let text = attention("H = 1, S = 64, T = 700, D = 64", "f16", "T", "dot * 0.001");
    check_rule(TemplateKind::WgmmaAttention, &text, 22);
}
