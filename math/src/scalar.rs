//! The functions in Rust, of one number.
//!
//! Those of [`fused`] have the same results, and are for code that is compiled for CPUs with FMA: all of
//! a function is inlined into its caller.

use crate::lane::{self, Binary, Compare, FALSE, Unary, Width};
use crate::{Arithmetic, Fallback, arc, elementary, exponential, trig};

/// Arithmetic on one lane, by its bits; `mul_add` may be an instruction where it is compiled.
struct Lane<const FUSED: bool>;

impl<const FUSED: bool> Arithmetic for Lane<FUSED> {
    type Value = u32;

    #[inline(always)]
    fn width(&self) -> Width {
        Width::Bits32
    }

    #[inline(always)]
    fn scales(&self) -> bool {
        false
    }

    #[inline(always)]
    fn constant_bits(&self, _: u32) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn splat(&mut self, bits: u64) -> u32 {
        bits as u32
    }

    #[inline(always)]
    fn unary(&mut self, op: Unary, x: u32) -> u32 {
        lane::unary(op, x)
    }

    #[inline(always)]
    fn binary(&mut self, op: Binary, x: u32, y: u32) -> u32 {
        lane::binary(op, x, y)
    }

    #[inline(always)]
    fn fma(&mut self, x: u32, y: u32, z: u32) -> u32 {
        match FUSED {
            true => f32::from_bits(x).mul_add(f32::from_bits(y), f32::from_bits(z)).to_bits(),
            false => lane::fma(x, y, z),
        }
    }

    #[inline(always)]
    fn compare(&mut self, op: Compare, x: u32, y: u32) -> u32 {
        lane::compare(op, x, y)
    }

    #[inline(always)]
    fn select(&mut self, condition: u32, then: u32, otherwise: u32) -> u32 {
        if condition == FALSE { otherwise } else { then }
    }

    #[inline(always)]
    fn with_fallback(&mut self, usual: u32, fallback: Fallback, x: u32) -> u32 {
        let condition = fallback.condition(self, x);
        if condition == FALSE { usual } else { fallback.value(self, x) }
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) = $function:path;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name($($x: f32),*) -> f32 {
            f32::from_bits($function(&mut Lane::<false> $(, $x.to_bits())*))
        })*

        /// The same functions, for code that is compiled for CPUs with FMA.
        pub mod fused {
            use super::{Lane, arc, elementary, exponential, trig};

            $($(#[$doc])*
            #[inline(always)]
            #[must_use]
            pub fn $name($($x: f32),*) -> f32 {
                f32::from_bits($function(&mut Lane::<true> $(, $x.to_bits())*))
            })*
        }
    };
}

functions! {
    /// Computes `e^x`.
    exp(x) = elementary::exp;
    /// Computes the natural logarithm; NaN of negative numbers.
    ln(x) = elementary::ln;
    /// Computes `2^x`.
    exp2(x) = exponential::exp2;
    /// Computes the logarithm to base 2; NaN of negative numbers.
    log2(x) = exponential::log2;
    /// Computes `e^x - 1`.
    exp_m1(x) = exponential::exp_m1;
    /// Computes `ln(1 + x)`; NaN of numbers below -1.
    ln_1p(x) = exponential::ln_1p;
    /// Computes the hyperbolic tangent.
    tanh(x) = elementary::tanh;
    /// Computes the error function.
    erf(x) = elementary::erf;
    /// Computes the sine; NaN of infinities.
    sin(x) = trig::sin;
    /// Computes the cosine; NaN of infinities.
    cos(x) = trig::cos;
    /// Computes the arc tangent.
    atan(x) = arc::atan;
    /// Computes `x^y`, with the signs and infinities of C.
    pow(x, y) = elementary::pow;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of one number.
    type Function = fn(f32) -> f32;

    #[test]
    fn both_compilations_have_the_same_bits() {
        let unary: [[Function; 2]; 11] = [
            [exp, fused::exp],
            [ln, fused::ln],
            [exp2, fused::exp2],
            [log2, fused::log2],
            [exp_m1, fused::exp_m1],
            [ln_1p, fused::ln_1p],
            [tanh, fused::tanh],
            [erf, fused::erf],
            [sin, fused::sin],
            [cos, fused::cos],
            [atan, fused::atan],
        ];
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        for n in 0..200_000_u32 {
            let [x, y] = [0x9e37_79b9, 0x85eb_ca6b].map(|it| f32::from_bits(n.wrapping_mul(it)));
            for [plain, fused] in unary {
                assert!(same(plain(x), fused(x)), "of {x:e}: {:e}, {:e}", plain(x), fused(x));
            }
            let near = (n % 4096) as f32 * 0.01 - 20.0;
            for (x, y) in [(x, y), (x.abs(), near)] {
                assert!(same(pow(x, y), fused::pow(x, y)), "{x:e} to the {y:e}");
            }
        }
    }
}
