//! Reductions up to an index.

use super::{Case, Check, Class};

pub(super) const CASES: &[Case] = &[
    Case {
        class: Class::Scan,
        function: "fn cumulative_sum_f32(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
            compute(|i, j| sum(0..=j, |k| x[[i, k]]))
        }",
        checks: &[
            Check { dims: "R = 1..=3, N = 300", at: &[&[1], &[3]] },
            Check { dims: "R = 2, N = 1..=700", at: &[&[1], &[16], &[257], &[700]] },
        ],
        times: &["R = 8192, N = 4096"],
    },
    Case {
        class: Class::Scan,
        function: "fn running_mean_bf16(x: Tensor<bf16, T, C>) -> Tensor<bf16, T, C> {
            compute(|t, c| mean(0..=t, |k| x[[k, c]]) as bf16)
        }",
        checks: &[Check { dims: "T = 1..=70, C = 37", at: &[&[1], &[33], &[70]] }],
        times: &["T = 8192, C = 4096"],
    },
];
