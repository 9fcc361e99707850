//! Sine and cosine as sequences of operations on lanes, for all arguments.
//!
//! An angle is reduced to a number of quarter turns, and a remainder of half a quarter turn at most.
//!
//! - Up to [`LARGE`] by subtraction of that many times `pi / 2`, which is a sum of three floats. It is
//!   right to a rounding of the remainder, near multiples of `pi / 2` too.
//! - Beyond, behind a branch (see [`Fallback`]), by multiplication with `2 / pi`. Of that
//!   number the digits are skipped that make whole turns, so as many more are needed as the exponent
//!   says: five of nine [`TWO_BY_PI`]. Turns are counted in 2^-30 of a quarter, as integers: these
//!   wrap every four quarters, as angles do. The remainders of roundings to integers are floats.
//!
//! # Source
//!
//! Reduction of Cody and Waite (1980), and of Payne and Hanek (1983); minimax polynomials from Cephes
//! (Moshier).

use crate::elementary::polynomial;
use crate::lane::{Binary, Compare, Unary};
use crate::{Arithmetic, Fallback};

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

/// Computes the sine; NaN of infinities.
#[inline(always)]
pub fn sin<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    sin_shifted(ops, x, 0)
}

/// Computes the cosine; NaN of infinities.
#[inline(always)]
pub fn cos<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    sin_shifted(ops, x, 1)
}

/// Computes `sin(x + quarter_turns * pi / 2)`.
#[inline(always)]
fn sin_shifted<A: Arithmetic>(ops: &mut A, x: A::Value, quarter_turns: i32) -> A::Value {
    let by = ops.float(std::f32::consts::FRAC_2_PI);
    let n = ops.mul(x, by);
    let n = ops.unary(Unary::RoundF, n);
    // pi / 2 as a sum of three floats.
    let r = ops.fma_by(n, -1.570_796_4, x);
    let r = ops.fma_by(n, 4.371_139e-8, r);
    let r = ops.fma_by(n, 1.715_124_4e-15, r);
    let quarter = ops.unary(Unary::FloatToInt, n);
    let usual = sin_of_reduced(ops, r, quarter, quarter_turns);
    ops.with_fallback(usual, Fallback::Sine { quarter_turns }, x)
}

/// Computes `sin(r + (quarter + quarter_turns) * pi / 2)` for `r` of half a quarter turn at most.
#[inline(always)]
fn sin_of_reduced<A: Arithmetic>(
    ops: &mut A,
    r: A::Value,
    quarter: A::Value,
    quarter_turns: i32,
) -> A::Value {
    let square = ops.mul(r, r);
    let p = polynomial(ops, square, &[-1.951_529_6e-4, 8.332_161e-3, -1.666_665_5e-1]);
    let cube = ops.mul(square, r);
    let sin = ops.fma(p, cube, r);
    let p = polynomial(ops, square, &[2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]);
    let (half, one) = (ops.float(-0.5), ops.float(1.0));
    let p = ops.fma(p, square, half);
    let cos = ops.fma(p, square, one);
    let quarter_turns = ops.int(quarter_turns);
    let quarter = ops.binary(Binary::AddI, quarter, quarter_turns);
    let (bit, zero) = (ops.int(1), ops.int(0));
    let odd = ops.binary(Binary::And, quarter, bit);
    let is_even = ops.compare(Compare::EqI, odd, zero);
    let value = ops.select(is_even, sin, cos);
    let two = ops.int(2);
    let back = ops.binary(Binary::And, quarter, two);
    let sign = ops.unary(Unary::ShiftLeft(30), back);
    ops.binary(Binary::Xor, value, sign)
}

/// Returns where an angle is beyond what three floats of `pi / 2` reduce; not where it is NaN.
#[inline(always)]
pub(crate) fn is_large_angle<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let magnitude = ops.int(i32::MAX);
    let size = ops.binary(Binary::And, x, magnitude);
    let limit = ops.float(LARGE);
    ops.compare(Compare::LeF, limit, size)
}

/// Computes `sin(x + quarter_turns * pi / 2)` for a large `x`; NaN of infinities.
#[inline(always)]
pub(crate) fn sine_of_large<A: Arithmetic>(
    ops: &mut A,
    x: A::Value,
    quarter_turns: i32,
) -> A::Value {
    let (units, rest) = turns_of_large(ops, x);
    // The nearest quarter, and the distance to it.
    let half = ops.int(1 << 29);
    let quarter = ops.binary(Binary::AddI, units, half);
    let quarter = ops.unary(Unary::ShiftRightSigned(30), quarter);
    let whole = ops.unary(Unary::ShiftLeft(30), quarter);
    let units = ops.binary(Binary::SubI, units, whole);
    let r = angle_of_units(ops, units, rest);
    sin_of_reduced(ops, r, quarter, quarter_turns)
}

/// Computes `(units + rest) * pi / 2 * 2^-30`, rounded once: all but the first product is small.
#[inline(always)]
fn angle_of_units<A: Arithmetic>(ops: &mut A, units: A::Value, rest: A::Value) -> A::Value {
    // Digits beyond those of a float go to the rest.
    let whole = ops.unary(Unary::IntToFloat, units);
    let rounded = ops.unary(Unary::FloatToInt, whole);
    let lost = ops.binary(Binary::SubI, units, rounded);
    let lost = ops.unary(Unary::IntToFloat, lost);
    let rest = ops.add(rest, lost);
    // pi / 2 as a sum of two floats.
    let by = ops.float(1.570_796_4 / UNITS);
    let high = ops.mul(whole, by);
    let low = ops.mul(rest, by);
    let low = ops.fma_by(whole, -4.371_139e-8 / UNITS, low);
    let zero = ops.float(0.0);
    let negative = ops.sub(zero, high);
    let error = ops.fma(whole, by, negative);
    let low = ops.add(low, error);
    ops.add(high, low)
}

/// Computes `x * 2 / pi` modulo 4, in units: as a wrapping integer and a small float.
#[inline(always)]
fn turns_of_large<A: Arithmetic>(ops: &mut A, x: A::Value) -> (A::Value, A::Value) {
    let (x, digits) = aligned_digits(ops, x);
    // Each product is a sum of two floats, the second of which is exact too.
    let mut parts = Vec::new();
    for digit in digits {
        let product = ops.mul(x, digit);
        let zero = ops.float(0.0);
        let negative = ops.sub(zero, product);
        parts.extend([product, ops.fma(x, digit, negative)]);
    }
    // The last parts are below 2^-16 of a unit. The first two are whole.
    let mut rest = ops.add(parts[7], parts[8]);
    let mut units = ops.int(0);
    for part in [6, 5, 4] {
        let fraction = take_whole(ops, parts[part], &mut units);
        rest = ops.add(rest, fraction);
    }
    // These two are multiples of 2^-24, so their sum is exact.
    let (error, product) =
        (take_whole(ops, parts[3], &mut units), take_whole(ops, parts[2], &mut units));
    let sum = ops.add(product, error);
    for part in [1, 0] {
        take_whole(ops, parts[part], &mut units);
    }
    (units, ops.add(sum, rest))
}

/// Adds the integral part of a number to a wrapping sum; returns the rest.
#[inline(always)]
fn take_whole<A: Arithmetic>(ops: &mut A, x: A::Value, sum: &mut A::Value) -> A::Value {
    // Numbers of 2^56 and more are integral.
    let turn = ops.float(1.0 / (4.0 * UNITS));
    let turns = ops.mul(x, turn);
    let turns = ops.unary(Unary::RoundF, turns);
    let x = ops.fma_by(turns, -4.0 * UNITS, x);
    let whole = ops.unary(Unary::RoundF, x);
    // 2^31 becomes -2^31, which is the same turn.
    let units = ops.unary(Unary::FloatToInt, whole);
    *sum = ops.binary(Binary::AddI, *sum, units);
    ops.sub(x, whole)
}

/// Returns `x` scaled to 2^47 up to 2^79, and the digits of `2 / pi` that its exponent asks for.
#[inline(always)]
fn aligned_digits<A: Arithmetic>(ops: &mut A, x: A::Value) -> (A::Value, [A::Value; N_DIGITS]) {
    let magnitude = ops.int(i32::MAX);
    let size = ops.binary(Binary::And, x, magnitude);
    let factor = |digit: usize, at: usize| TWO_BY_PI[digit] as f32 * DIGIT.powi(at as i32 + 1);
    let mut scale = ops.float(UNITS);
    let mut digits = std::array::from_fn(|at| ops.float(factor(at, at)));
    for skipped in 1..=TWO_BY_PI.len() - N_DIGITS {
        // From here on, the digit before makes multiples of four quarters only.
        let power = 1 + 24 * (skipped as i32 + 1);
        let limit = ops.float(2_f32.powi(power));
        let skips = ops.compare(Compare::LeF, limit, size);
        let own = ops.float(UNITS * DIGIT.powi(skipped as i32));
        scale = ops.select(skips, own, scale);
        for (at, digit) in digits.iter_mut().enumerate() {
            let own = ops.float(factor(skipped + at, at));
            *digit = ops.select(skips, own, *digit);
        }
    }
    (ops.mul(x, scale), digits)
}
