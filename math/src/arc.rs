//! The arc tangent of `f32`, for all arguments.
//!
//! Arguments above 1 are those of the complementary angle, `atan(x) = pi / 2 - atan(1 / x)`. A polynomial in
//! the square does the rest.
//!
//! # Source
//!
//! The polynomial is a minimax approximation (Remez) of the relative error, computed in 60 digits.

use crate::Arithmetic;
use crate::elementary::polynomial;
use crate::lane::{Binary, Compare};

/// `(atan(x) / x - 1) / x^2` up to 1 in powers of `x^2`, highest first.
const P: [f32; 9] = [
    -1.793_600_2e-3,
    1.091_451_7e-2,
    -3.117_769_6e-2,
    5.795_746_3e-2,
    -8.403_443_5e-2,
    1.095_218_4e-1,
    -1.426_424_1e-1,
    1.999_854_9e-1,
    -3.333_33e-1,
];

/// `pi / 2` less its nearest `f32`.
const QUARTER_TURN_LOW: f32 = -4.371_139e-8;

/// An argument as the tangent of an angle of half a quarter turn at most.
pub(crate) struct Reduced<V> {
    tangent: V,
    /// The square of the tangent.
    pub(crate) square: V,
    sign: V,
    is_steep: V,
}

/// Computes the arc tangent, in `[-pi / 2, pi / 2]`.
#[inline(always)]
pub fn atan<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let constants = [-0.0, 1.0].map(|it| ops.float(it));
    let reduced = reduced(ops, x, constants);
    let p = polynomial(ops, reduced.square, &P);
    let quarter = [std::f32::consts::FRAC_PI_2, QUARTER_TURN_LOW].map(|it| ops.float(it));
    angle(ops, &reduced, p, quarter)
}

/// Reduces an argument, given -0 and 1.
#[inline(always)]
pub(crate) fn reduced<A: Arithmetic>(
    ops: &mut A,
    x: A::Value,
    [sign_bit, one]: [A::Value; 2],
) -> Reduced<A::Value> {
    let sign = ops.binary(Binary::And, x, sign_bit);
    let size = ops.binary(Binary::Xor, x, sign);
    let is_steep = ops.compare(Compare::LtF, one, size);
    let inverse = ops.div(one, size);
    let tangent = ops.select(is_steep, inverse, size);
    let square = ops.mul(tangent, tangent);
    Reduced { tangent, square, sign, is_steep }
}

/// Computes the angle, given the value of the polynomial and a quarter turn as a sum of two floats.
#[inline(always)]
pub(crate) fn angle<A: Arithmetic>(
    ops: &mut A,
    of: &Reduced<A::Value>,
    p: A::Value,
    [high, low]: [A::Value; 2],
) -> A::Value {
    let cube = ops.mul(of.square, of.tangent);
    let angle = ops.fma(p, cube, of.tangent);
    let rest = ops.sub(low, angle);
    let complement = ops.add(high, rest);
    let angle = ops.select(of.is_steep, complement, angle);
    ops.binary(Binary::Or, angle, of.sign)
}

#[cfg(test)]
mod tests {
    use crate::scalar::atan;

    #[test]
    fn errors_are_within_an_ulp_and_a_half_everywhere() {
        let dense = (-40_000..40_000).map(|n| n as f32 * (1.0 / 8192.0));
        let everywhere = (0..400_000_u32).map(|n| f32::from_bits(n.wrapping_mul(0x9e37_79b9)));
        for x in dense.chain(everywhere).filter(|it| !it.is_nan()) {
            let (got, want) = (atan(x), f64::from(x).atan());
            let size = (want as f32).abs();
            let ulp = f64::from(size.next_up()) - f64::from(size);
            let error = (f64::from(got) - want).abs() / ulp;
            assert!(error <= 1.5, "of {x:e}: {got:e} for {want:e}");
        }
    }

    #[test]
    fn special_arguments_are_those_of_rust() {
        let least = f32::from_bits(1);
        for x in [0.0, least, f32::MIN_POSITIVE, f32::MAX, f32::INFINITY] {
            assert_eq!(atan(x).to_bits(), x.atan().to_bits(), "of {x:e}");
            assert_eq!(atan(-x).to_bits(), (-x).atan().to_bits(), "of {x:e}");
        }
        assert!(atan(f32::NAN).is_nan());
    }
}
