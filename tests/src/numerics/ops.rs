//! One program for each function of one argument, over many elements.

use tvmtune_runtime::autotune;

/// Elements of a launch.
pub const LEN: usize = 1 << 16;

#[autotune(dims(N = 65536))]
pub fn exp_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| exp(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn ln_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| ln(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn sqrt_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| sqrt(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn rsqrt_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| rsqrt(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn tanh_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| tanh(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn erf_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| erf(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn sin_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| sin(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn cos_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| cos(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn tan_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| tan(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn asin_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| asin(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn acos_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| acos(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn atan_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| atan(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn sinh_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| sinh(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn cosh_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| cosh(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn asinh_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| asinh(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn acosh_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| acosh(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn atanh_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| atanh(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn log10_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| log10(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn cbrt_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| cbrt(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn trunc_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| trunc(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn fract_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| fract(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn signum_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| signum(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn exp2_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| exp2(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn log2_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| log2(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn exp_m1_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| exp_m1(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn ln_1p_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| ln_1p(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn softplus_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| softplus(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn mish_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| mish(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn hardswish_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| hardswish(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn hardsigmoid_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| hardsigmoid(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn leaky_relu_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| leaky_relu(x[[i]], 0.01))
}

#[autotune(dims(N = 65536))]
pub fn abs_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| abs(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn floor_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| floor(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn ceil_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| ceil(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn round_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| round(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn round_ties_even_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| round_ties_even(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn tf32_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| tf32(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn reciprocal_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| 1.0 / x[[i]])
}

#[autotune(dims(N = 65536))]
pub fn relu_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| relu(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn gelu_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| gelu(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn gelu_tanh_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| gelu_tanh(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn silu_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| silu(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn sigmoid_of(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| sigmoid(x[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn f32_to_i8(x: Tensor<f32, N>) -> Tensor<i8, N> {
    compute(|i| x[[i]] as i8)
}

#[autotune(dims(N = 65536))]
pub fn f32_to_u8(x: Tensor<f32, N>) -> Tensor<u8, N> {
    compute(|i| x[[i]] as u8)
}

#[autotune(dims(N = 65536))]
pub fn f32_to_i32(x: Tensor<f32, N>) -> Tensor<i32, N> {
    compute(|i| x[[i]] as i32)
}

#[autotune(dims(N = 65536))]
pub fn f32_to_u32(x: Tensor<f32, N>) -> Tensor<u32, N> {
    compute(|i| x[[i]] as u32)
}

#[autotune(dims(N = 65536))]
pub fn f32_to_f16(x: Tensor<f32, N>) -> Tensor<f16, N> {
    compute(|i| x[[i]] as f16)
}

#[autotune(dims(N = 65536))]
pub fn f32_to_bf16(x: Tensor<f32, N>) -> Tensor<bf16, N> {
    compute(|i| x[[i]] as bf16)
}

/// Rounded where it is no element, too.
#[autotune(dims(N = 65536))]
pub fn f32_through_f16(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] as f16 as f32)
}

#[autotune(dims(N = 65536))]
pub fn f32_through_bf16(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] as bf16 as f32)
}

#[autotune(dims(N = 65536))]
pub fn i32_to_f32(x: Tensor<i32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] as f32)
}

#[autotune(dims(N = 65536))]
pub fn u32_to_f32(x: Tensor<u32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] as f32)
}

#[autotune(dims(N = 65536))]
pub fn i32_to_f16(x: Tensor<i32, N>) -> Tensor<f16, N> {
    compute(|i| x[[i]] as f16)
}

#[autotune(dims(N = 65536))]
pub fn i32_to_bf16(x: Tensor<i32, N>) -> Tensor<bf16, N> {
    compute(|i| x[[i]] as bf16)
}

#[autotune(dims(N = 65536))]
pub fn u32_to_bf16(x: Tensor<u32, N>) -> Tensor<bf16, N> {
    compute(|i| x[[i]] as bf16)
}

#[autotune(dims(N = 65536))]
pub fn f16_to_f32(x: Tensor<f16, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] as f32)
}

#[autotune(dims(N = 65536))]
pub fn bf16_to_f32(x: Tensor<bf16, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] as f32)
}

#[autotune(dims(N = 65536))]
pub fn power(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| pow(x[[i]], y[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn least(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]].min(y[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn greatest(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]].max(y[[i]]))
}

#[autotune(dims(N = 65536))]
pub fn quotient(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] / y[[i]])
}

#[autotune(dims(N = 65536))]
pub fn remainder(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] % y[[i]])
}

/// A product, whose bits are those of the definition in order; with functions around it.
#[autotune(dims(M = 1..=9, N = 40, K = 70))]
pub fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]));
    compute(|i, j| gelu(h[[i, j]]) * exp(h[[i, j]] * 0.1))
}
