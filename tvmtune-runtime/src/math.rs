//! Arithmetic of portable kernels beyond the language's operators.

/// The error function, in `f32`.
#[inline]
#[must_use]
pub fn erf(x: f32) -> f32 {
    libm::erff(x)
}

/// The error function, in `f64`.
#[inline]
#[must_use]
pub fn erf64(x: f64) -> f64 {
    libm::erf(x)
}

/// The nearest number whose lower 13 bits are 0, ties to even; a NaN stays one.
#[inline]
#[must_use]
pub fn tf32(x: f32) -> f32 {
    let bits = x.to_bits();
    if x.is_nan() { x } else { f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff) }
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
