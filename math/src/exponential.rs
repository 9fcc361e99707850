//! Other exponentials and logarithms: to base 2, and those that keep all digits near 0.
//!
//! | function | greatest error | notes |
//! |---|---|---|
//! | `exp2` | 1 ulp | powers with integral exponents are exact, denormal ones too |
//! | `log2` | 1.1 ulp | logarithms of powers of two are exact |
//! | `exp_m1` | 1.1 ulp | `e^x - 1`; keeps the sign of a zero |
//! | `ln_1p` | 1 ulp | `ln(1 + x)`; keeps the sign of a zero |
//!
//! These hold for all arguments; the tests measure them against double precision.
//!
//! # Source
//!
//! Range reduction as in [`crate::elementary`]. The polynomials are weighted least squares on the nodes
//! of Chebyshev, whose coefficients were rounded one after the other, from the lowest power on.

use crate::Arithmetic;
use crate::elementary::{
    LN_2_HIGH, LN_2_LOW, LOG2_E, ONE, clamp, frexp, ln_special, polynomial, scale_by_power,
};
use crate::lane::{Binary, Compare, Unary};

/// `(2^r - 1) / r` for `r` in [-1/2, 1/2], highest power first.
const EXP2: [f32; 6] =
    [1.545_595_4e-4, 1.339_148_3e-3, 9.618_078e-3, 5.550_358_4e-2, 2.402_265e-1, 6.931_472e-1];

/// `(log2(1 + f) - f log2 e) / f^2` for `1 + f` around 1, highest power first.
const LOG2_TAIL: [f32; 9] = [
    -1.102_940_1e-1,
    1.858_627_3e-1,
    -1.907_418_4e-1,
    2.046_375_7e-1,
    -2.396_671_6e-1,
    2.885_666e-1,
    -3.606_940_5e-1,
    4.808_982_3e-1,
    -7.213_474e-1,
];
/// `log2 e` less its nearest `f32`.
const LOG2_E_LOW: f32 = 1.925_963e-8;

/// `(e^r - 1 - r) / r^2` for `r` up to half of `ln 2`, highest power first.
const EXP_M1_TAIL: [f32; 6] =
    [1.995_931_8e-4, 1.393_369_8e-3, 8.333_191e-3, 4.166_648e-2, 1.666_666_7e-1, 0.5];

/// `(ln(1 + f) - f) / f^2` for `1 + f` in [3/4, 3/2], highest power first.
const LN_1P_TAIL: [f32; 9] = [
    -4.528_454_7e-2,
    1.049_128_5e-1,
    -1.317_183_2e-1,
    1.447_753_2e-1,
    -1.664_611_4e-1,
    1.999_073_8e-1,
    -2.500_012_5e-1,
    3.333_345_4e-1,
    -0.5,
];

/// Below this, `e^x - 1` and `ln(1 + x)` are `x`, to less than a quarter of an ulp: 2^-25.
const TINY: f32 = 2.980_232_2e-8;

/// Computes `2^x`.
#[inline(always)]
pub fn exp2<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    // Beyond these bounds the result is 0 or infinite.
    let x = clamp(ops, x, -150.0, 129.0);
    let n = ops.unary(Unary::RoundF, x);
    let r = ops.sub(x, n);
    let p = polynomial(ops, r, &EXP2);
    let one = ops.float(1.0);
    let p = ops.fma(p, r, one);
    scale_by_power(ops, p, n)
}

/// Computes the logarithm to base 2; NaN of negative numbers.
#[inline(always)]
pub fn log2<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let (e, f) = frexp(ops, x);
    // f log2 e as a double-float.
    let log2_e = ops.float(LOG2_E);
    let zero = ops.float(0.0);
    let product = ops.mul(f, log2_e);
    let negative = ops.sub(zero, product);
    let low = ops.fma(f, log2_e, negative);
    let low = ops.fma_by(f, LOG2_E_LOW, low);
    let tail = polynomial(ops, f, &LOG2_TAIL);
    let square = ops.mul(f, f);
    let low = ops.fma(tail, square, low);
    let y = add_to_larger(ops, e, product, low);
    ln_special(ops, x, y)
}

/// Computes `e^x - 1`.
#[inline(always)]
pub fn exp_m1<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    // Beyond these bounds the result is -1 or infinite.
    let y = clamp(ops, x, -20.0, 89.0);
    let log2_e = ops.float(LOG2_E);
    let n = ops.mul(y, log2_e);
    let n = ops.unary(Unary::RoundF, n);
    // r + low = x - n ln 2; the first difference is exact.
    let whole = ops.fma_by(n, -LN_2_HIGH, y);
    let r = ops.fma_by(n, -LN_2_LOW, whole);
    let low = ops.sub(whole, r);
    let low = ops.fma_by(n, -LN_2_LOW, low);
    let tail = polynomial(ops, r, &EXP_M1_TAIL);
    let square = ops.mul(r, r);
    let low = ops.fma(tail, square, low);
    // 2 (2^(n-1) - 1/2 + 2^(n-1) (r + low)), since 2^128 is no number.
    let n = ops.unary(Unary::FloatToInt, n);
    let exponent = ops.unary(Unary::ShiftLeft(23), n);
    let half = ops.float(0.5);
    let power = ops.binary(Binary::AddI, exponent, half);
    let base = ops.sub(power, half);
    let part = ops.mul(power, r);
    let low = ops.mul(power, low);
    let sum = add_to_larger(ops, base, part, low);
    let sum = ops.add(sum, sum);
    unless_tiny(ops, x, sum)
}

/// Computes `ln(1 + x)`; NaN of numbers below -1.
#[inline(always)]
pub fn ln_1p<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let one = ops.float(1.0);
    let sum = ops.add(one, x);
    // 1 + x = 2^e (1 + f); the rounded sum decides on the exponent only. 1 + f begins at 3/4.
    let least = ops.int(0x3f40_0000);
    let from_least = ops.binary(Binary::SubI, sum, least);
    let exponent = ops.unary(Unary::ShiftRightSigned(23), from_least);
    let bits = ops.unary(Unary::ShiftLeft(23), exponent);
    // f = 2^-e x + (2^-e - 1) is exact, or of no weight beside e. 2^-128 is denormal, so the power is
    // four times as large and x a quarter.
    let bits_of_four = ops.int(ONE + (2 << 23));
    let power = ops.binary(Binary::SubI, bits_of_four, bits);
    let quarter = ops.float(0.25);
    let part = ops.mul(x, quarter);
    let rest = ops.float(-1.0);
    let rest = ops.fma(power, quarter, rest);
    let f = ops.fma(part, power, rest);
    let e = ops.unary(Unary::IntToFloat, exponent);
    let tail = polynomial(ops, f, &LN_1P_TAIL);
    let square = ops.mul(f, f);
    let low = ops.float(LN_2_LOW);
    let low = ops.mul(e, low);
    let low = ops.fma(tail, square, low);
    let high = ops.float(LN_2_HIGH);
    let high = ops.mul(e, high);
    let y = add_to_larger(ops, high, f, low);
    let y = ln_special(ops, sum, y);
    unless_tiny(ops, x, y)
}

/// Computes `a + (b + low)` for `a` that is 0 or no smaller than `b`, with one rounding that counts
/// (Dekker's Fast2Sum).
#[inline(always)]
fn add_to_larger<A: Arithmetic>(ops: &mut A, a: A::Value, b: A::Value, low: A::Value) -> A::Value {
    let sum = ops.add(a, b);
    let rounded = ops.sub(sum, a);
    let lost = ops.sub(b, rounded);
    let low = ops.add(lost, low);
    ops.add(sum, low)
}

/// Selects `x` itself where it is so small that the function is.
#[inline(always)]
fn unless_tiny<A: Arithmetic>(ops: &mut A, x: A::Value, y: A::Value) -> A::Value {
    let magnitude = ops.int(i32::MAX);
    let size = ops.binary(Binary::And, x, magnitude);
    let limit = ops.float(TINY);
    let is_tiny = ops.compare(Compare::LtF, size, limit);
    ops.select(is_tiny, x, y)
}

#[cfg(test)]
mod tests {
    use crate::scalar::{exp_m1, exp2, ln_1p, log2};

    /// A function, the same in double precision, and the greatest error in ulp.
    type Case = (fn(f32) -> f32, fn(f64) -> f64, f64);

    const CASES: [Case; 4] = [
        (exp2, f64::exp2, 1.0),
        (log2, f64::log2, 1.1),
        (exp_m1, f64::exp_m1, 1.1),
        (ln_1p, f64::ln_1p, 1.0),
    ];

    /// Distance in units of the last place of the right result.
    fn ulps(got: f32, want: f64) -> f64 {
        let rounded = want as f32;
        if got == rounded || got.is_nan() && rounded.is_nan() {
            return 0.0;
        }
        let size = rounded.abs();
        ((f64::from(got) - want) / (f64::from(size.next_up()) - f64::from(size))).abs()
    }

    #[test]
    fn errors_are_within_an_ulp_everywhere() {
        let dense = (-40_000..40_000).map(|n| n as f32 * (1.0 / 300.0));
        let near = (-20_000..20_000).map(|n| n as f32 * (1.0 / 16_384.0) + 1e-7);
        let everywhere = (0..200_000_u32).map(|n| f32::from_bits(n.wrapping_mul(0x9e37_79b9)));
        for x in dense.chain(near).chain(everywhere) {
            for (n, (function, right, limit)) in CASES.into_iter().enumerate() {
                let (got, want) = (function(x), right(x.into()));
                assert!(ulps(got, want) <= limit, "{n} of {x:e}: {got:e} for {want:e}");
            }
        }
    }

    #[test]
    fn powers_of_two_are_exact() {
        for n in -149..128 {
            let power = 2_f64.powi(n) as f32;
            assert_eq!(exp2(n as f32), power);
            assert_eq!(log2(power), n as f32);
        }
        assert_eq!((exp2(-150.0), exp2(128.0)), (0.0, f32::INFINITY));
        assert_eq!(exp2(-149.5), f32::from_bits(1));
    }

    #[test]
    fn special_arguments_are_those_of_rust() {
        let least = f32::from_bits(1);
        let points = [0.0, 1.0, 2.0, least, f32::MIN_POSITIVE, 1e-30, f32::MAX, f32::INFINITY];
        for x in points.into_iter().flat_map(|it| [it, -it]).chain([f32::NAN]) {
            for (n, (function, right, _)) in CASES.into_iter().enumerate() {
                let (got, want) = (function(x), right(x.into()) as f32);
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(same || got.is_finite() && got != 0.0, "{n} of {x:e}: {got:e}, {want:e}");
            }
        }
        assert_eq!(log2(0.0), f32::NEG_INFINITY);
        assert_eq!((log2(1.0).to_bits(), exp_m1(-0.0).to_bits()), (0, 1 << 31));
        assert_eq!((ln_1p(-1.0), ln_1p(-0.0).to_bits()), (f32::NEG_INFINITY, 1 << 31));
        assert_eq!((exp_m1(f32::NEG_INFINITY), exp_m1(-100.0)), (-1.0, -1.0));
        assert!(ln_1p(-1.000_000_1).is_nan() && log2(-least).is_nan());
        assert_eq!((exp_m1(-least), ln_1p(least)), (-least, least));
        assert!(exp_m1(88.722_8).is_finite() && exp_m1(88.723) == f32::INFINITY);
    }
}
