//! MMA instructions: every type, every way operands lie, at extents that tiles do not divide.

use tvmtune_emulator::{Completion, Module, Options};
use tvmtune_ir::dag::DType;
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_schedule::Schedule;
use tvmtune_space::sketch::TemplateKind;
use tvmtune_tests::arguments;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::programs::{einsum, linear};
use super::{AMPERE, Launch, check_results, default_point, generate, ptx};

/// The values of arguments, and the relative error that results may have.
pub(super) struct Data {
    pub(super) values: fn(DType, &[u64], u64) -> Array,
    pub(super) tolerance: f64,
}

/// Runs points of the sketch with MMA instructions at each extent of the dynamic dimension.
#[track_caller]
fn check(text: &str, instruction: &str, rows: &[i64], n_points: u64) {
    check_rule((TemplateKind::Mma, AMPERE), text, instruction, rows, n_points);
}

/// The same for another rule and architecture.
#[track_caller]
pub(super) fn check_rule(
    rule: (TemplateKind, Arch),
    text: &str,
    instruction: &str,
    rows: &[i64],
    n_points: u64,
) {
    let data = Data { values: Array::whole_numbers, tolerance: 1e-3 };
    check_with(&data, rule, text, instruction, rows, n_points);
}

/// The same with other data.
#[track_caller]
pub(super) fn check_with(
    data: &Data,
    (template, arch): (TemplateKind, Arch),
    text: &str,
    instruction: &str,
    rows: &[i64],
    n_points: u64,
) {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(text).unwrap();
    let space = Space::new(&dag, &GpuTarget::generic(arch).into());
    let default = default_point(&space, template).expect("a sketch with matrix instructions");
    let mut random = Random::new(7);
    let sampled = (0..n_points).map(|_| space.random_of(default.sketch, &mut random));
    let points: Vec<_> = [default.clone()].into_iter().chain(sampled).collect();
    let compute = arch.to_string().replace("sm_", "compute_");
    let (mut n_placed, mut refused) = (0, String::new());
    for point in points {
        let schedule = Schedule::replay(&dag, &space.instructions(&point)).unwrap();
        let generated = match generate(&schedule, arch) {
            Ok(generated) => generated,
            Err(why) => {
                refused = why;
                continue;
            }
        };
        n_placed += 1;
        let source = &generated.unit.source;
        assert!(source.contains(instruction), "{}\n{source}", generated.nest);
        let module = Module::parse(&ptx(nvrtc, source, &compute)).unwrap();
        for (n, rows) in rows.iter().enumerate() {
            let dims = &[*rows];
            let params = &arguments(&dag, dims, data.values);
            let expected = &tvmtune_ir::interp::run(&dag, dims, params, &[]);
            let launch = Launch { dims, params, scalars: &[], expected };
            let completion = [Completion::Eager, Completion::Late][n % 2];
            let options = Options { completion, ..Options::default() };
            let tolerance = |_| (data.tolerance, data.tolerance);
            check_results(&generated, &module, &launch, &options, &tolerance);
        }
    }
    assert!(n_placed > n_points / 3, "only {n_placed} of {n_points} can be placed: {refused}");
}

#[test]
fn products_of_f16_along_both_rows() {
    let text = linear("M = 1..=100, N = 40, K = 72", "f16");
    check(&text, "mma_m16n8k16_f16(", &[1, 17, 100], 6);
}

#[test]
fn products_of_bf16_along_a_column() {
    let tensors = ["Tensor<bf16, M, K>", "Tensor<bf16, K, N>", "Tensor<f32, M, N>"];
    let text = einsum("M = 1..=64, N = 48, K = 33", tensors);
    check(&text, "mma_m16n8k16_bf16(", &[1, 16, 64], 6);
}

#[test]
fn batched_products_of_transposed_matrices() {
    let tensors = ["Tensor<f16, B, K, M>", "Tensor<f16, B, K, N>", "Tensor<f16, B, M, N>"];
    let text = einsum("B = 1..=3, M = 37, N = 24, K = 48", tensors);
    check(&text, "mma_m16n8k16_f16(", &[1, 3], 6);
}

#[test]
fn products_of_8_bit_integers() {
    let tensors = ["Tensor<i8, M, K>", "Weight<i8, N, K>", "Tensor<i32, M, N>"];
    let text = einsum("M = 1..=40, N = 24, K = 100", tensors);
    check(&text, "mma_m16n8k32_i8_i8(", &[1, 33, 40], 6);
}

#[test]
fn convolutions_with_channels_last() {
    check(
        "#[autotune(dims(B = 1..=3, H = 9, W = 11, C = 20, O = 24, T = 3))]
        fn conv(x: Tensor<f16, B, H, W, C>, w: Weight<f16, O, T, T, C>, b: Weight<f16, O>) -> Tensor<f16, B, H, W, O> {
            let h: Tensor<f32, B, H, W, O> = compute(|n, y, p, o| sum((0..T, 0..T, 0..C), |r, s, c| {
                x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) * w[[o, r, s, c]]
            }) + b[[o]]);
            compute(|n, y, p, o| max(h[[n, y, p, o]], 0.0))
        }",
        "mma_m16n8k16_f16(",
        &[1, 3],
        6,
    );
}

#[test]
fn convolutions_with_channels_first() {
    let tensors =
        ["Tensor<bf16, B, C, H, W>", "Weight<bf16, O, C, T, T>", "Tensor<bf16, B, O, H, W>"];
    let text = einsum("B = 1..=2, C = 32, H = 10, W = 16, O = 40, T = 3", tensors);
    check(&text, "mma_m16n8k16_bf16(", &[1, 2], 6);
}

#[test]
fn convolutions_of_every_other_pixel() {
    check(
        "#[autotune(dims(B = 1..=2, C = 24, H = 7, W = 9, O = 20))]
        fn conv(x: Tensor<f16, B, C, { 2 * H }, { 2 * W }>, w: Tensor<f16, O, C, 3, 3>) -> Tensor<f16, B, O, H, W> {
            compute(|n, o, y, p| sum((0..C, 0..3, 0..3), |c, r, s| {
                x.get([n, c, 2 * y + r - 1, 2 * p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
        "mma_m16n8k16_f16(",
        &[1, 2],
        4,
    );
}

#[test]
fn convolutions_of_single_pixels() {
    check(
        "#[autotune(dims(B = 1..=2, C = 40, H = 6, W = 8, O = 24))]
        fn conv(x: Tensor<f16, B, C, H, W>, w: Weight<f16, O, C>) -> Tensor<f16, B, O, H, W> {
            compute(|n, o, y, p| sum(0..C, |c| x[[n, c, y, p]] * w[[o, c]]))
        }",
        "load_matrices<2, true>(",
        &[1, 2],
        4,
    );
}

#[test]
fn convolutions_of_groups_of_bytes() {
    let tensors =
        ["Tensor<i8, B, G, C, H, W>", "Weight<i8, G, O, C, T, T>", "Tensor<i32, B, G, O, H, W>"];
    let text = einsum("B = 1..=2, G = 2, C = 32, H = 5, W = 7, O = 16, T = 3", tensors);
    check(&text, "mma_m16n8k32_i8_i8(", &[1, 2], 4);
}

#[test]
fn rows_are_exchanged_by_the_hardware_where_they_can_be() {
    let tensors = ["Tensor<f16, M, K>", "Tensor<f16, K, N>", "Tensor<f16, M, N>"];
    let dag = dsl::program(&einsum("M = 256, N = 256, K = 256", tensors)).unwrap();
    let space = Space::new(&dag, &GpuTarget::generic(AMPERE).into());
    let default = &space.defaults()[0];
    let schedule = Schedule::replay(&dag, &space.instructions(default)).unwrap();
    let source = tvmtune_cuda::generate(&schedule).unwrap().unit.source;
    for call in ["load_matrices<4>(", "load_matrices<2, true>(", "copy_async<16>("] {
        assert!(source.contains(call), "{call}\n{source}");
    }
}
