//! Products of `f32` by MMA instructions: rounded as their program says, where it says so.
//!
//! All data are halves between two numbers of TF32, all positive, so that an element rounded another
//! way, or not at all, moves every sum by far more than the order of summation does.
use tvmtune_emulator::{Module, Options};
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::default;
use tvmtune_space::sketch::TemplateKind;
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::mma::{Data, check_with};
use super::programs::{einsum, linear};
use super::{AMPERE, HOPPER, default_point, ptx};

/// Odd numbers of 12 binary digits.
fn halves(dtype: DType, shape: &[u64], seed: u64) -> Array {
    let mut random = Random::new(seed);
    Array::from_fn(dtype, shape, |_| Number::Float((2049 + 2 * random.below(1024)) as f64))
}

/// Runs points of the sketch with MMA instructions at each extent of the dynamic dimension.
#[track_caller]
fn check(text: &str, rows: &[i64], n_points: u64) {
    let data = Data { values: halves, tolerance: 1e-5 };
    check_with(&data, (TemplateKind::Mma, AMPERE), text, "mma_m16n8k8_tf32(", rows, n_points);
}

#[test]
fn products_along_both_rows() {
    check(&linear("M = 1..=100, N = 40, K = 36", "tf32"), &[1, 17, 100], 6);
}

/// The same by instructions of four warps, whose operands are rounded while boxes are copied.
#[track_caller]
fn check_warp_specialized(text: &str, rows: &[i64], n_points: u64) {
    let data = Data { values: halves, tolerance: 1e-5 };
    let warp_specialized = (TemplateKind::WgmmaWarpSpecialized, HOPPER);
    check_with(&data, warp_specialized, text, "wgmma_tf32(", rows, n_points);
}

#[test]
fn products_along_both_rows_by_a_producer_warp() {
    let text = linear("M = 1..=200, N = 136, K = 100", "tf32");
    check_warp_specialized(&text, &[1, 63, 65, 200], 6);
}

#[test]
fn products_with_packed_weights_by_a_producer_warp() {
    let tensors = ["Tensor<tf32, M, K>", "Weight<tf32, K, N>", "Tensor<f32, M, N>"];
    let text = einsum("M = 1..=130, N = 72, K = 64", tensors);
    check_warp_specialized(&text, &[1, 64, 129], 4);
}

#[test]
fn convolutions_by_a_producer_warp() {
    let tensors =
        ["Tensor<tf32, B, H, W, C>", "Weight<tf32, O, T, T, C>", "Tensor<f32, B, H, W, O>"];
    let text = einsum("B = 1..=2, C = 36, H = 9, W = 13, O = 24, T = 3", tensors);
    check_warp_specialized(&text, &[1, 2], 4);
}

/// By a kernel of their own, before the product.
#[test]
fn factors_across_the_reduction_are_turned_where_it_pays() {
    let across = ["Tensor<tf32, M, K>", "Tensor<tf32, K, N>", "Tensor<f32, M, N>"];
    check_warp_specialized(&einsum("M = 1..=600, N = 72, K = 100", across), &[1, 127, 600], 3);
    let tensors = ["Tensor<tf32, B, K, M>", "Tensor<tf32, B, N, K>", "Tensor<f32, B, M, N>"];
    let text = einsum("B = 1..=2, M = 72, N = 512, K = 44", tensors);
    check_warp_specialized(&text, &[1, 2], 3);
    let dag = dsl::program(&einsum("M = 256, N = 256, K = 256", across)).unwrap();
    for template in WARPGROUP {
        assert_eq!(instructions(&dag, HOPPER, template), None);
    }
    assert!(instructions(&dag, HOPPER, TemplateKind::Mma).is_some());
}

#[test]
fn products_along_columns() {
    let tensors = ["Tensor<tf32, B, K, M>", "Tensor<tf32, B, K, N>", "Tensor<f32, B, M, N>"];
    check(&einsum("B = 1..=3, M = 37, N = 48, K = 33", tensors), &[1, 3], 6);
}

#[test]
fn convolutions() {
    let tensors =
        ["Tensor<tf32, B, C, H, W>", "Weight<tf32, O, C, T, T>", "Tensor<f32, B, O, H, W>"];
    check(&einsum("B = 1..=2, C = 12, H = 6, W = 10, O = 24, T = 3", tensors), &[1, 2], 4);
}

#[test]
fn rows_are_exchanged_by_the_hardware_and_rounded_in_registers() {
    let dag = product("tf32(x[[i, k]]) * tf32(w[[j, k]])", "f32");
    let space = Space::new(&dag, &GpuTarget::generic(AMPERE).into());
    let instructions = space.instructions(&space.defaults()[0]);
    let source = source(&dag, &instructions).unwrap();
    for call in ["load_matrices<4>(", "load_matrices<2>(", "round_to_tf32(", "copy_async<16>("] {
        assert!(source.contains(call), "{call}\n{source}");
    }
}

/// A product of matrices of which this is added up.
fn product(value: &str, dtype: &str) -> Dag {
    let text = format!(
        "#[autotune(dims(M = 256, N = 256, K = 256))]
        fn product(x: Tensor<{dtype}, M, K>, w: Tensor<{dtype}, N, K>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| {value}))
        }}"
    );
    dsl::program(&text).unwrap()
}

fn source(dag: &Dag, instructions: &[Instruction]) -> Option<String> {
    let schedule = Schedule::replay(dag, instructions).unwrap();
    Some(tvmtune_cuda::generate(&schedule).ok()?.unit.source)
}

/// Templates of instructions of a warpgroup.
const WARPGROUP: [TemplateKind; 2] = [TemplateKind::Wgmma, TemplateKind::WgmmaWarpSpecialized];

/// The instructions of the default point of the first sketch of a template.
fn instructions(dag: &Dag, arch: Arch, template: TemplateKind) -> Option<Vec<Instruction>> {
    let space = Space::new(dag, &GpuTarget::generic(arch).into());
    Some(space.instructions(&default_point(&space, template)?))
}

/// Products in which something is multiplied as it is.
fn exact() -> Vec<Dag> {
    let values = [
        "x[[i, k]] * w[[j, k]]",
        "tf32(x[[i, k]]) * w[[j, k]]",
        "x[[i, k]] * tf32(w[[j, k]])",
        "tf32(x[[i, k]] * w[[j, k]])",
    ];
    // Conversions of a type to itself, which `dag::build` would simplify.
    let converted = "tvmtune dag v1
input t0: f32[256, 256]
input t1: f32[256, 256]
t2: f32[256, 256] = sum(v2 < 256) mul(f32(t0[v0, v2]), f32(t1[v1, v2]))
return t2
";
    let programs = values.iter().map(|it| product(it, "f32"));
    programs.chain([converted.parse().unwrap()]).collect()
}

#[test]
fn factors_that_a_program_does_not_round_make_no_matrix_instruction() {
    let rounded = product("tf32(x[[i, k]]) * tf32(w[[j, k]])", "f32");
    let loops = instructions(&rounded, AMPERE, TemplateKind::Mma).unwrap();
    assert!(source(&rounded, &loops).unwrap().contains("mma_m16n8k8_tf32("));
    for dag in exact() {
        for arch in [AMPERE, HOPPER] {
            assert_eq!(instructions(&dag, arch, TemplateKind::Mma), None, "{dag:?}");
            for template in WARPGROUP {
                assert_eq!(instructions(&dag, arch, template), None, "{dag:?}");
            }
        }
        // The same loops.
        let source = source(&dag, &loops).unwrap();
        assert!(!source.contains("mma_"), "{dag:?}\n{source}");
    }
}

#[test]
fn instructions_that_an_architecture_lacks_are_not_used() {
    let rounded = product("tf32(x[[i, k]]) * tf32(w[[j, k]])", "f32");
    assert_eq!(instructions(&rounded, Arch { sm: 75, exact: false }, TemplateKind::Mma), None);
    assert!(instructions(&rounded, HOPPER, TemplateKind::Mma).is_some());
    // By themselves, instructions of four warps round in another way.
    assert_eq!(instructions(&rounded, HOPPER, TemplateKind::Wgmma), None);
    assert!(instructions(&rounded, HOPPER, TemplateKind::WgmmaWarpSpecialized).is_some());
    for template in WARPGROUP {
        assert_eq!(instructions(&rounded, Arch { sm: 90, exact: false }, template), None);
    }
}

#[test]
fn four_warps_do_not_multiply_what_nothing_rounds() {
    let narrow = product("x[[i, k]] as f32 * w[[j, k]] as f32", "bf16");
    let mut loops = instructions(&narrow, HOPPER, TemplateKind::Wgmma).unwrap();
    assert!(source(&narrow, &loops).unwrap().contains("wgmma_bf16"));
    for it in &mut loops {
        // Half as many steps fill a row of an instruction.
        if let Instruction::Split { factors, .. } = it
            && factors == &[4, 16]
        {
            *factors = vec![4, 8];
        }
    }
    let rounded = product("tf32(x[[i, k]]) * tf32(w[[j, k]])", "f32");
    let source = source(&rounded, &loops).unwrap();
    assert!(!source.contains("wgmma_"), "{source}");
}

#[test]
fn elements_are_rounded_alike_on_every_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = "#[autotune(dims(N = 4096))]
        fn rounded(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|i| tf32(x[[i]])) }";
    let dag = dsl::program(text).unwrap();
    // Every exponent, halves, what is next to them, infinities.
    let bits = |n: usize| {
        let digits = [0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7f_efff, 0x7f_f000, 0x00_0000];
        (n as u32 / 8) << 23 | digits[n % 8]
    };
    let value = |n: usize| f64::from(f32::from_bits(bits(n)));
    let number = |n: usize| Number::Float(if value(n).is_nan() { 1.0 } else { value(n) });
    let params = [Array::from_fn(DType::F32, &[4096], number)];
    let expected = tvmtune_ir::interp::run(&dag, &[], &params, &[]);
    for (sm, arch) in [(75, "compute_75"), (80, "compute_80"), (90, "compute_90")] {
        let target = GpuTarget::generic(Arch { sm, exact: false });
        let generated = tvmtune_cuda::generate(&default::schedule(&dag, &target.into())).unwrap();
        let text = ptx(nvrtc, &generated.unit.source, arch);
        assert_eq!(text.contains("cvt.rna.tf32.f32"), (80..90).contains(&sm));
        assert_eq!(text.contains("cvt.rn.tf32.f32"), sm >= 90);
        let module = Module::parse(&text).unwrap();
        let options = Options::default();
        let results = emulate::run(&generated, &module, &[], &params, &[], &options).unwrap();
        assert_eq!(results[0].bytes(), expected[0].bytes(), "{arch}");
    }
}
