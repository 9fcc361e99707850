//! Convolutions as implicit GEMM by WGMMA, with TMA loads of boxes of images: images of any width,
//! windows and single pixels, strides, batches, few channels.

use tvmtune_acceptance::case;
use tvmtune_acceptance::problem::Problem;
use tvmtune_cuda::Generated;
use tvmtune_cuda::grid::Unplaceable;
use tvmtune_ir::dsl;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::default;
use tvmtune_space::sketch::{TemplateKind, sketches};

use super::mma::check_rule;
use super::programs::einsum;
use super::{HOPPER, target};

const WARP_SPECIALIZED: (TemplateKind, Arch) = (TemplateKind::WgmmaWarpSpecialized, HOPPER);

/// A convolution of windows of 3 x 3, or of single pixels, padded by as many as they reach over.
struct Convolution {
    /// The largest batch.
    batch: i64,
    /// Rows and columns of the result.
    out: [i64; 2],
    /// Of how many pixels one has a window.
    stride: i64,
    window: i64,
    /// Channels of the image and of the result.
    channels: [i64; 2],
}

impl Convolution {
    fn text(&self) -> String {
        let Self { batch, out: [h, w], stride, window, channels: [c, o] } = *self;
        let (rows, columns, pad) = (h * stride, w * stride, (window - 1) / 2);
        let shape = match stride {
            1 => "H, W".to_owned(),
            by => format!("{{ H / {by} }}, {{ W / {by} }}"),
        };
        let weight = if window == 1 { "O, C" } else { "O, T, T, C" };
        let (dim, sum) = match window {
            1 => (
                String::new(),
                format!("sum(0..C, |c| x[[n, {stride} * y, {stride} * p, c]] * w[[o, c]])"),
            ),
            t => (
                format!(", T = {t}"),
                format!(
                    "sum((0..T, 0..T, 0..C), |r, s, c| {{
                        x.get([n, {stride} * y + r - {pad}, {stride} * p + s - {pad}, c])
                            .unwrap_or(0.0) * w[[o, r, s, c]]
                    }})"
                ),
            ),
        };
        format!(
            "#[autotune(dims(B = 1..={batch}, C = {c}, H = {rows}, W = {columns}, O = {o}{dim}))]
            fn conv(x: Tensor<f16, B, H, W, C>, w: Weight<f16, {weight}>, b: Weight<f16, O>)
                -> Tensor<f16, B, {shape}, O> {{
                compute(|n, y, p, o| max({sum} + b[[o]], 0.0))
            }}"
        )
    }
}

/// Returns the code of the default schedule for Hopper GPUs.
fn default_of(convolution: &Convolution) -> Generated {
    let dag = dsl::program(&convolution.text()).unwrap();
    tvmtune_cuda::generate(&default::schedule(&dag, &target().into())).unwrap()
}

/// Points of the rule by a producer, and of that by all threads.
#[track_caller]
fn check(convolution: &Convolution, batches: &[i64], n_points: u64) {
    let text = convolution.text();
    check_rule(WARP_SPECIALIZED, &text, "wgmma_f16<0, 0>(", batches, n_points);
    check_rule((TemplateKind::Wgmma, HOPPER), &text, "wgmma_f16<0, 0>(", &batches[..1], 0);
}

/// Pictures, and what goes into them.
const SINGLE: Convolution =
    Convolution { batch: 2, out: [14, 14], stride: 1, window: 3, channels: [64, 64] };

#[test]
fn windows_of_small_pictures() {
    check(&Convolution { out: [7, 7], channels: [64, 24], ..SINGLE }, &[1, 2], 2);
    check(&Convolution { out: [9, 13], channels: [24, 64], ..SINGLE }, &[2, 1], 2);
    check(&Convolution { batch: 1, out: [13, 9], channels: [16, 96], ..SINGLE }, &[1], 2);
}

#[test]
fn windows_of_images_that_are_wider_than_boxes() {
    check(&Convolution { out: [14, 14], channels: [72, 96], ..SINGLE }, &[1, 2], 2);
    check(&Convolution { out: [15, 15], channels: [64, 24], ..SINGLE }, &[2, 1], 2);
    check(&Convolution { batch: 1, out: [28, 28], channels: [24, 64], ..SINGLE }, &[1], 2);
}

#[test]
fn windows_of_many_pictures() {
    check(&Convolution { batch: 20, out: [7, 7], channels: [48, 24], ..SINGLE }, &[1, 17, 20], 2);
    check(&Convolution { batch: 16, out: [2, 6], channels: [24, 24], ..SINGLE }, &[16, 3], 2);
    check(&Convolution { batch: 33, out: [2, 3], channels: [40, 24], ..SINGLE }, &[31, 33], 2);
}

#[test]
fn every_other_window() {
    check(&Convolution { out: [7, 7], stride: 2, channels: [64, 24], ..SINGLE }, &[1, 2], 2);
    check(&Convolution { out: [9, 15], stride: 3, channels: [24, 64], ..SINGLE }, &[2], 2);
}

#[test]
fn single_pixels() {
    let pixels = Convolution { window: 1, ..SINGLE };
    check(&Convolution { out: [15, 13], channels: [72, 96], ..pixels }, &[1, 2], 2);
    check(&Convolution { out: [14, 7], stride: 2, channels: [64, 24], ..pixels }, &[2, 1], 2);
}

#[test]
fn windows_inside_of_images() {
    let text = "#[autotune(dims(B = 1..=3, C = 64, H = 15, W = 11, O = 40, T = 3))]
        fn conv(x: Tensor<bf16, B, H, W, C>, w: Weight<bf16, O, T, T, C>)
            -> Tensor<bf16, B, { H - 2 }, { W - 2 }, O> {
            compute(|n, y, p, o| sum((0..T, 0..T, 0..C), |r, s, c| {
                x[[n, y + r, p + s, c]] * w[[o, r, s, c]]
            }))
        }";
    check_rule(WARP_SPECIALIZED, text, "wgmma_bf16<0, 0>(", &[1, 3], 3);
}

#[test]
fn windows_of_bytes() {
    let tensors = ["Tensor<i8, B, H, W, C>", "Weight<i8, O, T, T, C>", "Tensor<i32, B, H, W, O>"];
    let text = einsum("B = 1..=2, C = 96, H = 9, W = 14, O = 24, T = 3", tensors);
    check_rule(WARP_SPECIALIZED, &text, "wgmma_i8(", &[1, 2], 2);
}

/// A box of a part of the channels would have those beside them where the sum needs zeros.
#[test]
fn parts_of_channels_are_no_boxes() {
    let text = "#[autotune(dims(B = 1..=2, C = 96, K = 72, H = 14, W = 14, O = 64))]
        fn conv(x: Tensor<f16, B, H, W, C>, w: Weight<f16, O, C>) -> Tensor<f16, B, H, W, O> {
            compute(|n, y, p, o| sum(0..K, |c| x[[n, y, p, c]] * w[[o, c]]))
        }";
    let dag = dsl::program(text).unwrap();
    let sketches = sketches(&dag, &target().into());
    let fed = sketches.iter().find(|it| it.uses(TemplateKind::WgmmaWarpSpecialized)).unwrap();
    let schedule = Schedule::replay(&dag, &fed.instructions(&fed.default)).unwrap();
    assert_eq!(
        tvmtune_cuda::generate(&schedule).map(|it| it.unit.source),
        Err(Unplaceable::NotTmaLoads)
    );
    check_rule((TemplateKind::Wgmma, HOPPER), text, "wgmma_f16<0, 0>(", &[1, 2], 0);
}

/// Box extents and element strides of the TMA loads of images in a kernel.
fn boxes_of_images(generated: &Generated) -> Vec<(&[i64], &[i64])> {
    let maps = generated.grid.body.iter().flat_map(|it| &it.tensor_maps);
    let of_image = maps.filter(|it| generated.grid.buffer(it.tensor).name == "x");
    of_image.map(|it| (&it.box_extents[..], &it.element_strides[..])).collect()
}

#[test]
fn a_step_of_a_convolution_is_one_box_of_pixels() {
    let square = |batch, side, stride, window, channels| Convolution {
        batch,
        out: [side, side],
        stride,
        window,
        channels: [channels, channels],
    };
    let expected: [(Convolution, [i64; 4]); 9] = [
        (square(32, 56, 1, 3, 64), [2, 8, 8, 64]),
        (square(32, 28, 1, 3, 128), [8, 4, 4, 64]),
        (square(32, 14, 1, 3, 256), [32, 2, 2, 64]),
        (square(32, 7, 1, 3, 512), [8, 1, 8, 64]),
        (square(32, 28, 2, 3, 128), [8, 4, 4, 64]),
        (square(32, 14, 2, 1, 256), [32, 2, 2, 64]),
        (square(1, 28, 1, 3, 128), [1, 2, 32, 64]),
        (square(1, 14, 1, 3, 256), [1, 4, 16, 64]),
        (square(1, 7, 1, 3, 512), [1, 8, 8, 64]),
    ];
    for (convolution, extents) in &expected {
        let generated = default_of(convolution);
        let by = convolution.stride;
        let steps = extents.map(|it| if it == 1 { 1 } else { by });
        let boxes = boxes_of_images(&generated);
        let steps = [1, steps[1], steps[2], 1];
        assert_eq!(boxes, [(&extents[..], &steps[..])], "{}", generated.nest);
        let copies = generated.unit.source.lines().filter(|it| it.contains("map_"));
        let copies = copies.filter(|it| it.trim_start().starts_with("tensor_"));
        assert_eq!(copies.count(), 2, "one copy for each factor\n{}", generated.unit.source);
    }
}

#[test]
fn convolutions_that_no_box_fits_have_no_producer_warp() {
    let is_fed = |it: &Convolution| {
        default_of(it).grid.body.iter().any(|kernel| !kernel.producer.is_empty())
    };
    assert!(is_fed(&SINGLE));
    assert!(!is_fed(&Convolution { channels: [64, 8], ..SINGLE }), "few columns");
    assert!(!is_fed(&Convolution { batch: 1, out: [5, 5], ..SINGLE }), "few pixels");
    let pixels = Convolution { window: 1, channels: [32, 64], ..SINGLE };
    assert!(!is_fed(&pixels), "a single step of the reduction");
}

/// A schedule of a convolution with 8 channels whose circular buffer of weights has stages of 64 bytes:
/// on an H200 it ended in `CUDA_ERROR_MISALIGNED_ADDRESS`.
const SMALL_STAGES: &str = "cache_operand s0 r1
    cache_padded t0 s0
    cache_operand s0 r0
    inline s3
    split s1 a2 [2]
    split s1 a1 [4]
    split s1 a0 [16, 1, 1, 4, 16, 4, 2]
    split s1 a3 [8, 1, 8, 2]
    reorder s1 [a6, a4, a8, a16, a9, a10, a11, a13, a15, a7, a5, a19, a12, a14, a17, a18, a20]
    annotate s1 a6 parallel
    annotate s1 a4 parallel
    annotate s1 a8 parallel
    annotate s1 a16 parallel
    annotate s1 a9 parallel
    annotate s1 a10 cluster
    annotate s1 a11 thread
    annotate s1 a13 thread
    annotate s1 a15 thread
    annotate s1 a7 thread
    annotate s1 a5 thread
    annotate s1 a19 thread
    annotate s1 a12 unrolled
    annotate s1 a14 unrolled
    annotate s1 a17 unrolled
    annotate s1 a18 unrolled
    annotate s1 a20 vectorized
    compute_at s0 s1 a10
    split s0 a2 [14]
    split s0 a1 [7]
    split s0 a0 [4, 16, 4, 2, 4]
    split s0 a3 [1, 1, 2, 2]
    split s0 a6 [4, 8]
    reorder s0 [a9, a7, a11, a17, a4, a5, a22, a12, a14, a16, a10, a8, a20, a23, a13, a18, a19, a15, a21, a24]
    annotate s0 a12 thread
    annotate s0 a14 thread
    annotate s0 a16 thread
    annotate s0 a10 thread
    annotate s0 a8 thread
    annotate s0 a20 thread
    annotate s0 a23 unrolled
    annotate s0 a13 unrolled
    annotate s0 a18 tensorized
    annotate s0 a19 tensorized
    annotate s0 a15 tensorized
    annotate s0 a21 tensorized
    annotate s0 a24 tensorized
    fuse s0 a5 a22
    fuse s0 a4 a25
    annotate s0 a26 warp_specialized:6
    compute_at s4 s0 a26
    compute_at s2 s0 a26";

#[test]
fn boxes_of_every_stage_begin_where_tma_can_write() {
    let case = case::named("conv_nhwc_f16").unwrap();
    let dims = case.times.iter().find(|it| it.contains("C = 8,")).unwrap();
    let problem = Problem::new(case, dims).unwrap();
    let trace: Vec<Instruction> =
        SMALL_STAGES.lines().map(|it| it.trim().parse().unwrap()).collect();
    let schedule = Schedule::replay(&problem.dag, &trace).unwrap();
    let source = tvmtune_cuda::generate(&schedule).map(|it| it.unit.source);
    assert_eq!(source, Err(Unplaceable::NotTmaLoads));
}
