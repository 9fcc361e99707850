//! Sine and cosine of `f64`, as sequences of operations on lanes of 64 bits, for all arguments.
//!
//! An angle is reduced to a number of quarter turns, and a remainder of half a quarter turn at most.
//!
//! - Up to [`LARGE`] by subtraction of that many times `pi / 2`, which is a sum of three floats: the first
//!   difference is exact, so the remainder is right to a rounding.
//! - Beyond, behind a branch (see [`crate::Fallback`]), by multiplication of the digits with those of
//!   `2 / pi` that do not make whole turns only, as integers.
//!
//! # Source
//!
//! Reduction of Cody and Waite (1980), and of Payne and Hanek (1983); polynomials from fdlibm (Sun
//! Microsystems, 1993).

use super::{EXPONENT, polynomial, to_float, to_int};
use crate::lane::{Binary, Compare, Unary};
use crate::{Arithmetic, Fallback};

/// Angles from here on, 2^40, are reduced by the digits of `2 / pi`.
const LARGE: f64 = 1_099_511_627_776.0;

/// `pi / 2` as a sum.
const HALF_PI: [f64; 3] =
    [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];

/// `(sin(r) / r - 1) / r^2` in powers of `r^2`, highest first.
const SIN_TAIL: [f64; 6] = [
    1.589_690_995_211_55e-10,
    -2.505_076_025_340_686_3e-8,
    2.755_731_370_707_006_8e-6,
    -0.000_198_412_698_298_579_5,
    0.008_333_333_333_322_49,
    -0.166_666_666_666_666_32,
];

/// `(cos(r) - 1 + r^2 / 2) / r^4` in powers of `r^2`, highest first.
const COS_TAIL: [f64; 6] = [
    -1.135_964_755_778_819_5e-11,
    2.087_572_321_298_175e-9,
    -2.755_731_435_139_066_3e-7,
    2.480_158_728_947_673e-5,
    -0.001_388_888_888_887_411,
    0.041_666_666_666_666_6,
];

/// Digits of `2 / pi` after the point, 32 bits each, for all exponents.
const TWO_BY_PI: [u32; 37] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
];

/// Digits of `2 / pi` that a number is multiplied by.
const N_DIGITS: usize = 6;

/// The low 32 bits.
const LOW: u64 = 0xffff_ffff;

/// Computes the sine; NaN of infinities, and a zero of itself.
pub fn sin<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let value = sin_shifted(ops, x, 0);
    let zero = ops.double(0.0);
    let is_zero = ops.compare(Compare::EqF, x, zero);
    ops.select(is_zero, x, value)
}

/// Computes the cosine; NaN of infinities.
pub fn cos<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    sin_shifted(ops, x, 1)
}

/// Computes `sin(x + quarter_turns * pi / 2)`.
fn sin_shifted<A: Arithmetic>(ops: &mut A, x: A::Value, quarter_turns: i32) -> A::Value {
    let by = ops.double(std::f64::consts::FRAC_2_PI);
    let n = ops.mul(x, by);
    let n = ops.unary(Unary::RoundF, n);
    let r = HALF_PI.into_iter().fold(x, |rest, part| {
        let part = ops.double(-part);
        ops.fma(n, part, rest)
    });
    let quarter = to_int(ops, n);
    let usual = sin_of_reduced(ops, r, quarter, quarter_turns);
    ops.with_fallback(usual, Fallback::Sine { quarter_turns }, x)
}

/// Computes `sin(r + (quarter + quarter_turns) * pi / 2)` for `r` of half a quarter turn at most.
fn sin_of_reduced<A: Arithmetic>(
    ops: &mut A,
    r: A::Value,
    quarter: A::Value,
    quarter_turns: i32,
) -> A::Value {
    let square = ops.mul(r, r);
    let tail = polynomial(ops, square, &SIN_TAIL);
    let cube = ops.mul(square, r);
    let sin = ops.fma(tail, cube, r);
    let tail = polynomial(ops, square, &COS_TAIL);
    let (half, one) = (ops.double(0.5), ops.double(1.0));
    let half_square = ops.mul(square, half);
    let high = ops.sub(one, half_square);
    let low = ops.sub(one, high);
    let low = ops.sub(low, half_square);
    let fourth = ops.mul(square, square);
    let low = ops.fma(fourth, tail, low);
    let cos = ops.add(high, low);
    let turns = ops.splat(i64::from(quarter_turns).cast_unsigned());
    let quarter = ops.binary(Binary::AddI, quarter, turns);
    let is_even = is_clear(ops, quarter, 1);
    let value = ops.select(is_even, sin, cos);
    let back = bits_of(ops, quarter, 2);
    let sign = ops.unary(Unary::ShiftLeft(62), back);
    ops.binary(Binary::Xor, value, sign)
}

fn bits_of<A: Arithmetic>(ops: &mut A, x: A::Value, bits: u64) -> A::Value {
    let bits = ops.splat(bits);
    ops.binary(Binary::And, x, bits)
}

/// Returns where none of some bits is set.
fn is_clear<A: Arithmetic>(ops: &mut A, x: A::Value, bits: u64) -> A::Value {
    let (bits, zero) = (bits_of(ops, x, bits), ops.splat(0));
    ops.compare(Compare::EqI, bits, zero)
}

/// Returns where an angle is beyond what three floats of `pi / 2` reduce; not where it is NaN.
pub(crate) fn is_large_angle<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let size = bits_of(ops, x, i64::MAX.cast_unsigned());
    let limit = ops.double(LARGE);
    ops.compare(Compare::LeF, limit, size)
}

/// Computes `sin(x + quarter_turns * pi / 2)` for a large `x`; NaN of infinities.
pub(crate) fn sine_of_large<A: Arithmetic>(
    ops: &mut A,
    x: A::Value,
    quarter_turns: i32,
) -> A::Value {
    let size = bits_of(ops, x, i64::MAX.cast_unsigned());
    let [high, low] = turns_of_large(ops, size);
    // The nearest quarter, and the distance to it.
    let half = ops.splat(1 << 61);
    let quarter = ops.binary(Binary::AddI, high, half);
    let quarter = ops.unary(Unary::ShiftRight(62), quarter);
    let whole = ops.unary(Unary::ShiftLeft(62), quarter);
    let distance = ops.binary(Binary::SubI, high, whole);
    let r = angle_of(ops, distance, low);
    // The quarter and the remainder of a negative angle are negative; `x - x` makes infinities NaN.
    let sign = ops.double(-0.0);
    let sign = ops.binary(Binary::And, x, sign);
    let r = ops.binary(Binary::Xor, r, sign);
    let nothing = ops.sub(x, x);
    let r = ops.add(r, nothing);
    let zero = ops.splat(0);
    let opposite = ops.binary(Binary::SubI, zero, quarter);
    let is_positive = ops.compare(Compare::EqI, sign, zero);
    let quarter = ops.select(is_positive, quarter, opposite);
    sin_of_reduced(ops, r, quarter, quarter_turns)
}

/// Computes `(high + low 2^-64) 2^-62 pi / 2`: `high` is a signed integer of 62 bits, `low` an unsigned one.
fn angle_of<A: Arithmetic>(ops: &mut A, high: A::Value, low: A::Value) -> A::Value {
    let words = [
        ops.unary(Unary::ShiftRightSigned(32), high),
        bits_of(ops, high, LOW),
        ops.unary(Unary::ShiftRight(32), low),
        bits_of(ops, low, LOW),
    ];
    let mut scaled = |part, scale: f64| {
        let (part, scale) = (to_float(ops, part), ops.double(scale));
        ops.mul(part, scale)
    };
    let word = (LOW + 1) as f64;
    let upper = scaled(words[0], word);
    let lower = scaled(words[1], 1.0);
    let third = scaled(words[2], 1.0 / word);
    let fourth = scaled(words[3], 1.0 / word / word);
    let sum = ops.add(upper, lower);
    let lost = ops.sub(upper, sum);
    let lost = ops.add(lost, lower);
    let rest = ops.add(third, fourth);
    let rest = ops.add(rest, lost);
    let unit = 1.0 / (1_u64 << 62) as f64;
    let (by, by_low) = (ops.double(HALF_PI[0] * unit), ops.double(HALF_PI[1] * unit));
    let product = ops.mul(sum, by);
    let zero = ops.double(0.0);
    let negative = ops.sub(zero, product);
    let error = ops.fma(sum, by, negative);
    let error = ops.fma(rest, by, error);
    let error = ops.fma(sum, by_low, error);
    ops.add(product, error)
}

/// Computes `x * 2 / pi` modulo 4 of a positive number, in units of 2^-126, as a high and a low word.
fn turns_of_large<A: Arithmetic>(ops: &mut A, x: A::Value) -> [A::Value; 2] {
    let digits = aligned_digits(ops, x);
    let fraction = bits_of(ops, x, (1 << EXPONENT) - 1);
    let first = ops.splat(1 << EXPONENT);
    let number = ops.binary(Binary::Or, fraction, first);
    let factors = [bits_of(ops, number, LOW), ops.unary(Unary::ShiftRight(32), number)];
    // Columns of 32 bits: the low half of a product goes to one, its high half to the one before.
    let mut columns = [ops.splat(0); N_DIGITS];
    for (n, digit) in digits.into_iter().enumerate() {
        for (shift, factor) in factors.into_iter().enumerate() {
            let product = ops.binary(Binary::MulI, digit, factor);
            if let Some(at) = n.checked_sub(shift) {
                let low = bits_of(ops, product, LOW);
                columns[at] = ops.binary(Binary::AddI, columns[at], low);
            }
            if let Some(at) = n.checked_sub(shift + 1) {
                let high = ops.unary(Unary::ShiftRight(32), product);
                columns[at] = ops.binary(Binary::AddI, columns[at], high);
            }
        }
    }
    for n in (1..N_DIGITS).rev() {
        let carry = ops.unary(Unary::ShiftRight(32), columns[n]);
        columns[n - 1] = ops.binary(Binary::AddI, columns[n - 1], carry);
    }
    [0, 2].map(|n| {
        let high = ops.unary(Unary::ShiftLeft(32), columns[n]);
        let low = bits_of(ops, columns[n + 1], LOW);
        ops.binary(Binary::Or, high, low)
    })
}

/// Returns digits of `2 / pi` from that on which makes two turns of the lowest bit of a positive number: those
/// before make whole ones.
fn aligned_digits<A: Arithmetic>(ops: &mut A, x: A::Value) -> [A::Value; N_DIGITS] {
    // The first of these bits in the digits, before which is one that is 0.
    let exponent = ops.unary(Unary::ShiftRight(EXPONENT), x);
    let start = ops.splat(1045);
    let start = ops.binary(Binary::SubI, exponent, start);
    let mut words = vec![ops.splat(0)];
    words.extend(TWO_BY_PI.map(|it| ops.splat(it.into())));
    for bit in [16, 8, 4, 2, 1] {
        let stays = is_clear(ops, start, 32 * bit as u64);
        let n = N_DIGITS + bit;
        words = (0..n).map(|at| ops.select(stays, words[at], words[at + bit])).collect();
    }
    let shift = bits_of(ops, start, 31);
    std::array::from_fn(|n| {
        let high = ops.unary(Unary::ShiftLeft(32), words[n]);
        let both = ops.binary(Binary::Or, high, words[n + 1]);
        let moved = ops.binary(Binary::ShiftLeftBy, both, shift);
        ops.unary(Unary::ShiftRight(32), moved)
    })
}
