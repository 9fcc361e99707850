//! Arithmetic of portable kernels beyond the language's operators.

#[cfg(feature = "cpu")]
pub use crate::cpu::fused::{atan, cos, erf, exp, exp_m1, exp2, ln, ln_1p, log2, pow, sin, tanh};
pub use tvmtune_math::fma;
#[cfg(not(feature = "cpu"))]
pub use tvmtune_math::scalar::{
    atan, cos, erf, exp, exp_m1, exp2, ln, ln_1p, log2, pow, sin, tanh,
};

/// Functions of `f64`, the same on every machine.
macro_rules! doubles {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) = $function:ident;)*) => {
        $($(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name($($x: f64),*) -> f64 {
            libm::$function($($x),*)
        })*
    };
}

doubles! {
    /// `e^x`, in `f64`.
    exp64(x) = exp;
    /// The natural logarithm, in `f64`.
    ln64(x) = log;
    /// `2^x`, in `f64`.
    exp264(x) = exp2;
    /// The logarithm to base 2, in `f64`.
    log264(x) = log2;
    /// `e^x - 1`, in `f64`.
    exp_m164(x) = expm1;
    /// `ln(1 + x)`, in `f64`.
    ln_1p64(x) = log1p;
    /// The hyperbolic tangent, in `f64`.
    tanh64(x) = tanh;
    /// The error function, in `f64`.
    erf64(x) = erf;
    /// The sine, in `f64`.
    sin64(x) = sin;
    /// The cosine, in `f64`.
    cos64(x) = cos;
    /// The arc tangent, in `f64`.
    atan64(x) = atan;
    /// `x^y`, in `f64`.
    pow64(x, y) = pow;
}

/// Floats, with the smaller and the larger of two as programs have them.
pub trait Float: Copy {
    /// The smaller number; of a number and a NaN the number, of equal numbers the second.
    #[must_use]
    fn smaller(self, other: Self) -> Self;

    /// The larger number; of a number and a NaN the number, of equal numbers the second.
    #[must_use]
    fn larger(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($float:ty)*) => {
        $(impl Float for $float {
            #[inline]
            fn smaller(self, other: Self) -> Self {
                if self < other || other.is_nan() { self } else { other }
            }

            #[inline]
            fn larger(self, other: Self) -> Self {
                if self > other || other.is_nan() { self } else { other }
            }
        })*
    };
}

floats!(f32 f64);

/// The nearest number whose lower 13 bits are 0, ties to even; a NaN stays one.
#[inline]
#[must_use]
pub fn tf32(x: f32) -> f32 {
    let bits = x.to_bits();
    if x.is_nan() { x } else { f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff) }
}

/// The nearest number, ties to even; `half` looks at the first 20 digits only.
#[cfg(feature = "half")]
#[inline]
#[must_use]
pub fn f16(x: f64) -> half::f16 {
    half::f16::from_f32(round_to_odd(x))
}

/// The nearest number, ties to even, as [`f16`].
#[cfg(feature = "half")]
#[inline]
#[must_use]
pub fn bf16(x: f64) -> half::bf16 {
    half::bf16::from_f32(round_to_odd(x))
}

/// The nearest number, or where that is even and another one, its odd neighbor on the side of `x`:
/// rounded again to fewer digits, it is `x` rounded once.
#[cfg(feature = "half")]
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let exact = f64::from(nearest);
    let bits = nearest.to_bits();
    if exact == x || !nearest.is_finite() || bits % 2 == 1 {
        return nearest;
    }
    // Bit patterns rise with magnitudes.
    f32::from_bits(if exact.abs() < x.abs() { bits + 1 } else { bits - 1 })
}

/// Integers, with the division that programs have.
pub trait Integer: Copy {
    /// The quotient, rounded towards zero; 0 where the divisor is 0; wraps.
    #[must_use]
    fn quotient(self, divisor: Self) -> Self;

    /// The remainder, with the sign of the dividend; 0 where the divisor is 0.
    #[must_use]
    fn remainder(self, divisor: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ty)*) => {
        $(impl Integer for $integer {
            #[inline]
            fn quotient(self, divisor: Self) -> Self {
                if divisor == 0 { 0 } else { self.wrapping_div(divisor) }
            }

            #[inline]
            fn remainder(self, divisor: Self) -> Self {
                if divisor == 0 { 0 } else { self.wrapping_rem(divisor) }
            }
        })*
    };
}

integers!(i8 u8 i32 u32 i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_digits_are_kept() {
        let ulp = 2_f32.powi(-10);
        assert_eq!(tf32(1.0 + 0.5 * ulp), 1.0);
        assert_eq!(tf32(1.0 + 0.51 * ulp), 1.0 + ulp);
        assert_eq!(tf32(1.0 + 1.5 * ulp), 1.0 + 2.0 * ulp);
        assert_eq!(tf32(-1.0 - 0.5 * ulp), -1.0);
        assert_eq!(tf32(-1.0 - 1.5 * ulp), -1.0 - 2.0 * ulp);
        assert_eq!(tf32(f32::MAX), f32::INFINITY);
        assert_eq!(tf32(f32::NEG_INFINITY), f32::NEG_INFINITY);
        assert!(tf32(f32::from_bits(0x7f80_0001)).is_nan());
    }

    #[cfg(feature = "half")]
    #[test]
    fn doubles_are_rounded_once_by_all_digits() {
        let (tie, next) = (1.0 + 2_f64.powi(-11), 1.0 + 2_f64.powi(-10));
        assert_eq!(f16(tie).to_f64(), 1.0);
        assert_eq!(f16(tie + 2_f64.powi(-50)).to_f64(), next);
        assert_eq!(f16(-tie - 2_f64.powi(-50)).to_f64(), -next);
        assert_eq!(f16(tie - 2_f64.powi(-50)).to_f64(), 1.0);
        assert_eq!(f16(2_f64.powi(-25) * (1.0 + 1e-15)).to_f64(), 2_f64.powi(-24));
        assert_eq!((f16(1e-60).to_f64(), f16(1e300).to_f64()), (0.0, f64::INFINITY));
        assert_eq!(bf16(1.0 + 2_f64.powi(-8) + 2_f64.powi(-45)).to_f64(), 1.0 + 2_f64.powi(-7));
        assert_eq!(bf16(f64::from((1 << 24) + (1 << 16) + 1)).to_f64(), 16_908_288.0);
        assert!(bf16(f64::NAN).is_nan());
    }

    #[test]
    fn of_a_number_and_a_nan_the_number_is_smaller_and_of_equal_numbers_the_second() {
        for choose in [f32::smaller, f32::larger] {
            assert_eq!(choose(f32::NAN, 1.0), 1.0);
            assert_eq!(choose(1.0, f32::NAN), 1.0);
            assert!(choose(f32::NAN, f32::NAN).is_nan());
            assert!(choose(0.0, -0.0).is_sign_negative() && choose(-0.0, 0.0).is_sign_positive());
        }
        assert_eq!((1.0_f64.smaller(2.0), 1.0_f64.larger(2.0)), (1.0, 2.0));
    }

    #[test]
    fn integer_division_never_fails() {
        assert_eq!(7_i32.quotient(0), 0);
        assert_eq!(7_i32.remainder(0), 0);
        assert_eq!((-7_i32).quotient(2), -3);
        assert_eq!((-7_i32).remainder(2), -1);
        assert_eq!(i8::MIN.quotient(-1), i8::MIN);
        assert_eq!(i64::MIN.remainder(-1), 0);
    }
}
