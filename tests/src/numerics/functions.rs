//! The table of functions: how each is computed, what it is in double precision, and how far off it
//! may be.

use half::{bf16, f16};
use tvmtune_runtime::Cpu;

use super::error::{exact, ulps, ulps_above, ulps_of};
use super::ops::LEN;
use super::{Function, PairFunction, ops};

/// Results below this are 0 where `exp` of their argument overflows, which `sigmoid` divides by.
const TINY_SIGMOID: f64 = 3e-39;
/// The same of `silu`: 89 times as much.
const TINY_SILU: f64 = 2.7e-37;

/// Results of `mish` below this are products with a denormal number, which has fewer digits.
const TINY_MISH: f64 = 1.3e-36;

/// An element as the low bits of a word.
trait Word: Copy + Default {
    fn of_bits(bits: u32) -> Self;
    fn bits(self) -> u32;
    fn is_nan(self) -> bool;
}

macro_rules! words {
    ($($type:ty: $bits:ident => $of:expr, $it:ident => $to:expr, $is_nan:expr;)*) => {
        $(impl Word for $type {
            fn of_bits($bits: u32) -> Self {
                $of
            }

            fn bits(self) -> u32 {
                let $it = self;
                $to
            }

            fn is_nan(self) -> bool {
                let it: fn($type) -> bool = $is_nan;
                it(self)
            }
        })*
    };
}

words! {
    f32: bits => f32::from_bits(bits), it => it.to_bits(), f32::is_nan;
    f16: bits => f16::from_bits(bits as u16), it => u32::from(it.to_bits()), f16::is_nan;
    bf16: bits => bf16::from_bits(bits as u16), it => u32::from(it.to_bits()), bf16::is_nan;
    i32: bits => bits.cast_signed(), it => it.cast_unsigned(), |_| false;
    u32: bits => bits, it => it, |_| false;
    i8: bits => bits as i8, it => u32::from(it.cast_unsigned()), |_| false;
    u8: bits => bits as u8, it => u32::from(it), |_| false;
}

/// Launches a program on bit patterns.
fn launch<A: Word, B: Word>(x: &[u32], y: &mut [u32], program: impl FnOnce(&[A], &mut [B])) {
    let x: Vec<A> = x.iter().copied().map(A::of_bits).collect();
    let mut results = vec![B::default(); LEN];
    program(&x, &mut results);
    y.iter_mut().zip(results).for_each(|(y, it)| *y = it.bits());
}

/// A row of the table: name, expression, types, program, error of `(x, got)`, unit and limit.
macro_rules! function {
    ($name:literal, $expression:literal, $from:ident -> $to:ident by $program:ident,
     $n_arguments:expr, $error:expr, $unit:literal, $limit:literal) => {
        Function {
            name: $name,
            expression: $expression,
            types: [stringify!($from), stringify!($to)],
            n_arguments: $n_arguments,
            run: |cpu: &Cpu, x, y| {
                launch::<$from, $to>(x, y, |x, y| {
                    ops::$program(cpu, x, y).expect("buffers have the length of the program");
                });
            },
            error: |x, got| {
                let error: fn($from, $to) -> f64 = $error;
                error(<$from>::of_bits(x), <$to>::of_bits(got))
            },
            is_nan: |got| Word::is_nan(<$to>::of_bits(got)),
            unit: $unit,
            limit: $limit,
        }
    };
}

const ALL: u64 = 1 << 32;

/// Every function of one argument.
pub const FUNCTIONS: &[Function] = &[
    function!("exp", "exp(x[[i]])", f32 -> f32 by exp_of, ALL,
        |x, got| ulps(got, f64::from(x).exp()), "ulp", 1.1),
    function!("ln", "ln(x[[i]])", f32 -> f32 by ln_of, ALL,
        |x, got| ulps(got, f64::from(x).ln()), "ulp", 1.0),
    function!("tanh", "tanh(x[[i]])", f32 -> f32 by tanh_of, ALL,
        |x, got| ulps(got, f64::from(x).tanh()), "ulp", 5.0),
    function!("erf", "erf(x[[i]])", f32 -> f32 by erf_of, ALL,
        |x, got| ulps(got, libm::erf(x.into())), "ulp", 5.5),
    function!("sin", "sin(x[[i]])", f32 -> f32 by sin_of, ALL,
        |x, got| ulps(got, f64::from(x).sin()), "ulp", 2.0),
    function!("cos", "cos(x[[i]])", f32 -> f32 by cos_of, ALL,
        |x, got| ulps(got, f64::from(x).cos()), "ulp", 2.0),
    function!("exp2", "exp2(x[[i]])", f32 -> f32 by exp2_of, ALL,
        |x, got| ulps(got, f64::from(x).exp2()), "ulp", 1.0),
    function!("log2", "log2(x[[i]])", f32 -> f32 by log2_of, ALL,
        |x, got| ulps(got, f64::from(x).log2()), "ulp", 1.1),
    function!("exp_m1", "exp_m1(x[[i]])", f32 -> f32 by exp_m1_of, ALL,
        |x, got| ulps(got, f64::from(x).exp_m1()), "ulp", 1.1),
    function!("ln_1p", "ln_1p(x[[i]])", f32 -> f32 by ln_1p_of, ALL,
        |x, got| ulps(got, f64::from(x).ln_1p()), "ulp", 1.0),
    function!("tan", "tan(x[[i]])", f32 -> f32 by tan_of, ALL,
        |x, got| ulps(got, f64::tan(x.into())), "ulp", 4.0),
    function!("asin", "asin(x[[i]])", f32 -> f32 by asin_of, ALL,
        |x, got| ulps(got, f64::asin(x.into())), "ulp", 4.0),
    function!("acos", "acos(x[[i]])", f32 -> f32 by acos_of, ALL,
        |x, got| ulps(got, f64::acos(x.into())), "ulp", 4.0),
    function!("atan", "atan(x[[i]])", f32 -> f32 by atan_of, ALL,
        |x, got| ulps(got, f64::atan(x.into())), "ulp", 1.5),
    function!("sinh", "sinh(x[[i]])", f32 -> f32 by sinh_of, ALL,
        |x, got| ulps(got, f64::sinh(x.into())), "ulp", 4.0),
    function!("cosh", "cosh(x[[i]])", f32 -> f32 by cosh_of, ALL,
        |x, got| ulps(got, f64::cosh(x.into())), "ulp", 4.0),
    function!("asinh", "asinh(x[[i]])", f32 -> f32 by asinh_of, ALL,
        |x, got| ulps(got, f64::asinh(x.into())), "ulp", 4.0),
    function!("acosh", "acosh(x[[i]])", f32 -> f32 by acosh_of, ALL,
        |x, got| ulps(got, f64::acosh(x.into())), "ulp", 4.0),
    function!("atanh", "atanh(x[[i]])", f32 -> f32 by atanh_of, ALL,
        |x, got| ulps(got, libm::atanh(x.into())), "ulp", 4.0),
    function!("log10", "log10(x[[i]])", f32 -> f32 by log10_of, ALL,
        |x, got| ulps(got, f64::log10(x.into())), "ulp", 2.0),
    function!("cbrt", "cbrt(x[[i]])", f32 -> f32 by cbrt_of, ALL,
        |x, got| ulps(got, f64::cbrt(x.into())), "ulp", 2.0),
    function!("trunc", "trunc(x[[i]])", f32 -> f32 by trunc_of, ALL,
        |x, got| exact(got, x.trunc()), "exact", 0.0),
    function!("fract", "fract(x[[i]])", f32 -> f32 by fract_of, ALL,
        |x, got| exact(got, x.fract()), "exact", 0.0),
    function!("signum", "signum(x[[i]])", f32 -> f32 by signum_of, ALL,
        |x, got| exact(got, x.signum()), "exact", 0.0),
    function!("sqrt", "sqrt(x[[i]])", f32 -> f32 by sqrt_of, ALL,
        |x, got| exact(got, x.sqrt()), "exact", 0.0),
    function!("rsqrt", "rsqrt(x[[i]])", f32 -> f32 by rsqrt_of, ALL,
        |x, got| ulps(got, 1.0 / f64::from(x).sqrt()), "ulp", 1.5),
    function!("1 / x", "1.0 / x[[i]]", f32 -> f32 by reciprocal_of, ALL,
        |x, got| exact(got, 1.0 / x), "exact", 0.0),
    function!("sigmoid", "sigmoid(x[[i]])", f32 -> f32 by sigmoid_of, ALL,
        |x, got| ulps_above(TINY_SIGMOID, got, 1.0 / (1.0 + (-f64::from(x)).exp())), "ulp", 2.5),
    function!("silu", "silu(x[[i]])", f32 -> f32 by silu_of, ALL,
        |x, got| ulps_above(TINY_SILU, got, silu(x.into())), "ulp", 2.5),
    function!("gelu", "gelu(x[[i]])", f32 -> f32 by gelu_of, ALL,
        |x, got| ulps_of(x, got, gelu(x.into())), "ulp of x", 4.0),
    function!("gelu_tanh", "gelu_tanh(x[[i]])", f32 -> f32 by gelu_tanh_of, ALL,
        |x, got| ulps_of(x, got, gelu_tanh(x.into())), "ulp of x", 4.0),
    function!("softplus", "softplus(x[[i]])", f32 -> f32 by softplus_of, ALL,
        |x, got| ulps(got, softplus(x.into())), "ulp", 2.0),
    function!("mish", "mish(x[[i]])", f32 -> f32 by mish_of, ALL,
        |x, got| ulps_above(TINY_MISH, got, mish(x.into())), "ulp", 5.0),
    function!("hardswish", "hardswish(x[[i]])", f32 -> f32 by hardswish_of, ALL,
        |x, got| ulps_of(x, got, hardswish(x.into())), "ulp of x", 2.0),
    function!("hardsigmoid", "hardsigmoid(x[[i]])", f32 -> f32 by hardsigmoid_of, ALL,
        |x, got| ulps_of(1.0, got, hardsigmoid(x.into())), "ulp of 1", 1.0),
    function!("leaky_relu", "leaky_relu(x[[i]], 0.01)", f32 -> f32 by leaky_relu_of, ALL,
        |x, got| exact(got, if x > 0.0 { x } else { 0.01 * x }), "exact", 0.0),
    function!("abs", "abs(x[[i]])", f32 -> f32 by abs_of, ALL,
        |x, got| exact(got, x.abs()), "exact", 0.0),
    function!("floor", "floor(x[[i]])", f32 -> f32 by floor_of, ALL,
        |x, got| exact(got, x.floor()), "exact", 0.0),
    function!("ceil", "ceil(x[[i]])", f32 -> f32 by ceil_of, ALL,
        |x, got| exact(got, x.ceil()), "exact", 0.0),
    function!("round", "round(x[[i]])", f32 -> f32 by round_of, ALL,
        |x, got| exact(got, x.round()), "exact", 0.0),
    function!("round_ties_even", "round_ties_even(x[[i]])", f32 -> f32 by round_ties_even_of, ALL,
        |x, got| exact(got, x.round_ties_even()), "exact", 0.0),
    function!("tf32", "tf32(x[[i]])", f32 -> f32 by tf32_of, ALL,
        |x, got| exact(got, tf32(x)), "exact", 0.0),
    function!("relu", "relu(x[[i]])", f32 -> f32 by relu_of, ALL,
        |x, got| exact(got + 0.0, if x > 0.0 { x } else { 0.0 }), "exact", 0.0),
    function!("f32 as i8", "x[[i]] as i8", f32 -> i8 by f32_to_i8, ALL,
        |x, got| same(got, x as i8), "exact", 0.0),
    function!("f32 as u8", "x[[i]] as u8", f32 -> u8 by f32_to_u8, ALL,
        |x, got| same(got, x as u8), "exact", 0.0),
    function!("f32 as i32", "x[[i]] as i32", f32 -> i32 by f32_to_i32, ALL,
        |x, got| same(got, x as i32), "exact", 0.0),
    function!("f32 as u32", "x[[i]] as u32", f32 -> u32 by f32_to_u32, ALL,
        |x, got| same(got, x as u32), "exact", 0.0),
    function!("f32 as f16", "x[[i]] as f16", f32 -> f16 by f32_to_f16, ALL,
        |x, got| exact(got.to_f32(), to_f16(x.into())), "exact", 0.0),
    function!("f32 as bf16", "x[[i]] as bf16", f32 -> bf16 by f32_to_bf16, ALL,
        |x, got| exact(got.to_f32(), to_bf16(x.into())), "exact", 0.0),
    function!("f32 as f16 as f32", "x[[i]] as f16 as f32", f32 -> f32 by f32_through_f16, ALL,
        |x, got| exact(got, to_f16(x.into())), "exact", 0.0),
    function!("f32 as bf16 as f32", "x[[i]] as bf16 as f32", f32 -> f32 by f32_through_bf16, ALL,
        |x, got| exact(got, to_bf16(x.into())), "exact", 0.0),
    function!("i32 as f32", "x[[i]] as f32", i32 -> f32 by i32_to_f32, ALL,
        |x, got| exact(got, x as f32), "exact", 0.0),
    function!("u32 as f32", "x[[i]] as f32", u32 -> f32 by u32_to_f32, ALL,
        |x, got| exact(got, x as f32), "exact", 0.0),
    function!("i32 as f16", "x[[i]] as f16", i32 -> f16 by i32_to_f16, ALL,
        |x, got| exact(got.to_f32(), to_f16(x.into())), "exact", 0.0),
    function!("i32 as bf16", "x[[i]] as bf16", i32 -> bf16 by i32_to_bf16, ALL,
        |x, got| exact(got.to_f32(), to_bf16((x as f32).into())), "exact", 0.0),
    function!("u32 as bf16", "x[[i]] as bf16", u32 -> bf16 by u32_to_bf16, ALL,
        |x, got| exact(got.to_f32(), to_bf16((x as f32).into())), "exact", 0.0),
    function!("f16 as f32", "x[[i]] as f32", f16 -> f32 by f16_to_f32, 1 << 16,
        |x, got| exact(got, x.to_f32()), "exact", 0.0),
    function!("bf16 as f32", "x[[i]] as f32", bf16 -> f32 by bf16_to_f32, 1 << 16,
        |x, got| exact(got, x.to_f32()), "exact", 0.0),
];

/// A row of the table of functions of two floats.
macro_rules! pair_function {
    ($name:literal by $program:ident, $error:expr, $unit:literal, $limit:literal) => {
        PairFunction {
            name: $name,
            run: |cpu: &Cpu, a, b, y| {
                ops::$program(cpu, a, b, y).expect("buffers have the length of the program");
            },
            error: $error,
            unit: $unit,
            limit: $limit,
        }
    };
}

/// Every function of two floats.
pub const PAIRS: &[PairFunction] = &[
    pair_function!("pow" by power, |x, y, got| ulps(got, libm::pow(x.into(), y.into())), "ulp", 3.0),
    pair_function!("min" by least, |a, b, got| unsigned_zero(got, a.min(b)), "exact", 0.0),
    pair_function!("max" by greatest, |a, b, got| unsigned_zero(got, a.max(b)), "exact", 0.0),
    pair_function!("/" by quotient, |a, b, got| exact(got, a / b), "exact", 0.0),
    pair_function!("%" by remainder, |a, b, got| exact(got, a % b), "exact", 0.0),
];

fn same<T: PartialEq>(got: T, want: T) -> f64 {
    if got == want { 0.0 } else { f64::INFINITY }
}

/// Zeros of either sign are the same.
fn unsigned_zero(got: f32, want: f32) -> f64 {
    exact(got + 0.0, want + 0.0)
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + if x.is_nan() { x } else { (-x.abs()).exp().ln_1p() }
}

/// The hyperbolic tangent of the logarithm of `1 + w` is `n / (n + 2)`.
fn mish(x: f64) -> f64 {
    let w = x.min(40.0).exp();
    let n = w * (w + 2.0);
    x * (n / (n + 2.0))
}

fn hardsigmoid(x: f64) -> f64 {
    (x + 3.0).clamp(0.0, 6.0) / 6.0
}

fn hardswish(x: f64) -> f64 {
    x * hardsigmoid(x)
}

fn gelu(x: f64) -> f64 {
    0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `x/2 * (1 + tanh u)` is `x / (1 + e^-2u)`.
fn gelu_tanh(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    x / (1.0 + (-2.0 * u).exp())
}

/// The nearest multiple of the least digit of a format with that many of them, ties to even.
fn nearest(x: f64, n_digits: i32, least_exponent: i32) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least_exponent);
    let digit = 2_f64.powi(exponent - n_digits);
    (x / digit).round_ties_even() * digit
}

fn tf32(x: f32) -> f32 {
    nearest(x.into(), 10, -126) as f32
}

fn to_f16(x: f64) -> f32 {
    let rounded = nearest(x, 10, -14);
    if rounded.abs() > 65_504.0 { f32::INFINITY.copysign(x as f32) } else { rounded as f32 }
}

fn to_bf16(x: f64) -> f32 {
    nearest(x, 7, -126) as f32
}
