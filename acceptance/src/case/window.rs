//! Convolutions: padded, strided, channels last, depthwise.

use super::{Case, Check, Class};

/// The 3 x 3 convolutions of a residual network.
const RESNET: &[&str] = &[
    "B = 32, C = 64, H = 56, W = 56, O = 64, T = 3",
    "B = 32, C = 128, H = 28, W = 28, O = 128, T = 3",
    "B = 32, C = 256, H = 14, W = 14, O = 256, T = 3",
    "B = 32, C = 512, H = 7, W = 7, O = 512, T = 3",
];

/// The same, and few channels: blocks have registers to spare there, so two of them would fit on a
/// multiprocessor if `setmaxnreg` did not need all.
const RESNET_AND_NARROW: &[&str] = &[
    RESNET[0],
    RESNET[1],
    RESNET[2],
    RESNET[3],
    "B = 32, C = 8, H = 56, W = 56, O = 8, T = 3",
    "B = 32, C = 16, H = 56, W = 56, O = 16, T = 3",
    "B = 32, C = 24, H = 56, W = 56, O = 24, T = 3",
    "B = 32, C = 32, H = 56, W = 56, O = 32, T = 3",
    "B = 32, C = 48, H = 56, W = 56, O = 48, T = 3",
];

pub(super) const CASES: &[Case] = &[
    Case {
        class: Class::Convolution,
        function: "fn conv_relu_f32(x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C, T, T>,
            b: Weight<f32, O>) -> Tensor<f32, B, O, H, W> {
            compute(|n, o, y, p| max(sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }) + b[[o]], 0.0))
        }",
        checks: &[Check {
            dims: "B = 1..=2, C = 5, H = 9, W = 11, O = 7, T = 3",
            at: &[&[1], &[2]],
        }],
        times: &["B = 32, C = 64, H = 56, W = 56, O = 64, T = 3"],
    },
    Case {
        class: Class::Convolution,
        function: "fn conv_strided_f32(x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C, T, T>)
            -> Tensor<f32, B, O, { H / 2 }, { W / 2 }> {
            compute(|n, o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([n, c, 2 * y + r - 1, 2 * p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
        checks: &[Check { dims: "B = 1..=2, C = 3, H = 10, W = 14, O = 6, T = 3", at: &[&[2]] }],
        times: &["B = 32, C = 64, H = 112, W = 112, O = 128, T = 3"],
    },
    Case {
        class: Class::Convolution,
        function: "fn conv_nhwc_f16(x: Tensor<f16, B, H, W, C>, w: Weight<f16, O, T, T, C>)
            -> Tensor<f16, B, H, W, O> {
            compute(|n, y, p, o| sum((0..T, 0..T, 0..C), |r, s, c| {
                x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) * w[[o, r, s, c]]
            }))
        }",
        checks: &[
            Check { dims: "B = 1..=2, C = 16, H = 6, W = 7, O = 24, T = 3", at: &[&[1], &[2]] },
            Check { dims: "B = 1..=2, C = 72, H = 13, W = 14, O = 40, T = 3", at: &[&[1], &[2]] },
        ],
        times: RESNET_AND_NARROW,
    },
    Case {
        class: Class::Convolution,
        function: "fn conv_bn_relu_f16(x: Tensor<f16, B, H, W, C>, w: Weight<f16, O, T, T, C>,
            scale: Weight<f32, O>, shift: Weight<f32, O>) -> Tensor<f16, B, H, W, O> {
            compute(|n, y, p, o| {
                let h = sum((0..T, 0..T, 0..C), |r, s, c| {
                    x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) as f32 * w[[o, r, s, c]] as f32
                });
                max(h * scale[[o]] + shift[[o]], 0.0) as f16
            })
        }",
        checks: &[Check {
            dims: "B = 1..=2, C = 16, H = 7, W = 9, O = 24, T = 3",
            at: &[&[1], &[2]],
        }],
        times: RESNET,
    },
    Case {
        class: Class::Convolution,
        function: "fn conv_grouped_f32(x: Tensor<f32, B, G, C, H, W>, w: Weight<f32, G, O, C, T, T>)
            -> Tensor<f32, B, G, O, H, W> {
            compute(|n, g, o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([n, g, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[g, o, c, r, s]]
            }))
        }",
        checks: &[Check {
            dims: "B = 1..=2, G = 3, C = 4, H = 7, W = 9, O = 5, T = 3",
            at: &[&[1], &[2]],
        }],
        times: &["B = 32, G = 32, C = 4, H = 56, W = 56, O = 4, T = 3"],
    },
    Case {
        class: Class::Convolution,
        function: "fn conv_nhwc_strided_f16(x: Tensor<f16, B, H, W, C>, w: Weight<f16, O, T, T, C>)
            -> Tensor<f16, B, { H / 2 }, { W / 2 }, O> {
            compute(|n, y, p, o| sum((0..T, 0..T, 0..C), |r, s, c| {
                x.get([n, 2 * y + r - 1, 2 * p + s - 1, c]).unwrap_or(0.0) * w[[o, r, s, c]]
            }))
        }",
        checks: &[Check {
            dims: "B = 1..=2, C = 40, H = 14, W = 26, O = 24, T = 3",
            at: &[&[1], &[2]],
        }],
        times: &["B = 32, C = 128, H = 56, W = 56, O = 128, T = 3"],
    },
    Case {
        class: Class::Convolution,
        function: "fn depthwise_f32(x: Tensor<f32, B, C, H, W>, w: Weight<f32, C, T, T>)
            -> Tensor<f32, B, C, H, W> {
            compute(|n, c, y, p| sum((0..T, 0..T), |r, s| {
                x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[c, r, s]]
            }))
        }",
        checks: &[Check { dims: "B = 1..=2, C = 6, H = 10, W = 12, T = 3", at: &[&[1], &[2]] }],
        times: &["B = 32, C = 128, H = 56, W = 56, T = 3"],
    },
    Case {
        class: Class::Convolution,
        function: "fn max_pool_f32(x: Tensor<f32, B, H, W, C>)
            -> Tensor<f32, B, { H - 2 }, { W - 2 }, C> {
            compute(|b, y, p, c| max((0..3, 0..3), |r, s| x[[b, y + r, p + s, c]]))
        }",
        checks: &[Check { dims: "B = 1..=2, H = 11, W = 13, C = 20", at: &[&[1], &[2]] }],
        times: &[],
    },
    Case {
        class: Class::Convolution,
        function: "fn smooth_f16(x: Tensor<f16, N>, w: Weight<f16, T>) -> Tensor<f16, N> {
            compute(|i| sum(0..T, |t| x.get([2 * i + t - 2]).unwrap_or(0.0) * w[[t]]))
        }",
        checks: &[Check { dims: "N = 1..=90, T = 5", at: &[&[1], &[33], &[90]] }],
        times: &[],
    },
    Case {
        class: Class::Convolution,
        function: "fn conv_every_other_f32(x: Tensor<f32, B, C, { 2 * H }, { 2 * W }>,
            w: Weight<f32, O, C>) -> Tensor<f32, B, O, H, W> {
            compute(|n, o, y, p| sum(0..C, |c| x[[n, c, 2 * y, 2 * p]] * w[[o, c]]))
        }",
        checks: &[Check { dims: "B = 1..=2, C = 12, H = 5, W = 7, O = 18", at: &[&[1], &[2]] }],
        times: &[],
    },
];
