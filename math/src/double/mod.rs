//! Elementary functions of `f64`, as sequences of operations on lanes of 64 bits.
//!
//! | function | greatest error | notes |
//! |---|---|---|
//! | `exp`, `exp2` | 1 ulp | also where the result is denormal |
//! | `exp_m1` | 2 ulp | keeps the sign of a zero |
//! | `ln` | 1 ulp | |
//! | `log2` | 2 ulp | logarithms of powers of two are exact |
//! | `ln_1p` | 2 ulp | keeps the sign of a zero |
//! | `tanh` | 3 ulp | in [-1, 1] |
//! | `erf` | 2 ulp | in [-1, 1] |
//! | `sin`, `cos` | 2 ulp | of all arguments; in [-1, 1] |
//! | `atan` | 2 ulp | keeps the sign of a zero |
//!
//! The tests hold these errors against the functions of the platform, at random arguments and special ones.
//!
//! # Source
//!
//! Range reduction of Cody and Waite (1980), and the series of the exponential; the logarithm is that of
//! fdlibm (Sun Microsystems, 1993), by `s = f / (2 + f)`.

mod arc;
mod erf;
pub(crate) mod trig;

pub use self::arc::atan;
pub use self::erf::erf;
pub use self::trig::{cos, sin};

use crate::Arithmetic;
use crate::lane::{Binary, Compare, Unary};

/// `ln 2` as a sum: 33 bits, so that products with exponents are exact, and the remainder.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// The position of the exponent.
const EXPONENT: u8 = 52;
/// 1.5 * 2^52: a sum with a small integral number has its integer in the low bits.
const ALIGNER: f64 = 6_755_399_441_055_744.0;
/// The bits of the square root of 1/2, rounded.
const ROOT_OF_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
/// 2^54, which makes denormal numbers normal.
const NORMALIZER: f64 = 18_014_398_509_481_984.0;

/// `(e^r - 1 - r) / r^2` for `r` up to half of `ln 2`, highest power first: `1 / n!`.
const EXP_TAIL: [f64; 12] = [
    1.605_904_383_682_161_5e-10,
    2.087_675_698_786_81e-9,
    2.505_210_838_544_172e-8,
    2.755_731_922_398_589e-7,
    2.755_731_922_398_589_3e-6,
    2.480_158_730_158_73e-5,
    1.984_126_984_126_984e-4,
    1.388_888_888_888_889e-3,
    8.333_333_333_333_333e-3,
    4.166_666_666_666_666_4e-2,
    1.666_666_666_666_666_6e-1,
    0.5,
];

/// `(ln((1 + s) / (1 - s)) - 2 s) / s` in powers of `s^2`, highest first, without the lowest, which is 0.
const LN_TAIL: [f64; 7] = [
    1.479_819_860_511_658_6e-1,
    1.531_383_769_920_937_3e-1,
    1.818_357_216_161_805e-1,
    2.222_219_843_214_978_4e-1,
    2.857_142_874_366_239e-1,
    3.999_999_999_940_942e-1,
    6.666_666_666_666_735e-1,
];

/// Evaluates a polynomial by Horner's rule; coefficients are of descending powers.
fn polynomial<A: Arithmetic>(ops: &mut A, x: A::Value, coefficients: &[f64]) -> A::Value {
    let first = ops.double(coefficients[0]);
    coefficients[1..].iter().fold(first, |sum, it| {
        let it = ops.double(*it);
        ops.fma(sum, x, it)
    })
}

/// Clamps `x` to bounds; NaN stays NaN.
fn clamp<A: Arithmetic>(ops: &mut A, x: A::Value, low: f64, high: f64) -> A::Value {
    let (low, high) = (ops.double(low), ops.double(high));
    let x = ops.binary(Binary::MinF, high, x);
    ops.binary(Binary::MaxF, low, x)
}

/// Splits `x = n ln 2 + r` with `|r|` up to half of `ln 2`; returns `n` and `r`.
fn reduced<A: Arithmetic>(ops: &mut A, x: A::Value) -> (A::Value, A::Value) {
    let log2_e = ops.double(std::f64::consts::LOG2_E);
    let n = ops.mul(x, log2_e);
    let n = ops.unary(Unary::RoundF, n);
    let (high, low) = (ops.double(-LN_2_HIGH), ops.double(-LN_2_LOW));
    let r = ops.fma(n, high, x);
    (n, ops.fma(n, low, r))
}

/// Computes `e^r - 1` for a small `r`.
fn exp_m1_of_small<A: Arithmetic>(ops: &mut A, r: A::Value) -> A::Value {
    let tail = polynomial(ops, r, &EXP_TAIL);
    let square = ops.mul(r, r);
    ops.fma(tail, square, r)
}

/// Converts a small integral float to an integer.
fn to_int<A: Arithmetic>(ops: &mut A, n: A::Value) -> A::Value {
    let aligner = ops.double(ALIGNER);
    let sum = ops.add(n, aligner);
    ops.binary(Binary::SubI, sum, aligner)
}

/// Converts a small integer to a float.
fn to_float<A: Arithmetic>(ops: &mut A, n: A::Value) -> A::Value {
    let aligner = ops.double(ALIGNER);
    let sum = ops.binary(Binary::AddI, n, aligner);
    ops.sub(sum, aligner)
}

/// Computes `p * 2^n` for `p` around 1 and integral `n` in -1100..=1024, rounded once.
fn scale_by_power<A: Arithmetic>(ops: &mut A, p: A::Value, n: A::Value) -> A::Value {
    // 2^n as two normal factors, so that the last product rounds to a denormal correctly.
    let n = to_int(ops, n);
    let half = ops.unary(Unary::ShiftRightSigned(1), n);
    let rest = ops.binary(Binary::SubI, n, half);
    let half = ops.unary(Unary::ShiftLeft(EXPONENT), half);
    let p = ops.binary(Binary::AddI, p, half);
    let scale = power_of_two(ops, rest);
    ops.mul(p, scale)
}

/// Computes `2^n` of an integer in -1022..=1023.
fn power_of_two<A: Arithmetic>(ops: &mut A, n: A::Value) -> A::Value {
    let exponent = ops.unary(Unary::ShiftLeft(EXPONENT), n);
    let one = ops.double(1.0);
    ops.binary(Binary::AddI, exponent, one)
}

/// Computes `e^x`.
pub fn exp<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    // Beyond these bounds the result is 0 or infinite.
    let x = clamp(ops, x, -746.0, 710.0);
    let (n, r) = reduced(ops, x);
    let p = exp_m1_of_small(ops, r);
    let one = ops.double(1.0);
    let p = ops.add(p, one);
    scale_by_power(ops, p, n)
}

/// Computes `2^x`.
pub fn exp2<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let x = clamp(ops, x, -1076.0, 1025.0);
    let n = ops.unary(Unary::RoundF, x);
    let r = ops.sub(x, n);
    let ln_2 = ops.double(std::f64::consts::LN_2);
    let r = ops.mul(r, ln_2);
    let p = exp_m1_of_small(ops, r);
    let one = ops.double(1.0);
    let p = ops.add(p, one);
    scale_by_power(ops, p, n)
}

/// Computes `e^x - 1`.
pub fn exp_m1<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let bounded = clamp(ops, x, -50.0, 709.8);
    let (n, r) = reduced(ops, bounded);
    let p = exp_m1_of_small(ops, r);
    // 2^n p + 2^n - 1, by halves: 2^1024 is no number.
    let n = to_int(ops, n);
    let one = ops.splat(1);
    let below = ops.binary(Binary::SubI, n, one);
    let half_power = power_of_two(ops, below);
    let half = ops.double(-0.5);
    let offset = ops.add(half_power, half);
    let value = ops.fma(half_power, p, offset);
    let value = ops.add(value, value);
    // The sum has lost the sign of a zero.
    let zero = ops.double(0.0);
    let is_zero = ops.compare(Compare::EqF, x, zero);
    ops.select(is_zero, x, value)
}

/// Computes the hyperbolic tangent: `e / (e + 2)` with `e = e^(2 |x|) - 1`, and the sign of `x`.
pub fn tanh<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let sign = ops.double(-0.0);
    let sign = ops.binary(Binary::And, x, sign);
    let size = ops.binary(Binary::Xor, x, sign);
    let double = ops.add(size, size);
    // From there on it is 1.
    let double = clamp(ops, double, 0.0, 40.0);
    let e = exp_m1(ops, double);
    let two = ops.double(2.0);
    let sum = ops.add(e, two);
    let value = ops.div(e, sum);
    ops.binary(Binary::Or, value, sign)
}

/// Splits positive finite `x = 2^e (1 + f)`, with `1 + f` around 1; returns `e` as a float, and `f`.
fn frexp<A: Arithmetic>(ops: &mut A, x: A::Value) -> (A::Value, A::Value) {
    // Denormal numbers are scaled up first.
    let least = ops.double(f64::MIN_POSITIVE);
    let is_tiny = ops.compare(Compare::LtF, x, least);
    let up = ops.double(NORMALIZER);
    let scaled = ops.mul(x, up);
    let x = ops.select(is_tiny, scaled, x);
    let root = ops.splat(ROOT_OF_HALF.cast_unsigned());
    let from_root = ops.binary(Binary::SubI, x, root);
    let exponent = ops.unary(Unary::ShiftRightSigned(EXPONENT), from_root);
    let power = ops.unary(Unary::ShiftLeft(EXPONENT), exponent);
    let mantissa = ops.binary(Binary::SubI, x, power);
    let one = ops.double(1.0);
    let fraction = ops.sub(mantissa, one);
    let exponent = to_float(ops, exponent);
    let down = ops.double(-54.0);
    let shift = ops.binary(Binary::And, is_tiny, down);
    (ops.add(exponent, shift), fraction)
}

/// Computes `ln(1 + f)` less `f`, for `1 + f` around 1.
fn ln_1p_less_f<A: Arithmetic>(ops: &mut A, f: A::Value) -> A::Value {
    let two = ops.double(2.0);
    let divisor = ops.add(f, two);
    let s = ops.div(f, divisor);
    let square = ops.mul(s, s);
    let tail = polynomial(ops, square, &LN_TAIL);
    let tail = ops.mul(square, tail);
    let half = ops.double(0.5);
    let half = ops.mul(f, half);
    let half_square = ops.mul(f, half);
    let sum = ops.add(half_square, tail);
    let product = ops.mul(s, sum);
    ops.sub(product, half_square)
}

/// Computes the natural logarithm; NaN of negative numbers.
pub fn ln<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let (e, f) = frexp(ops, x);
    let y = ln_1p_less_f(ops, f);
    let (high, low) = (ops.double(LN_2_HIGH), ops.double(LN_2_LOW));
    let y = ops.fma(e, low, y);
    let y = ops.add(y, f);
    let y = ops.fma(e, high, y);
    special(ops, x, y)
}

/// Computes `ln(1 + x)`; NaN below -1.
pub fn ln_1p<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let one = ops.double(1.0);
    let sum = ops.add(one, x);
    // The digits of `x` that the sum has lost (Knuth's two-sum).
    let of_x = ops.sub(sum, one);
    let of_one = ops.sub(sum, of_x);
    let (lost_of_one, lost_of_x) = (ops.sub(one, of_one), ops.sub(x, of_x));
    let lost = ops.add(lost_of_one, lost_of_x);
    let lost = ops.div(lost, sum);
    let (e, f) = frexp(ops, sum);
    let y = ln_1p_less_f(ops, f);
    let low = ops.double(LN_2_LOW);
    let y = ops.fma(e, low, y);
    let y = ops.add(y, lost);
    let y = ops.add(y, f);
    let high = ops.double(LN_2_HIGH);
    let y = ops.fma(e, high, y);
    let y = special(ops, sum, y);
    // The sum has lost the sign of a zero.
    let zero = ops.double(0.0);
    let is_zero = ops.compare(Compare::EqF, x, zero);
    ops.select(is_zero, x, y)
}

/// Computes the logarithm to base 2; NaN of negative numbers.
pub fn log2<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let (e, f) = frexp(ops, x);
    let y = ln_1p_less_f(ops, f);
    let y = ops.add(y, f);
    let log2_e = ops.double(std::f64::consts::LOG2_E);
    let y = ops.fma(y, log2_e, e);
    special(ops, x, y)
}

/// Selects the logarithm of 0, infinity, NaN, and negative numbers.
fn special<A: Arithmetic>(ops: &mut A, x: A::Value, y: A::Value) -> A::Value {
    let (zero, infinity) = (ops.double(0.0), ops.double(f64::INFINITY));
    let (least, nan) = (ops.double(f64::NEG_INFINITY), ops.double(f64::NAN));
    let is_finite = ops.compare(Compare::LtF, x, infinity);
    let y = ops.select(is_finite, y, x);
    let is_positive = ops.compare(Compare::LtF, zero, x);
    let is_zero = ops.compare(Compare::EqF, x, zero);
    let special = ops.select(is_zero, least, nan);
    ops.select(is_positive, y, special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::Width;
    use crate::{Fallback, lane64};

    /// Arithmetic on one lane, by its bits.
    struct Lane;

    impl Arithmetic for Lane {
        type Value = u64;

        fn width(&self) -> Width {
            Width::Bits64
        }

        fn scales(&self) -> bool {
            false
        }

        fn constant_bits(&self, _: u64) -> Option<u64> {
            None
        }

        fn splat(&mut self, bits: u64) -> u64 {
            bits
        }

        fn unary(&mut self, op: Unary, x: u64) -> u64 {
            lane64::unary(op, x)
        }

        fn binary(&mut self, op: Binary, x: u64, y: u64) -> u64 {
            lane64::binary(op, x, y)
        }

        fn fma(&mut self, x: u64, y: u64, z: u64) -> u64 {
            lane64::fma(x, y, z)
        }

        fn compare(&mut self, op: Compare, x: u64, y: u64) -> u64 {
            lane64::compare(op, x, y)
        }

        fn select(&mut self, condition: u64, then: u64, otherwise: u64) -> u64 {
            if condition == lane64::FALSE { otherwise } else { then }
        }

        fn with_fallback(&mut self, usual: u64, fallback: Fallback, x: u64) -> u64 {
            match fallback.condition(self, x) {
                lane64::FALSE => usual,
                _ => fallback.value(self, x),
            }
        }
    }

    /// Checks a function against that of the platform, up to an error in ulps more than the half of one that
    /// this has itself.
    fn check(
        of: fn(&mut Lane, u64) -> u64,
        expected: fn(f64) -> f64,
        ulps: u64,
        arguments: impl Iterator<Item = f64>,
    ) {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            f64::from_bits(1),
            -745.2,
            709.7,
            709.79,
            -1074.9,
            1023.99,
        ];
        for x in special.into_iter().chain(arguments) {
            let got = f64::from_bits(of(&mut Lane, x.to_bits()));
            let expected = expected(x);
            let apart = got.to_bits().abs_diff(expected.to_bits());
            let is_same = got.is_nan() && expected.is_nan() || apart <= ulps;
            assert!(is_same, "of {x:e}: {got:e}, not {expected:e}: {apart} apart");
        }
    }

    fn random(n: u64) -> f64 {
        let bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(low: f64, high: f64) -> impl Iterator<Item = f64> {
        (0..200_000).map(move |n| low + (high - low) * random(n))
    }

    fn of_all_sizes() -> impl Iterator<Item = f64> {
        (0..200_000).map(|n| f64::from_bits((random(n) * f64::INFINITY.to_bits() as f64) as u64))
    }

    #[test]
    fn functions_are_as_exact_as_they_say() {
        check(exp, f64::exp, 1, between(-750.0, 712.0));
        check(exp, f64::exp, 1, between(-1.0, 1.0));
        check(exp2, f64::exp2, 1, between(-1080.0, 1026.0));
        check(exp_m1, f64::exp_m1, 2, between(-40.0, 40.0));
        check(exp_m1, f64::exp_m1, 2, between(-0.5, 0.5));
        check(exp_m1, f64::exp_m1, 2, of_all_sizes());
        check(ln, f64::ln, 1, of_all_sizes());
        check(ln, f64::ln, 1, between(0.5, 2.0));
        check(log2, f64::log2, 2, of_all_sizes());
        check(tanh, f64::tanh, 3, between(-22.0, 22.0));
        check(tanh, f64::tanh, 3, of_all_sizes());
        check(ln_1p, f64::ln_1p, 2, between(-1.0, 3.0));
        check(ln_1p, f64::ln_1p, 2, between(-1e-3, 1e-3));
        check(ln_1p, f64::ln_1p, 2, of_all_sizes());
        check(ln_1p, f64::ln_1p, 2, of_all_sizes().map(|it| -it));
        check(erf, libm::erf, 2, between(-6.1, 6.1));
        check(erf, libm::erf, 2, between(0.8, 1.3));
        check(erf, libm::erf, 2, of_all_sizes());
        check(atan, libm::atan, 2, between(-3.0, 3.0));
        check(atan, libm::atan, 2, of_all_sizes());
        check(atan, libm::atan, 2, of_all_sizes().map(|it| -it));
        for (of, expected) in
            [(sin as fn(&mut Lane, u64) -> u64, libm::sin as fn(f64) -> f64), (cos, libm::cos)]
        {
            check(of, expected, 2, between(-10.0, 10.0));
            check(of, expected, 2, of_all_sizes());
            check(of, expected, 2, of_all_sizes().map(|it| -it));
            check(of, expected, 2, between(1e12, 1.2e12));
            // Near multiples of a quarter turn, and the double that is nearest to one (Muller, "Elementary
            // Functions").
            check(
                of,
                expected,
                2,
                (0..200_000).map(|n| f64::from(n) * std::f64::consts::FRAC_PI_2),
            );
            check(of, expected, 2, (0..971).map(|n| 6_381_956_970_095_103.0 * f64::from(n).exp2()));
        }
    }

    #[test]
    fn powers_of_two_have_exact_logarithms() {
        for n in -1074..1024_i32 {
            let power = f64::from(n).exp2();
            let got = f64::from_bits(log2(&mut Lane, power.to_bits()));
            assert_eq!(got, f64::from(n), "of 2^{n}");
        }
    }
}
