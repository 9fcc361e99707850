//! Matrix products, alone and with an epilogue.

use super::{Case, Check, Class};

pub(super) const CASES: &[Case] = &[
    Case {
        class: Class::MatrixF32,
        function: "fn matmul_f32(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[k, j]]))
        }",
        checks: &[Check { dims: "M = 1..=70, N = 36, K = 33", at: &[&[1], &[37], &[70]] }],
        times: &["M = 4096, N = 4096, K = 4096", "M = 1024, N = 1024, K = 1024"],
    },
    Case {
        class: Class::MatrixF32,
        function: "fn linear_f32(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>)
            -> Tensor<f32, M, N> {
            compute(|i, j| max(sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]], 0.0))
        }",
        checks: &[Check { dims: "M = 1..=40, N = 50, K = 27", at: &[&[1], &[40]] }],
        times: &["M = 2048, N = 4096, K = 1024", "M = 16, N = 4096, K = 4096"],
    },
    Case {
        class: Class::MatrixTf32,
        function:
            "fn linear_tf32(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| tf32(x[[i, k]]) * tf32(w[[j, k]])))
        }",
        checks: &[
            Check { dims: "M = 1..=100, N = 40, K = 36", at: &[&[1], &[17], &[100]] },
            Check { dims: "M = 1..=40, N = 24, K = 33", at: &[&[33]] },
        ],
        times: &["M = 4096, N = 4096, K = 4096", "M = 128, N = 4096, K = 4096"],
    },
    Case {
        class: Class::MatrixTf32,
        function:
            "fn matmul_tf32(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| tf32(x[[i, k]]) * tf32(w[[k, j]])))
        }",
        checks: &[Check { dims: "M = 1..=64, N = 48, K = 33", at: &[&[1], &[64]] }],
        times: &["M = 4096, N = 4096, K = 4096"],
    },
    Case {
        class: Class::MatrixF32,
        function: "fn matvec_f32(x: Tensor<f32, K>, w: Weight<f32, N, K>) -> Tensor<f32, N> {
            compute(|j| sum(0..K, |k| x[[k]] * w[[j, k]]))
        }",
        checks: &[Check { dims: "N = 200, K = 300", at: &[&[]] }],
        times: &["N = 8192, K = 16384"],
    },
    Case {
        class: Class::MatrixNarrow,
        function:
            "fn residual_bf16(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>, y: InOut<bf16, M, N>) {
            y = compute(|i, j| y[[i, j]] + sum(0..K, |k| x[[i, k]] * w[[j, k]]));
        }",
        checks: &[Check { dims: "M = 1..=100, N = 40, K = 72", at: &[&[1], &[17], &[100]] }],
        times: &[],
    },
    Case {
        class: Class::MatrixNarrow,
        function: "fn linear_bf16(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>)
            -> Tensor<bf16, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }",
        checks: &[
            Check { dims: "M = 1..=100, N = 40, K = 72", at: &[&[1], &[17], &[100]] },
            Check { dims: "M = 1..=40, N = 24, K = 33", at: &[&[33]] },
        ],
        // Squares, and the projections of transformers with 4096 features.
        times: &[
            "M = 8192, N = 8192, K = 8192",
            "M = 4096, N = 4096, K = 4096",
            "M = 8192, N = 4096, K = 4096",
            "M = 8192, N = 11008, K = 4096",
            "M = 8192, N = 4096, K = 11008",
            "M = 8192, N = 14336, K = 4096",
            "M = 8192, N = 4096, K = 14336",
            "M = 2048, N = 4096, K = 4096",
            "M = 2048, N = 11008, K = 4096",
            "M = 2048, N = 4096, K = 11008",
            "M = 2048, N = 14336, K = 4096",
            "M = 2048, N = 4096, K = 14336",
            "M = 128, N = 4096, K = 4096",
            "M = 128, N = 11008, K = 4096",
            "M = 128, N = 4096, K = 11008",
            "M = 128, N = 14336, K = 4096",
            "M = 128, N = 4096, K = 14336",
            "M = 16, N = 4096, K = 4096",
            "M = 16, N = 11008, K = 4096",
            "M = 16, N = 4096, K = 11008",
            "M = 16, N = 14336, K = 4096",
            "M = 16, N = 4096, K = 14336",
            "M = 1, N = 4096, K = 4096",
            "M = 1, N = 11008, K = 4096",
            "M = 1, N = 4096, K = 11008",
            "M = 1, N = 14336, K = 4096",
            "M = 1, N = 4096, K = 14336",
        ],
    },
    Case {
        class: Class::MatrixNarrow,
        function: "fn matmul_bf16(x: Tensor<bf16, M, K>, w: Tensor<bf16, K, N>)
            -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] as f32 * w[[k, j]] as f32))
        }",
        checks: &[Check { dims: "M = 1..=64, N = 48, K = 33", at: &[&[1], &[64]] }],
        times: &["M = 4096, N = 4096, K = 4096"],
    },
    Case {
        class: Class::MatrixNarrow,
        function:
            "fn linear_gelu_f16(x: Tensor<f16, M, K>, w: Weight<f16, N, K>, b: Weight<f16, N>)
            -> Tensor<f16, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
            compute(|i, j| gelu(h[[i, j]]))
        }",
        checks: &[Check { dims: "M = 1..=100, N = 40, K = 72", at: &[&[1], &[100]] }],
        times: &["M = 2048, N = 4096, K = 1024", "M = 8192, N = 3072, K = 768"],
    },
    Case {
        class: Class::MatrixNarrow,
        function: "fn batched_f16(x: Tensor<f16, B, M, K>, w: Tensor<f16, B, N, K>)
            -> Tensor<f16, B, M, N> {
            compute(|b, i, j| sum(0..K, |k| x[[b, i, k]] * w[[b, j, k]]))
        }",
        checks: &[
            Check { dims: "B = 1..=3, M = 37, N = 24, K = 48", at: &[&[1], &[3]] },
            // More tiles than multiprocessors.
            Check { dims: "B = 1..=35, M = 65, N = 72, K = 24", at: &[&[1], &[33], &[35]] },
        ],
        times: &["B = 384, M = 512, N = 512, K = 64"],
    },
    Case {
        class: Class::MatrixNarrow,
        function: "fn batched_transposed_f16(x: Tensor<f16, B, K, M>, w: Tensor<f16, B, K, N>)
            -> Tensor<f16, B, M, N> {
            compute(|b, i, j| sum(0..K, |k| x[[b, k, i]] * w[[b, k, j]]))
        }",
        checks: &[Check { dims: "B = 1..=3, M = 37, N = 24, K = 48", at: &[&[1], &[3]] }],
        times: &["B = 48, M = 1024, N = 1024, K = 128"],
    },
    Case {
        class: Class::MatrixNarrow,
        function: "fn matmul_i8(x: Tensor<i8, M, K>, w: Weight<i8, N, K>) -> Tensor<i32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] as i32 * w[[j, k]] as i32))
        }",
        checks: &[Check { dims: "M = 1..=40, N = 24, K = 100", at: &[&[1], &[33], &[40]] }],
        times: &["M = 8192, N = 8192, K = 8192", "M = 2048, N = 4096, K = 4096"],
    },
];
