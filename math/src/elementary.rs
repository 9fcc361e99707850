//! Elementary functions as sequences of operations on lanes.
//!
//! | function | greatest error | notes |
//! |---|---|---|
//! | `exp` | 2 ulp | also where the result is denormal |
//! | `ln` | 2 ulp | |
//! | `tanh` | 5 ulp | in [-1, 1], and 1 from 9 on |
//! | `erf` | 5.5 ulp | in [-1, 1], and 1 from 4 on |
//! | `sin`, `cos` | 2 ulp | in [`crate::trig`] |
//! | `pow` | 3 ulp | signs and infinities as in C |
//! | `exp2`, `log2`, `exp_m1`, `ln_1p` | 1.1 ulp | in [`crate::exponential`] |
//!
//! These hold for all arguments; the tests measure them against double precision.
//!
//! # Source
//!
//! Range reduction of Cody and Waite (1980); minimax polynomials of `exp` and `ln` from Cephes
//! (Moshier). The rational functions of `tanh` and `erf` are minimax approximations of their relative
//! error (Remez), whose rounded coefficients were searched for the least error of the results. `pow`
//! computes its logarithm in double-float arithmetic.

use crate::Arithmetic;
use crate::lane::{Binary, Compare, Unary};

pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// `ln 2` as a sum: 15 bits, so that products with exponents are exact, and the remainder.
pub(crate) const LN_2_HIGH: f32 = 0.693_359_4;
pub(crate) const LN_2_LOW: f32 = -2.121_944_4e-4;
/// The bit pattern of 1, and the position of the exponent.
pub(crate) const ONE: i32 = 0x3f80_0000;
const EXPONENT: u8 = 23;

/// `tanh x = x P(x^2) / Q(x^2)` up to the limit, highest power first. Both are 1 at 0, so that
/// denormal arguments keep their last bits.
const TANH_LIMIT: f32 = 8.7;
const TANH_P: [f32; 5] = [1.389_761_8e-8, 2.099_383_5e-5, 3.518_744e-3, 1.340_046_7e-1, 1.0];
const TANH_Q: [f32; 5] = [7.996_525e-7, 3.323_647_8e-4, 2.596_489_5e-2, 4.673_378_5e-1, 1.0];

/// `erf x = x P(x^2) / Q(x^2)` up to the limit, highest power first.
const ERF_LIMIT: f32 = 3.86;
const ERF_P: [f32; 5] = [
    2.293_803_1e-4,
    3.460_899_2e-3,
    5.112_013_6e-2,
    1.865_921_9e-1,
    std::f32::consts::FRAC_2_SQRT_PI,
];
const ERF_Q: [f32; 7] = [
    -1.160_672_4e-7,
    2.341_754e-5,
    1.028_732_7e-3,
    1.417_876_7e-2,
    1.115_398_7e-1,
    4.986_956_7e-1,
    1.0,
];

/// Evaluates a polynomial by Horner's rule; coefficients are of descending powers.
#[inline(always)]
pub(crate) fn polynomial<A: Arithmetic>(
    ops: &mut A,
    x: A::Value,
    coefficients: &[f32],
) -> A::Value {
    let first = ops.float(coefficients[0]);
    coefficients[1..].iter().fold(first, |sum, it| {
        let it = ops.float(*it);
        ops.fma(sum, x, it)
    })
}

/// Clamps `x` to bounds; NaN stays NaN.
#[inline(always)]
pub(crate) fn clamp<A: Arithmetic>(ops: &mut A, x: A::Value, low: f32, high: f32) -> A::Value {
    let (low, high) = (ops.float(low), ops.float(high));
    let x = ops.binary(Binary::MinF, high, x);
    ops.binary(Binary::MaxF, low, x)
}

/// Computes `e^x`.
#[inline(always)]
pub fn exp<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let zero = ops.float(0.0);
    exp_sum(ops, x, zero)
}

/// Computes `e^(x + low)` for `low` small against `x`.
#[inline(always)]
fn exp_sum<A: Arithmetic>(ops: &mut A, x: A::Value, low: A::Value) -> A::Value {
    // Beyond these bounds the result is 0 or infinite.
    let x = clamp(ops, x, -104.0, 89.0);
    let log2_e = ops.float(LOG2_E);
    let n = ops.mul(x, log2_e);
    let n = ops.unary(Unary::RoundF, n);
    let r = ops.fma_by(n, -LN_2_HIGH, x);
    let r = ops.fma_by(n, -LN_2_LOW, r);
    let r = if ops.constant_bits(low) == Some(0) { r } else { ops.add(r, low) };
    let p = polynomial(
        ops,
        r,
        &[1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5],
    );
    let square = ops.mul(r, r);
    let p = ops.fma(p, square, r);
    let one = ops.float(1.0);
    let p = ops.add(p, one);
    scale_by_power(ops, p, n)
}

/// Computes `p * 2^n` (`ldexp`) for integral `n` in -150..=129, rounded once.
#[inline(always)]
pub(crate) fn scale_by_power<A: Arithmetic>(ops: &mut A, p: A::Value, n: A::Value) -> A::Value {
    if ops.scales() {
        return ops.binary(Binary::ScaleF, p, n);
    }
    // 2^n as two normal factors, so that the last product rounds to a denormal correctly.
    let n = ops.unary(Unary::FloatToInt, n);
    let half = ops.unary(Unary::ShiftRightSigned(1), n);
    let rest = ops.binary(Binary::SubI, n, half);
    let half = ops.unary(Unary::ShiftLeft(EXPONENT), half);
    let p = ops.binary(Binary::AddI, p, half);
    let rest = ops.unary(Unary::ShiftLeft(EXPONENT), rest);
    let bits_of_one = ops.int(ONE);
    let scale = ops.binary(Binary::AddI, rest, bits_of_one);
    ops.mul(p, scale)
}

/// Splits positive finite `x = 2^exponent * (1 + fraction)`, with `1 + fraction` around 1.
#[inline(always)]
pub(crate) fn frexp<A: Arithmetic>(ops: &mut A, x: A::Value) -> (A::Value, A::Value) {
    // Denormal numbers are scaled up first.
    let tiny = ops.float(f32::MIN_POSITIVE);
    let is_tiny = ops.compare(Compare::LtF, x, tiny);
    let up = ops.float(8_388_608.0);
    let scaled = ops.mul(x, up);
    let x = ops.select(is_tiny, scaled, x);
    // The range of `1 + fraction` starts at the square root of 1/2.
    let root = ops.int(0x3f35_04f3);
    let from_root = ops.binary(Binary::SubI, x, root);
    let exponent = ops.unary(Unary::ShiftRightSigned(EXPONENT), from_root);
    let power = ops.unary(Unary::ShiftLeft(EXPONENT), exponent);
    let mantissa = ops.binary(Binary::SubI, x, power);
    let (one, down) = (ops.float(1.0), ops.int(-23));
    let fraction = ops.sub(mantissa, one);
    let shift = ops.binary(Binary::And, is_tiny, down);
    let exponent = ops.binary(Binary::AddI, exponent, shift);
    (ops.unary(Unary::IntToFloat, exponent), fraction)
}

/// Computes `(ln(1 + f) - f + f^2 / 2) / f^3`.
#[inline(always)]
fn log1p_tail<A: Arithmetic>(ops: &mut A, f: A::Value) -> A::Value {
    polynomial(
        ops,
        f,
        &[
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    )
}

/// Computes the natural logarithm; NaN of negative numbers.
#[inline(always)]
pub fn ln<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let (e, f) = frexp(ops, x);
    let square = ops.mul(f, f);
    let p = log1p_tail(ops, f);
    let cube = ops.mul(square, f);
    let low = ops.float(LN_2_LOW);
    let carried = ops.mul(e, low);
    let y = ops.fma(p, cube, carried);
    let y = ops.fma_by(square, -0.5, y);
    let y = ops.add(f, y);
    let y = ops.fma_by(e, LN_2_HIGH, y);
    ln_special(ops, x, y)
}

/// Selects the logarithm of 0, infinity, NaN, and negative numbers.
#[inline(always)]
pub(crate) fn ln_special<A: Arithmetic>(ops: &mut A, x: A::Value, y: A::Value) -> A::Value {
    let (zero, infinity) = (ops.float(0.0), ops.float(f32::INFINITY));
    let (least, nan) = (ops.float(f32::NEG_INFINITY), ops.float(f32::NAN));
    let is_finite = ops.compare(Compare::LtF, x, infinity);
    let y = ops.select(is_finite, y, x);
    let is_positive = ops.compare(Compare::LtF, zero, x);
    let is_zero = ops.compare(Compare::EqF, x, zero);
    let special = ops.select(is_zero, least, nan);
    ops.select(is_positive, y, special)
}

/// Computes the hyperbolic tangent.
#[inline(always)]
pub fn tanh<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    sigmoid_like(ops, x, TANH_LIMIT, &TANH_P, &TANH_Q)
}

/// Computes the error function.
#[inline(always)]
pub fn erf<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    sigmoid_like(ops, x, ERF_LIMIT, &ERF_P, &ERF_Q)
}

/// Computes `x P(x^2) / Q(x^2)`, which rises from -1 to 1; beyond the limit it rounds to these.
///
/// There the quotient is that of the limit, so that the result is a multiple of `x`; and it is
/// clamped, so it neither exceeds 1, as roundings would have it, nor stops below.
#[inline(always)]
fn sigmoid_like<A: Arithmetic>(
    ops: &mut A,
    x: A::Value,
    limit: f32,
    p: &[f32],
    q: &[f32],
) -> A::Value {
    let square = ops.mul(x, x);
    let limit = ops.float(limit * limit);
    let square = ops.binary(Binary::MinF, limit, square);
    let p = polynomial(ops, square, p);
    let p = ops.mul(x, p);
    let q = polynomial(ops, square, q);
    let y = ops.div(p, q);
    clamp(ops, y, -1.0, 1.0)
}

/// Computes `x^y`.
#[inline(always)]
pub fn pow<A: Arithmetic>(ops: &mut A, x: A::Value, y: A::Value) -> A::Value {
    let magnitude = ops.int(i32::MAX);
    let size = ops.binary(Binary::And, x, magnitude);
    let (high, low) = ln_pair(ops, size);
    // y * (high + low) as a double-float.
    let product = ops.mul(y, high);
    let zero = ops.float(0.0);
    let negative = ops.sub(zero, product);
    let error = ops.fma(y, high, negative);
    let error = ops.fma(y, low, error);
    // Beyond, the result is 0 or infinite, and the error may be anything.
    let limit = ops.float(128.0);
    let product_size = ops.binary(Binary::And, product, magnitude);
    let is_small = ops.compare(Compare::LtF, product_size, limit);
    let error = ops.select(is_small, error, zero);
    let value = exp_sum(ops, product, error);
    let value = pow_sign(ops, x, y, value);
    let one = ops.float(1.0);
    let is_one = ops.compare(Compare::EqF, x, one);
    let is_unit = ops.compare(Compare::EqF, size, one);
    let infinity = ops.float(f32::INFINITY);
    let y_size = ops.binary(Binary::And, y, magnitude);
    let is_endless = ops.compare(Compare::EqF, y_size, infinity);
    let unit = ops.binary(Binary::And, is_unit, is_endless);
    let power_is_zero = ops.compare(Compare::EqF, y, zero);
    let is_one = ops.binary(Binary::Or, is_one, power_is_zero);
    let is_one = ops.binary(Binary::Or, is_one, unit);
    ops.select(is_one, one, value)
}

/// Computes `ln x` as a double-float, for nonnegative `x`.
///
/// With `s = f / (2 + f)` it is `e ln 2 + 2 s + s^3 P(s^2)`. The last term is below 1 % of the
/// others, and so are its rounding errors; `s` is a double-float.
#[inline(always)]
fn ln_pair<A: Arithmetic>(ops: &mut A, x: A::Value) -> (A::Value, A::Value) {
    let (e, f) = frexp(ops, x);
    let (s, double_low) = log_argument(ops, f);
    let square = ops.mul(s, s);
    let p = polynomial(ops, square, &[0.233_316_14, 0.285_507_8, 0.400_001_23, 0.666_666_7]);
    let tail = ops.fma(s, p, double_low);
    let tail = ops.fma(square, tail, double_low);
    let tail = ops.fma_by(e, LN_2_LOW, tail);
    let whole = ops.float(LN_2_HIGH);
    let whole = ops.mul(e, whole);
    let double = ops.add(s, s);
    let (sum, lost) = two_sum(ops, whole, double);
    let low = ops.add(lost, tail);
    let high = ops.add(sum, low);
    let rounded = ops.sub(high, sum);
    let low = ops.sub(low, rounded);
    let high = ln_special(ops, x, high);
    (high, low)
}

/// Computes `s = f / (2 + f)`, and twice its rounding error.
#[inline(always)]
fn log_argument<A: Arithmetic>(ops: &mut A, f: A::Value) -> (A::Value, A::Value) {
    let one = ops.float(1.0);
    let mantissa = ops.add(f, one);
    let sum = ops.add(mantissa, one);
    let rounded = ops.sub(sum, one);
    let sum_low = ops.sub(mantissa, rounded);
    let s = ops.div(f, sum);
    let zero = ops.float(0.0);
    let negative = ops.sub(zero, s);
    let rest = ops.fma(negative, sum, f);
    let rest = ops.fma(negative, sum_low, rest);
    // 2 / (2 + f) is 1 - s.
    let negative = ops.sub(zero, rest);
    (s, ops.fma(negative, s, rest))
}

/// Computes `a + b` and its rounding error (Knuth's TwoSum).
#[inline(always)]
fn two_sum<A: Arithmetic>(ops: &mut A, a: A::Value, b: A::Value) -> (A::Value, A::Value) {
    let sum = ops.add(a, b);
    let part = ops.sub(sum, a);
    let other = ops.sub(sum, part);
    let (lost_a, lost_b) = (ops.sub(a, other), ops.sub(b, part));
    (sum, ops.add(lost_a, lost_b))
}

/// Applies the sign of a power of a negative base; NaN unless the exponent is integral.
#[inline(always)]
fn pow_sign<A: Arithmetic>(ops: &mut A, x: A::Value, y: A::Value, value: A::Value) -> A::Value {
    let whole = ops.unary(Unary::FloorF, y);
    let is_whole = ops.compare(Compare::EqF, whole, y);
    let half = ops.float(0.5);
    let half_y = ops.mul(y, half);
    let half_whole = ops.unary(Unary::FloorF, half_y);
    let is_odd = ops.compare(Compare::NeF, half_whole, half_y);
    let is_odd = ops.binary(Binary::And, is_odd, is_whole);
    let sign_bit = ops.int(i32::MIN);
    let sign = ops.binary(Binary::And, x, sign_bit);
    let sign = ops.binary(Binary::And, sign, is_odd);
    let value = ops.binary(Binary::Xor, value, sign);
    let (zero, nan) = (ops.float(0.0), ops.float(f32::NAN));
    let least = ops.float(f32::NEG_INFINITY);
    let is_negative = ops.compare(Compare::LtF, x, zero);
    let is_finite = ops.compare(Compare::LtF, least, x);
    let is_broken = ops.binary(Binary::And, is_negative, is_finite);
    let not_whole = ops.not(is_whole);
    let is_broken = ops.binary(Binary::And, is_broken, not_whole);
    ops.select(is_broken, nan, value)
}
