//! Sine and cosine as vector arithmetic, for all arguments.
//!
//! An angle is reduced to a number of quarter turns, and a remainder of half a quarter turn at most.
//!
//! - Up to [`LARGE`] by subtraction of that many times `pi / 2`, which is a sum of three floats. It is
//!   right to a rounding of the remainder, near multiples of `pi / 2` too.
//! - Beyond, behind a branch (see [`super::fallback`]), by multiplication with `2 / pi`. Of that
//!   number the digits are skipped that make whole turns, so as many more are needed as the exponent
//!   says: five of nine [`TWO_BY_PI`]. Turns are counted in 2^-30 of a quarter, as integers: these
//!   wrap every four quarters, as angles do. The remainders of roundings to integers are floats.
//!
//! # Source
//!
//! Reduction of Cody and Waite (1980), and of Payne and Hanek (1983); minimax polynomials from Cephes
//! (Moshier).

use super::fallback::Fallback;
use super::numbering::{ValueGraph, ValueId};
use super::{VectorBinary, VectorCompare, VectorUnary};

/// Angles from here on are reduced by the digits of `2 / pi`.
const LARGE: f32 = 131_072.0;

/// Digits of `2 / pi` after the point, 24 bits each.
const TWO_BY_PI: [u32; 9] = [
    0x00a2_f983,
    0x006e_4e44,
    0x0015_29fc,
    0x0027_57d1,
    0x00f5_34dd,
    0x00c0_db62,
    0x0095_993c,
    0x0043_9041,
    0x00fe_5163,
];

/// Digits that are multiplied: those before make whole turns, those behind less than 2^-66 of one.
const N_DIGITS: usize = 5;

/// One digit of [`TWO_BY_PI`] as a factor.
const DIGIT: f32 = 1.0 / 16_777_216.0;

/// Quarter turns are counted in units of 2^-30.
const UNITS: f32 = 1_073_741_824.0;

impl ValueGraph {
    pub(super) fn sin(&mut self, x: ValueId) -> ValueId {
        self.sin_shifted(x, 0)
    }

    pub(super) fn cos(&mut self, x: ValueId) -> ValueId {
        self.sin_shifted(x, 1)
    }

    /// Computes `sin(x + quarter_turns * pi / 2)`.
    fn sin_shifted(&mut self, x: ValueId, quarter_turns: i32) -> ValueId {
        let by = self.float(std::f32::consts::FRAC_2_PI);
        let n = self.mul(x, by);
        let n = self.unary(VectorUnary::RoundF, n);
        // pi / 2 as a sum of three floats.
        let r = self.fma_by(n, -1.570_796_4, x);
        let r = self.fma_by(n, 4.371_139e-8, r);
        let r = self.fma_by(n, 1.715_124_4e-15, r);
        let quarter = self.unary(VectorUnary::FloatToInt, n);
        let usual = self.sin_of_reduced(r, quarter, quarter_turns);
        self.with_fallback(usual, Fallback::Sine { quarter_turns }, x)
    }

    /// Computes `sin(r + (quarter + quarter_turns) * pi / 2)` for `r` of half a quarter turn at most.
    fn sin_of_reduced(&mut self, r: ValueId, quarter: ValueId, quarter_turns: i32) -> ValueId {
        let square = self.mul(r, r);
        let p = self.polynomial(square, &[-1.951_529_6e-4, 8.332_161e-3, -1.666_665_5e-1]);
        let cube = self.mul(square, r);
        let sin = self.fma(p, cube, r);
        let p = self.polynomial(square, &[2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]);
        let (half, one) = (self.float(-0.5), self.float(1.0));
        let p = self.fma(p, square, half);
        let cos = self.fma(p, square, one);
        let quarter_turns = self.int(quarter_turns);
        let quarter = self.binary(VectorBinary::AddI, quarter, quarter_turns);
        let (bit, zero) = (self.int(1), self.int(0));
        let odd = self.binary(VectorBinary::And, quarter, bit);
        let is_even = self.compare(VectorCompare::EqI, odd, zero);
        let value = self.select(is_even, sin, cos);
        let two = self.int(2);
        let back = self.binary(VectorBinary::And, quarter, two);
        let sign = self.unary(VectorUnary::ShiftLeft(30), back);
        self.binary(VectorBinary::Xor, value, sign)
    }

    /// Returns where an angle is beyond what three floats of `pi / 2` reduce; not where it is NaN.
    pub(super) fn is_large_angle(&mut self, x: ValueId) -> ValueId {
        let magnitude = self.splat(i32::MAX as u32);
        let size = self.binary(VectorBinary::And, x, magnitude);
        let limit = self.float(LARGE);
        self.compare(VectorCompare::LeF, limit, size)
    }

    /// Computes `sin(x + quarter_turns * pi / 2)` for a large `x`; NaN of infinities.
    pub(super) fn sine_of_large(&mut self, x: ValueId, quarter_turns: i32) -> ValueId {
        let (units, rest) = self.turns_of_large(x);
        // The nearest quarter, and the distance to it.
        let half = self.int(1 << 29);
        let quarter = self.binary(VectorBinary::AddI, units, half);
        let quarter = self.unary(VectorUnary::ShiftRightSigned(30), quarter);
        let whole = self.unary(VectorUnary::ShiftLeft(30), quarter);
        let units = self.binary(VectorBinary::SubI, units, whole);
        let r = self.angle_of_units(units, rest);
        self.sin_of_reduced(r, quarter, quarter_turns)
    }

    /// Computes `(units + rest) * pi / 2 * 2^-30`, rounded once: all but the first product is small.
    fn angle_of_units(&mut self, units: ValueId, rest: ValueId) -> ValueId {
        // Digits beyond those of a float go to the rest.
        let whole = self.unary(VectorUnary::IntToFloat, units);
        let rounded = self.unary(VectorUnary::FloatToInt, whole);
        let lost = self.binary(VectorBinary::SubI, units, rounded);
        let lost = self.unary(VectorUnary::IntToFloat, lost);
        let rest = self.add(rest, lost);
        // pi / 2 as a sum of two floats.
        let by = self.float(1.570_796_4 / UNITS);
        let high = self.mul(whole, by);
        let low = self.mul(rest, by);
        let low = self.fma_by(whole, -4.371_139e-8 / UNITS, low);
        let zero = self.float(0.0);
        let negative = self.sub(zero, high);
        let error = self.fma(whole, by, negative);
        let low = self.add(low, error);
        self.add(high, low)
    }

    /// Computes `x * 2 / pi` modulo 4, in units: as a wrapping integer and a small float.
    fn turns_of_large(&mut self, x: ValueId) -> (ValueId, ValueId) {
        let (x, digits) = self.aligned_digits(x);
        // Each product is a sum of two floats, the second of which is exact too.
        let mut parts = Vec::new();
        for digit in digits {
            let product = self.mul(x, digit);
            let zero = self.float(0.0);
            let negative = self.sub(zero, product);
            parts.extend([product, self.fma(x, digit, negative)]);
        }
        // The last parts are below 2^-16 of a unit. The first two are whole.
        let mut rest = self.add(parts[7], parts[8]);
        let mut units = self.int(0);
        for part in [6, 5, 4] {
            let fraction = self.take_whole(parts[part], &mut units);
            rest = self.add(rest, fraction);
        }
        // These two are multiples of 2^-24, so their sum is exact.
        let (error, product) =
            (self.take_whole(parts[3], &mut units), self.take_whole(parts[2], &mut units));
        let sum = self.add(product, error);
        for part in [1, 0] {
            self.take_whole(parts[part], &mut units);
        }
        (units, self.add(sum, rest))
    }

    /// Adds the integral part of a number to a wrapping sum; returns the rest.
    fn take_whole(&mut self, x: ValueId, sum: &mut ValueId) -> ValueId {
        // Numbers of 2^56 and more are integral.
        let turn = self.float(1.0 / (4.0 * UNITS));
        let turns = self.mul(x, turn);
        let turns = self.unary(VectorUnary::RoundF, turns);
        let x = self.fma_by(turns, -4.0 * UNITS, x);
        let whole = self.unary(VectorUnary::RoundF, x);
        // 2^31 becomes -2^31, which is the same turn.
        let units = self.unary(VectorUnary::FloatToInt, whole);
        *sum = self.binary(VectorBinary::AddI, *sum, units);
        self.sub(x, whole)
    }

    /// Returns `x` scaled to 2^47 up to 2^79, and the digits of `2 / pi` that its exponent asks for.
    fn aligned_digits(&mut self, x: ValueId) -> (ValueId, [ValueId; N_DIGITS]) {
        let magnitude = self.splat(i32::MAX as u32);
        let size = self.binary(VectorBinary::And, x, magnitude);
        let factor = |digit: usize, at: usize| TWO_BY_PI[digit] as f32 * DIGIT.powi(at as i32 + 1);
        let mut scale = self.float(UNITS);
        let mut digits = std::array::from_fn(|at| self.float(factor(at, at)));
        for skipped in 1..=TWO_BY_PI.len() - N_DIGITS {
            // From here on, the digit before makes multiples of four quarters only.
            let power = 1 + 24 * (skipped as i32 + 1);
            let limit = self.float(2_f32.powi(power));
            let skips = self.compare(VectorCompare::LeF, limit, size);
            let own = self.float(UNITS * DIGIT.powi(skipped as i32));
            scale = self.select(skips, own, scale);
            for (at, digit) in digits.iter_mut().enumerate() {
                let own = self.float(factor(skipped + at, at));
                *digit = self.select(skips, own, *digit);
            }
        }
        (self.mul(x, scale), digits)
    }
}
