//! Vector math library: elementary functions as vector arithmetic, bit-identical on every CPU.
//!
//! | function | greatest error | notes |
//! |---|---|---|
//! | `exp` | 2 ulp | also where the result is denormal |
//! | `ln` | 2 ulp | |
//! | `tanh` | 5 ulp | in [-1, 1], and 1 from 9 on |
//! | `erf` | 5.5 ulp | in [-1, 1], and 1 from 4 on |
//! | `sin`, `cos` | 2 ulp | in [`super::trig`] |
//! | `pow` | 3 ulp | signs and infinities as in C |
//!
//! These hold for all arguments; the tests measure them against double precision.
//!
//! # Source
//!
//! Range reduction of Cody and Waite (1980); minimax polynomials of `exp` and `ln` from Cephes
//! (Moshier). The rational functions of `tanh` and `erf` are minimax approximations of their relative
//! error (Remez), whose rounded coefficients were searched for the least error of the results. `pow`
//! computes its logarithm in double-float arithmetic.

use super::numbering::{ValueGraph, ValueId};
use super::{VectorBinary, VectorCompare, VectorUnary};

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// `ln 2` as a sum: 15 bits, so that products with exponents are exact, and the remainder.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// The bit pattern of 1, and the position of the exponent.
const ONE: i32 = 0x3f80_0000;
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

impl ValueGraph {
    pub(super) fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(VectorBinary::AddF, a, b)
    }

    pub(super) fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(VectorBinary::SubF, a, b)
    }

    pub(super) fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(VectorBinary::MulF, a, b)
    }

    pub(super) fn div(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(VectorBinary::DivF, a, b)
    }

    pub(super) fn fma_by(&mut self, a: ValueId, b: f32, c: ValueId) -> ValueId {
        let b = self.float(b);
        self.fma(a, b, c)
    }

    /// Evaluates a polynomial by Horner's rule; coefficients are of descending powers.
    pub(super) fn polynomial(&mut self, x: ValueId, coefficients: &[f32]) -> ValueId {
        let first = self.float(coefficients[0]);
        coefficients[1..].iter().fold(first, |sum, it| {
            let it = self.float(*it);
            self.fma(sum, x, it)
        })
    }

    /// Clamps `x` to bounds; NaN stays NaN.
    fn clamp(&mut self, x: ValueId, low: f32, high: f32) -> ValueId {
        let (low, high) = (self.float(low), self.float(high));
        let x = self.binary(VectorBinary::MinF, high, x);
        self.binary(VectorBinary::MaxF, low, x)
    }

    pub(super) fn exp(&mut self, x: ValueId) -> ValueId {
        let zero = self.float(0.0);
        self.exp_sum(x, zero)
    }

    /// Computes `e^(x + low)` for `low` small against `x`.
    fn exp_sum(&mut self, x: ValueId, low: ValueId) -> ValueId {
        // Beyond these bounds the result is 0 or infinite.
        let x = self.clamp(x, -104.0, 89.0);
        let log2_e = self.float(LOG2_E);
        let n = self.mul(x, log2_e);
        let n = self.unary(VectorUnary::RoundF, n);
        let r = self.fma_by(n, -LN_2_HIGH, x);
        let r = self.fma_by(n, -LN_2_LOW, r);
        let r = if self.constant_bits(low) == Some(0) { r } else { self.add(r, low) };
        let p = self.polynomial(
            r,
            &[1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5],
        );
        let square = self.mul(r, r);
        let p = self.fma(p, square, r);
        let one = self.float(1.0);
        let p = self.add(p, one);
        self.scale_by_power(p, n)
    }

    /// Computes `p * 2^n` (`ldexp`) for integral `n` in -150..=129, rounded once.
    fn scale_by_power(&mut self, p: ValueId, n: ValueId) -> ValueId {
        if self.isa.scales() {
            return self.binary(VectorBinary::ScaleF, p, n);
        }
        // 2^n as two normal factors, so that the last product rounds to a denormal correctly.
        let n = self.unary(VectorUnary::FloatToInt, n);
        let half = self.unary(VectorUnary::ShiftRightSigned(1), n);
        let rest = self.binary(VectorBinary::SubI, n, half);
        let half = self.unary(VectorUnary::ShiftLeft(EXPONENT), half);
        let p = self.binary(VectorBinary::AddI, p, half);
        let rest = self.unary(VectorUnary::ShiftLeft(EXPONENT), rest);
        let bits_of_one = self.int(ONE);
        let scale = self.binary(VectorBinary::AddI, rest, bits_of_one);
        self.mul(p, scale)
    }

    /// Splits positive finite `x = 2^exponent * (1 + fraction)`, with `1 + fraction` around 1.
    fn frexp(&mut self, x: ValueId) -> (ValueId, ValueId) {
        // Denormal numbers are scaled up first.
        let tiny = self.float(f32::MIN_POSITIVE);
        let is_tiny = self.compare(VectorCompare::LtF, x, tiny);
        let up = self.float(8_388_608.0);
        let scaled = self.mul(x, up);
        let x = self.select(is_tiny, scaled, x);
        // The range of `1 + fraction` starts at the square root of 1/2.
        let root = self.int(0x3f35_04f3);
        let from_root = self.binary(VectorBinary::SubI, x, root);
        let exponent = self.unary(VectorUnary::ShiftRightSigned(EXPONENT), from_root);
        let power = self.unary(VectorUnary::ShiftLeft(EXPONENT), exponent);
        let mantissa = self.binary(VectorBinary::SubI, x, power);
        let (one, down) = (self.float(1.0), self.int(-23));
        let fraction = self.sub(mantissa, one);
        let shift = self.binary(VectorBinary::And, is_tiny, down);
        let exponent = self.binary(VectorBinary::AddI, exponent, shift);
        (self.unary(VectorUnary::IntToFloat, exponent), fraction)
    }

    /// Computes `(ln(1 + f) - f + f^2 / 2) / f^3`.
    fn log1p_tail(&mut self, f: ValueId) -> ValueId {
        self.polynomial(
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

    pub(super) fn ln(&mut self, x: ValueId) -> ValueId {
        let (e, f) = self.frexp(x);
        let square = self.mul(f, f);
        let p = self.log1p_tail(f);
        let cube = self.mul(square, f);
        let low = self.float(LN_2_LOW);
        let carried = self.mul(e, low);
        let y = self.fma(p, cube, carried);
        let y = self.fma_by(square, -0.5, y);
        let y = self.add(f, y);
        let y = self.fma_by(e, LN_2_HIGH, y);
        self.ln_special(x, y)
    }

    /// Selects the logarithm of 0, infinity, NaN, and negative numbers.
    fn ln_special(&mut self, x: ValueId, y: ValueId) -> ValueId {
        let (zero, infinity) = (self.float(0.0), self.float(f32::INFINITY));
        let (least, nan) = (self.float(f32::NEG_INFINITY), self.float(f32::NAN));
        let is_finite = self.compare(VectorCompare::LtF, x, infinity);
        let y = self.select(is_finite, y, x);
        let is_positive = self.compare(VectorCompare::LtF, zero, x);
        let is_zero = self.compare(VectorCompare::EqF, x, zero);
        let special = self.select(is_zero, least, nan);
        self.select(is_positive, y, special)
    }

    pub(super) fn tanh(&mut self, x: ValueId) -> ValueId {
        self.sigmoid_like(x, TANH_LIMIT, &TANH_P, &TANH_Q)
    }

    pub(super) fn erf(&mut self, x: ValueId) -> ValueId {
        self.sigmoid_like(x, ERF_LIMIT, &ERF_P, &ERF_Q)
    }

    /// Computes `x P(x^2) / Q(x^2)`, which rises from -1 to 1; beyond the limit it rounds to these.
    ///
    /// There the quotient is that of the limit, so that the result is a multiple of `x`; and it is
    /// clamped, so it neither exceeds 1, as roundings would have it, nor stops below.
    fn sigmoid_like(&mut self, x: ValueId, limit: f32, p: &[f32], q: &[f32]) -> ValueId {
        let square = self.mul(x, x);
        let limit = self.float(limit * limit);
        let square = self.binary(VectorBinary::MinF, limit, square);
        let p = self.polynomial(square, p);
        let p = self.mul(x, p);
        let q = self.polynomial(square, q);
        let y = self.div(p, q);
        self.clamp(y, -1.0, 1.0)
    }

    pub(super) fn pow(&mut self, x: ValueId, y: ValueId) -> ValueId {
        let magnitude = self.splat(i32::MAX as u32);
        let size = self.binary(VectorBinary::And, x, magnitude);
        let (high, low) = self.ln_pair(size);
        // y * (high + low) as a double-float.
        let product = self.mul(y, high);
        let zero = self.float(0.0);
        let negative = self.sub(zero, product);
        let error = self.fma(y, high, negative);
        let error = self.fma(y, low, error);
        // Beyond, the result is 0 or infinite, and the error may be anything.
        let limit = self.float(128.0);
        let product_size = self.binary(VectorBinary::And, product, magnitude);
        let is_small = self.compare(VectorCompare::LtF, product_size, limit);
        let error = self.select(is_small, error, zero);
        let value = self.exp_sum(product, error);
        let value = self.pow_sign(x, y, value);
        let one = self.float(1.0);
        let is_one = self.compare(VectorCompare::EqF, x, one);
        let is_unit = self.compare(VectorCompare::EqF, size, one);
        let infinity = self.float(f32::INFINITY);
        let y_size = self.binary(VectorBinary::And, y, magnitude);
        let is_endless = self.compare(VectorCompare::EqF, y_size, infinity);
        let unit = self.binary(VectorBinary::And, is_unit, is_endless);
        let power_is_zero = self.compare(VectorCompare::EqF, y, zero);
        let is_one = self.binary(VectorBinary::Or, is_one, power_is_zero);
        let is_one = self.binary(VectorBinary::Or, is_one, unit);
        self.select(is_one, one, value)
    }

    /// Computes `ln x` as a double-float, for nonnegative `x`.
    ///
    /// With `s = f / (2 + f)` it is `e ln 2 + 2 s + s^3 P(s^2)`. The last term is below 1 % of the
    /// others, and so are its rounding errors; `s` is a double-float.
    fn ln_pair(&mut self, x: ValueId) -> (ValueId, ValueId) {
        let (e, f) = self.frexp(x);
        let (s, double_low) = self.log_argument(f);
        let square = self.mul(s, s);
        let p = self.polynomial(square, &[0.233_316_14, 0.285_507_8, 0.400_001_23, 0.666_666_7]);
        let tail = self.fma(s, p, double_low);
        let tail = self.fma(square, tail, double_low);
        let tail = self.fma_by(e, LN_2_LOW, tail);
        let whole = self.float(LN_2_HIGH);
        let whole = self.mul(e, whole);
        let double = self.add(s, s);
        let (sum, lost) = self.two_sum(whole, double);
        let low = self.add(lost, tail);
        let high = self.add(sum, low);
        let rounded = self.sub(high, sum);
        let low = self.sub(low, rounded);
        let high = self.ln_special(x, high);
        (high, low)
    }

    /// Computes `s = f / (2 + f)`, and twice its rounding error.
    fn log_argument(&mut self, f: ValueId) -> (ValueId, ValueId) {
        let one = self.float(1.0);
        let mantissa = self.add(f, one);
        let sum = self.add(mantissa, one);
        let rounded = self.sub(sum, one);
        let sum_low = self.sub(mantissa, rounded);
        let s = self.div(f, sum);
        let zero = self.float(0.0);
        let negative = self.sub(zero, s);
        let rest = self.fma(negative, sum, f);
        let rest = self.fma(negative, sum_low, rest);
        // 2 / (2 + f) is 1 - s.
        let negative = self.sub(zero, rest);
        (s, self.fma(negative, s, rest))
    }

    /// Computes `a + b` and its rounding error (Knuth's TwoSum).
    fn two_sum(&mut self, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        let sum = self.add(a, b);
        let part = self.sub(sum, a);
        let other = self.sub(sum, part);
        let (lost_a, lost_b) = (self.sub(a, other), self.sub(b, part));
        (sum, self.add(lost_a, lost_b))
    }

    /// Applies the sign of a power of a negative base; NaN unless the exponent is integral.
    fn pow_sign(&mut self, x: ValueId, y: ValueId, value: ValueId) -> ValueId {
        let whole = self.unary(VectorUnary::FloorF, y);
        let is_whole = self.compare(VectorCompare::EqF, whole, y);
        let half = self.float(0.5);
        let half_y = self.mul(y, half);
        let half_whole = self.unary(VectorUnary::FloorF, half_y);
        let is_odd = self.compare(VectorCompare::NeF, half_whole, half_y);
        let is_odd = self.binary(VectorBinary::And, is_odd, is_whole);
        let sign_bit = self.splat(1 << 31);
        let sign = self.binary(VectorBinary::And, x, sign_bit);
        let sign = self.binary(VectorBinary::And, sign, is_odd);
        let value = self.binary(VectorBinary::Xor, value, sign);
        let (zero, nan) = (self.float(0.0), self.float(f32::NAN));
        let least = self.float(f32::NEG_INFINITY);
        let is_negative = self.compare(VectorCompare::LtF, x, zero);
        let is_finite = self.compare(VectorCompare::LtF, least, x);
        let is_broken = self.binary(VectorBinary::And, is_negative, is_finite);
        let not_whole = self.not(is_whole);
        let is_broken = self.binary(VectorBinary::And, is_broken, not_whole);
        self.select(is_broken, nan, value)
    }
}
