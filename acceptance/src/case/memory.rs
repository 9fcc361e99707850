//! Memory-bound programs: elementwise, and data movement.

use super::{Case, Check, Class};

pub(super) const CASES: &[Case] = &[
    Case {
        class: Class::Elementwise,
        function: "fn gelu_scaled_f32(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| gelu(x[[i]]) * y[[i]] + tanh(x[[i]]))
        }",
        checks: &[Check { dims: "N = 1..=1000", at: &[&[1], &[255], &[1000]] }],
        times: &["N = 67108864"],
    },
    Case {
        class: Class::Elementwise,
        function: "fn bias_silu_f16(x: Tensor<f16, M, N>, b: Weight<f16, N>, s: f32) -> Tensor<f16, M, N> {
            compute(|i, j| silu(x[[i, j]] as f32 * s + b[[j]] as f32) as f16)
        }",
        checks: &[Check { dims: "M = 1..=33, N = 45", at: &[&[1], &[33]] }],
        times: &["M = 16384, N = 4096"],
    },
    Case {
        class: Class::Elementwise,
        function: "fn quantize_f32(x: Tensor<f32, M, K>) -> (Tensor<i8, M, K>, Tensor<f32, M>) {
            let scale = compute(|i| max(0..K, |k| x[[i, k]].abs()) / 127.0);
            let q = compute(|i, k| {
                let steps = if scale[[i]] > 0.0 { x[[i, k]] / scale[[i]] } else { 0.0 };
                (steps + 0.25).floor().clamp(-127.0, 127.0) as i8
            });
            (q, scale)
        }",
        checks: &[Check { dims: "M = 1..=5, K = 70", at: &[&[1], &[5]] }],
        times: &["M = 8192, K = 4096"],
    },
    Case {
        class: Class::Movement,
        function: "fn transpose_f16(x: Tensor<f16, M, N>) -> Tensor<f16, N, M> {
            compute(|i, j| x[[j, i]])
        }",
        checks: &[Check { dims: "M = 1..=70, N = 37", at: &[&[1], &[33], &[70]] }],
        times: &["M = 8192, N = 8192"],
    },
    Case {
        class: Class::Movement,
        function: "fn transpose_f32(x: Tensor<f32, B, M, N>) -> Tensor<f32, B, N, M> {
            compute(|b, i, j| x[[b, j, i]])
        }",
        checks: &[Check { dims: "B = 1..=3, M = 35, N = 18", at: &[&[1], &[3]] }],
        times: &["B = 16, M = 2048, N = 2048"],
    },
    Case {
        class: Class::Movement,
        function: "fn split_heads_bf16(x: Tensor<bf16, M, { S * 32 }>) -> Tensor<bf16, S, M, 32> {
            compute(|s, m, d| x[[m, s * 32 + d]])
        }",
        checks: &[Check { dims: "M = 1..=20, S = 3", at: &[&[1], &[20]] }],
        times: &["M = 32768, S = 32"],
    },
    Case {
        class: Class::Movement,
        function: "fn embed_f32(ids: Tensor<i32, T>, table: Weight<f32, V, D>) -> Tensor<f32, T, D> {
            compute(|t, d| table.get([ids[[t]], d]).unwrap_or(0.0))
        }",
        checks: &[Check { dims: "T = 1..=6, V = 10, D = 33", at: &[&[1], &[6]] }],
        times: &["T = 32768, V = 32000, D = 1024"],
    },
];
