//! Programs on rows: softmax, normalizations, attention.

use super::{Case, Check, Class};

pub(super) const CASES: &[Case] = &[
    Case {
        class: Class::Rows,
        function: "fn softmax_f32(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
            let s = compute(|r| sum(0..D, |d| e[[r, d]]));
            compute(|r, d| e[[r, d]] / s[[r]])
        }",
        checks: &[
            Check { dims: "R = 1..=9, D = 77", at: &[&[1], &[8], &[9]] },
            Check { dims: "R = 3, D = 1..=300", at: &[&[1], &[31], &[257], &[300]] },
        ],
        times: &["R = 8192, D = 4096", "R = 65536, D = 384", "R = 512, D = 32768"],
    },
    Case {
        class: Class::Rows,
        function: "fn masked_softmax_f16(x: Tensor<f16, H, S, S>, scale: f32) -> Tensor<f16, H, S, S> {
            let x = compute(|h, i, j| {
                if j <= i { x[[h, i, j]] as f32 * scale } else { f32::NEG_INFINITY }
            });
            let m = compute(|h, i| max(0..S, |j| x[[h, i, j]]));
            let e = compute(|h, i, j| exp(x[[h, i, j]] - m[[h, i]]));
            let s = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|h, i, j| (e[[h, i, j]] / s[[h, i]]) as f16)
        }",
        checks: &[Check { dims: "H = 2, S = 1..=70", at: &[&[1], &[33], &[70]] }],
        times: &["H = 32, S = 2048"],
    },
    Case {
        class: Class::Rows,
        function: "fn layernorm_bf16(x: Tensor<bf16, R, D>, g: Weight<bf16, D>, b: Weight<bf16, D>)
            -> Tensor<bf16, R, D> {
            let c = compute(|r| mean(0..D, |d| x[[r, d]] as f32));
            let v = compute(|r| mean(0..D, |d| (x[[r, d]] as f32 - c[[r]]) * (x[[r, d]] as f32 - c[[r]])));
            compute(|r, d| ((x[[r, d]] as f32 - c[[r]]) * rsqrt(v[[r]] + 0.00001) * g[[d]] as f32
                + b[[d]] as f32) as bf16)
        }",
        checks: &[Check { dims: "R = 1..=5, D = 96", at: &[&[1], &[5]] }],
        times: &["R = 8192, D = 4096", "R = 16384, D = 768"],
    },
    Case {
        class: Class::Rows,
        function: "fn residual_layernorm_f32(x: Tensor<f32, R, D>, y: Tensor<f32, R, D>,
            a: Weight<f32, D>, g: Weight<f32, D>, b: Weight<f32, D>) -> Tensor<f32, R, D> {
            let h = compute(|r, d| x[[r, d]] + y[[r, d]] + a[[d]]);
            let c = compute(|r| mean(0..D, |d| h[[r, d]]));
            let v = compute(|r| mean(0..D, |d| (h[[r, d]] - c[[r]]) * (h[[r, d]] - c[[r]])));
            compute(|r, d| (h[[r, d]] - c[[r]]) * rsqrt(v[[r]] + 0.00001) * g[[d]] + b[[d]])
        }",
        checks: &[Check { dims: "R = 1..=5, D = 100", at: &[&[1], &[5]] }],
        times: &["R = 16384, D = 768", "R = 4096, D = 4096"],
    },
    Case {
        class: Class::Rows,
        function: "fn rms_norm_f16(x: Tensor<f16, R, D>, g: Weight<f16, D>, eps: f32) -> Tensor<f16, R, D> {
            let q = compute(|r| mean(0..D, |d| x[[r, d]] as f32 * x[[r, d]] as f32));
            compute(|r, d| (x[[r, d]] as f32 * rsqrt(q[[r]] + eps) * g[[d]] as f32) as f16)
        }",
        checks: &[Check { dims: "R = 1..=6, D = 130", at: &[&[1], &[6]] }],
        times: &["R = 8192, D = 4096"],
    },
    Case {
        class: Class::Rows,
        function: "fn rms_norm_in_place_f16(y: InOut<f16, R, D>, g: Weight<f16, D>, eps: f32) {
            let q = compute(|r| mean(0..D, |d| y[[r, d]] as f32 * y[[r, d]] as f32));
            y = compute(|r, d| (y[[r, d]] as f32 * rsqrt(q[[r]] + eps) * g[[d]] as f32) as f16);
        }",
        checks: &[Check { dims: "R = 1..=6, D = 130", at: &[&[1], &[6]] }],
        times: &[],
    },
    Case {
        class: Class::Reduction,
        function: "fn row_sums_f32(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
            compute(|i| sum(0..N, |j| x[[i, j]]))
        }",
        checks: &[Check { dims: "M = 1..=9, N = 130", at: &[&[1], &[9]] }],
        times: &["M = 8192, N = 8192"],
    },
    Case {
        class: Class::Reduction,
        function: "fn column_max_f32(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
            compute(|j| max(0..M, |i| x[[i, j]]))
        }",
        checks: &[Check { dims: "M = 1..=40, N = 50", at: &[&[1], &[40]] }],
        times: &["M = 8192, N = 8192"],
    },
    Case {
        class: Class::Reduction,
        function: "fn total_f32(x: Tensor<f32, N>) -> Tensor<f32> {
            compute(|| sum(0..N, |i| x[[i]]))
        }",
        // In pieces of 8192 elements, and all pieces.
        checks: &[Check { dims: "N = 1..=40000", at: &[&[1], &[8191], &[40000]] }],
        times: &["N = 4194304"],
    },
    Case {
        class: Class::Reduction,
        function: "fn column_mean_f16(x: Tensor<f16, M, N>) -> Tensor<f16, N> {
            compute(|j| mean(0..M, |i| x[[i, j]] as f32) as f16)
        }",
        checks: &[Check { dims: "M = 1..=700, N = 20", at: &[&[1], &[513], &[700]] }],
        times: &["M = 8192, N = 8192"],
    },
    Case {
        class: Class::Reduction,
        function: "fn mean_pool_f16(x: Tensor<f16, B, S, D>) -> Tensor<f16, B, D> {
            compute(|b, d| mean(0..S, |s| x[[b, s, d]] as f32) as f16)
        }",
        checks: &[Check { dims: "B = 1..=3, S = 70, D = 24", at: &[&[1], &[3]] }],
        times: &["B = 32, S = 512, D = 1024"],
    },
    Case {
        class: Class::Reduction,
        function: "fn column_variance_f32(x: Tensor<f32, M, D>) -> Tensor<f32, D> {
            let c = compute(|d| mean(0..M, |i| x[[i, d]]));
            compute(|d| mean(0..M, |i| (x[[i, d]] - c[[d]]) * (x[[i, d]] - c[[d]])))
        }",
        checks: &[Check { dims: "M = 1..=100, D = 37", at: &[&[1], &[33], &[100]] }],
        times: &["M = 65536, D = 512"],
    },
    Case {
        class: Class::Reduction,
        function: "fn outer_max_f32(x: Tensor<f32, H, W, B>) -> Tensor<f32, B, W> {
            compute(|b, w| max(0..H, |h| x[[h, w, b]]))
        }",
        checks: &[Check { dims: "H = 40, W = 1..=9, B = 5", at: &[&[1], &[9]] }],
        times: &[],
    },
    Case {
        class: Class::Reduction,
        function: "fn few_rows_f32(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| max(sum(0..K, |k| x[[i, k]] * w[[j, k]]), 0.0))
        }",
        checks: &[Check { dims: "M = 1..=9, N = 24, K = 1000", at: &[&[1], &[9]] }],
        times: &["M = 1, N = 4096, K = 4096", "M = 8, N = 4096, K = 4096"],
    },
    Case {
        class: Class::Reduction,
        function: "fn few_rows_f16(x: Tensor<f16, M, K>, w: Weight<f16, N, K>) -> Tensor<f16, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }",
        checks: &[Check { dims: "M = 1..=20, N = 24, K = 1024", at: &[&[1], &[20]] }],
        times: &["M = 1, N = 11008, K = 4096", "M = 16, N = 4096, K = 11008"],
    },
    Case {
        class: Class::Attention,
        function: "fn attention_f16(q: Tensor<f16, H, S, D>, k: Tensor<f16, H, S, D>,
            v: Tensor<f16, H, S, D>) -> Tensor<f16, H, S, D> {
            let s = compute(|h, i, j| sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]) / sqrt(D as f32));
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let t = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|h, i, d| sum(0..S, |j| e[[h, i, j]] * v[[h, j, d]]) / t[[h, i]])
        }",
        checks: &[
            Check { dims: "H = 2, S = 1..=20, D = 16", at: &[&[1], &[7], &[20]] },
            Check { dims: "H = 2, S = 1..=140, D = 64", at: &[&[1], &[65], &[140]] },
        ],
        times: &["H = 32, S = 2048, D = 128", "H = 32, S = 8192, D = 128"],
    },
    Case {
        class: Class::Attention,
        function: "fn causal_attention_bf16(q: Tensor<bf16, H, S, D>, k: Tensor<bf16, H, S, D>,
            v: Tensor<bf16, H, S, D>) -> Tensor<bf16, H, S, D> {
            let s = compute(|h, i, j| {
                let dot = sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]);
                if j <= i { dot / sqrt(D as f32) } else { f32::NEG_INFINITY }
            });
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let t = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|h, i, d| sum(0..S, |j| e[[h, i, j]] * v[[h, j, d]]) / t[[h, i]])
        }",
        checks: &[
            Check { dims: "H = 2, S = 1..=20, D = 16", at: &[&[1], &[7], &[20]] },
            Check { dims: "H = 2, S = 1..=140, D = 64", at: &[&[1], &[65], &[140]] },
        ],
        times: &["H = 32, S = 2048, D = 128"],
    },
];
