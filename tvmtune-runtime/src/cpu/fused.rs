//! Elementary functions of portable code, compiled for CPUs with FMA: applications are compiled for CPUs
//! without, where an exact FMA takes a dozen operations.
//!
//! Results are the same with and without.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "functions are called that only some CPUs can run")
)]

/// Functions that are compiled twice, and call what the CPU has.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) = $fused:path, $plain:path;)*) => {
        $($(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name($($x: f32),*) -> f32 {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "fma")]
                fn fused($($x: f32),*) -> f32 {
                    $fused($($x),*)
                }

                if is_x86_feature_detected!("fma") {
                    // SAFETY: the CPU has the instructions that the function is compiled for.
                    return unsafe { fused($($x),*) };
                }
            }
            $plain($($x),*)
        })*
    };
}

functions! {
    /// `e^x`.
    exp(x) = tvmtune_math::scalar::fused::exp, tvmtune_math::scalar::exp;
    /// The natural logarithm; NaN of negative numbers.
    ln(x) = tvmtune_math::scalar::fused::ln, tvmtune_math::scalar::ln;
    /// `2^x`.
    exp2(x) = tvmtune_math::scalar::fused::exp2, tvmtune_math::scalar::exp2;
    /// The logarithm to base 2; NaN of negative numbers.
    log2(x) = tvmtune_math::scalar::fused::log2, tvmtune_math::scalar::log2;
    /// `e^x - 1`.
    exp_m1(x) = tvmtune_math::scalar::fused::exp_m1, tvmtune_math::scalar::exp_m1;
    /// `ln(1 + x)`; NaN of numbers below -1.
    ln_1p(x) = tvmtune_math::scalar::fused::ln_1p, tvmtune_math::scalar::ln_1p;
    /// The hyperbolic tangent.
    tanh(x) = tvmtune_math::scalar::fused::tanh, tvmtune_math::scalar::tanh;
    /// The error function.
    erf(x) = tvmtune_math::scalar::fused::erf, tvmtune_math::scalar::erf;
    /// The sine; NaN of infinities.
    sin(x) = tvmtune_math::scalar::fused::sin, tvmtune_math::scalar::sin;
    /// The cosine; NaN of infinities.
    cos(x) = tvmtune_math::scalar::fused::cos, tvmtune_math::scalar::cos;
    /// The arc tangent.
    atan(x) = tvmtune_math::scalar::fused::atan, tvmtune_math::scalar::atan;
    /// `x^y`, with the signs and infinities of C.
    pow(x, y) = tvmtune_math::scalar::fused::pow, tvmtune_math::scalar::pow;
}
