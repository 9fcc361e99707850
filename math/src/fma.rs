//! Fused multiplication and addition, also where there is no instruction for it.

/// Computes `x * y + z`, rounded once.
#[inline]
#[must_use]
pub fn fma(x: f32, y: f32, z: f32) -> f32 {
    // Without the instruction, `mul_add` is a call that takes as long as dozens of others.
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        x.mul_add(y, z)
    } else {
        by_doubles(x, y, z)
    }
}

/// Computes it in double precision, which has room for the product. The sum is rounded to odd: such a
/// number, rounded again to fewer digits, is the sum rounded once.
///
/// # Source
///
/// Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding
/// to Odd", IEEE Transactions on Computers 57 (2008).
#[inline]
fn by_doubles(x: f32, y: f32, z: f32) -> f32 {
    let (product, z) = (f64::from(x) * f64::from(y), f64::from(z));
    let sum = product + z;
    // The rounding error of the sum (Knuth's TwoSum); NaN if the sum is infinite.
    let part = sum - product;
    let lost = (product - (sum - part)) + (z - part);
    let bits = sum.to_bits();
    let is_even = bits & 1 == 0;
    let away = (lost > 0.0) == (sum > 0.0);
    // Bit patterns rise with magnitudes. An even neighbor has its odd one on the side of what is lost.
    let step = if away { 1 } else { u64::MAX };
    let odd = if lost.abs() > 0.0 && is_even { bits.wrapping_add(step) } else { bits };
    f64::from_bits(odd) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(x: f32, y: f32, z: f32) {
        let (got, want) = (by_doubles(x, y, z), x.mul_add(y, z));
        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(same, "{x:e} * {y:e} + {z:e}: {got:e}, not {want:e}");
    }

    #[test]
    fn sums_are_rounded_once() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            f32::MAX,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::from_bits(0x007f_ffff),
            1.0 + f32::EPSILON,
            1.0 - f32::EPSILON / 2.0,
            16_777_215.0,
        ];
        for x in special {
            for y in special {
                special.iter().for_each(|z| check(x, y, *z));
            }
        }
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        };
        for _ in 0..200_000 {
            let [x, y, z] = [random(), random(), random()].map(f32::from_bits);
            check(x, y, z);
            // A sum whose last digits are close to a tie: of a product, and of a number 24 digits above.
            let x = f32::from_bits(random() & 0x007f_ffff | 0x3f80_0000);
            let y = f32::from_bits(random() & 0x007f_ffff | 0x3f80_0000);
            let exponent = 127 + (random() % 56) - 28;
            let z = f32::from_bits(exponent << 23 | random() & 0x8000_0003);
            check(x, y, z);
        }
    }

    #[test]
    fn ties_are_broken_by_what_is_lost() {
        // A product that is 2^-36 of itself below a power of two, which is half a unit of the sum.
        let (above, below) = (1.0 + 2_f32.powi(-18), 1.0 - 2_f32.powi(-18));
        for (half, z) in [(-24, 1.0 + f32::EPSILON), (-25, f32::EPSILON / 2.0 - 1.0)] {
            let x = above * 2_f32.powi(half / 2);
            let y = below * 2_f32.powi(half - half / 2);
            assert_ne!((f64::from(x) * f64::from(y) + f64::from(z)) as f32, x.mul_add(y, z));
            for (x, z) in [(x, z), (-x, -z)] {
                check(x, y, z);
                check(x, -y, -z);
            }
        }
    }
}
