//! Arithmetic that PTX defines exactly and Rust does not offer: fused products, directed rounding,
//! conversions that saturate.

use half::{bf16, f16};

/// Rounding of an inexact result to its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// To nearest, ties away from zero.
    NearestAway,
    Zero,
    Down,
    Up,
}

/// A subnormal number becomes zero with its sign.
pub(crate) fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0.0f32.copysign(value) } else { value }
}

/// `a * b + c`, rounded once.
///
/// The product is exact in double precision, and so the sum, rounded once more, is right unless it
/// lies halfway between two results in double precision: see [`fma_in_doubt`].
#[inline(always)]
pub(crate) fn fma_fast(a: f32, b: f32, c: f32) -> f64 {
    f64::from(a) * f64::from(b) + f64::from(c)
}

/// Returns whether rounding the sum of [`fma_fast`] once more may not give the fused result: it is
/// halfway between two floats, or among the subnormal ones. Zeros are exact.
#[inline(always)]
pub(crate) fn fma_in_doubt(sum: f64) -> bool {
    let bits = sum.to_bits();
    let (low, high) = (bits as u32, (bits >> 32) as u32 & 0x7FFF_FFFF);
    (low & 0x1FFF_FFFF == 0x1000_0000) | ((high < 0x3810_0000) & ((high | low) != 0))
}

/// `a + b` in double precision, rounded to odd: a second rounding to 51 bits or fewer then gives
/// what rounding the exact sum would.
pub(crate) fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's exact error of a sum.
    let from_b = sum - a;
    let error = (a - (sum - from_b)) + (b - from_b);
    nudge_to_odd(sum, error)
}

/// Moves an even `value` one step towards where the exact one lies, `error` away.
fn nudge_to_odd(value: f64, error: f64) -> f64 {
    let bits = value.to_bits();
    if error == 0.0 || bits & 1 == 1 || value == 0.0 {
        return value;
    }
    f64::from_bits(if (error > 0.0) == (value > 0.0) { bits + 1 } else { bits - 1 })
}

/// `a / b` rounded to odd.
pub(crate) fn quotient_to_odd(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if !quotient.is_finite() || b.is_infinite() {
        return quotient;
    }
    let remainder = (-quotient).mul_add(b, a);
    nudge_to_odd(quotient, if b < 0.0 { -remainder } else { remainder })
}

/// The square root rounded to odd.
pub(crate) fn root_to_odd(a: f64) -> f64 {
    let root = a.sqrt();
    if !root.is_finite() {
        return root;
    }
    nudge_to_odd(root, (-root).mul_add(root, a))
}

/// A double, exact or rounded to odd, in single precision.
pub(crate) fn to_f32(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    let wide = f64::from(nearest);
    if wide == value || nearest.is_nan() || value.is_infinite() {
        return nearest;
    }
    match rounding {
        Rounding::Nearest | Rounding::NearestAway => nearest,
        Rounding::Zero if wide.abs() > value.abs() => towards_zero(nearest),
        Rounding::Down if wide > value => nearest.next_down(),
        Rounding::Up if wide < value => nearest.next_up(),
        _ => nearest,
    }
}

fn towards_zero(value: f32) -> f32 {
    if value > 0.0 { value.next_down() } else { value.next_up() }
}

/// A double in single precision, rounded to odd, for one more rounding to 22 bits or fewer.
pub(crate) fn f32_to_odd(value: f64) -> f32 {
    let cut = to_f32(value, Rounding::Zero);
    if f64::from(cut) == value || value.is_nan() {
        return cut;
    }
    f32::from_bits(cut.to_bits() | 1)
}

/// A 16-bit float in arithmetic: computed wider, and rounded once.
pub(crate) trait Half: Copy + Send + Sync + 'static {
    /// The exact value.
    fn wide(self) -> f32;
    /// To nearest, ties to even.
    fn narrow(value: f32) -> Self;
    /// A value that was rounded to odd.
    fn narrow_odd(value: f64) -> Self {
        Self::narrow(f32_to_odd(value))
    }
    /// The bits.
    fn bits(self) -> u16;
    /// From bits.
    fn from_bits(bits: u16) -> Self;
    /// The bits below the sign of infinity, and the largest finite value's.
    const INFINITE: u16;
}

macro_rules! half {
    ($type:ident, $infinite:literal) => {
        impl Half for $type {
            fn wide(self) -> f32 {
                self.to_f32()
            }
            fn narrow(value: f32) -> Self {
                if value.is_nan() { $type::from_bits(0x7FFF) } else { $type::from_f32(value) }
            }
            fn bits(self) -> u16 {
                self.to_bits()
            }
            fn from_bits(bits: u16) -> Self {
                $type::from_bits(bits)
            }
            const INFINITE: u16 = $infinite;
        }
    };
}

half!(f16, 0x7C00);
half!(bf16, 0x7F80);

/// Single precision to a half by any rounding.
pub(crate) fn to_half<T: Half>(value: f32, rounding: Rounding) -> T {
    let nearest = T::narrow(value);
    let wide = nearest.wide();
    if wide == value || value.is_nan() || value.is_infinite() {
        return nearest;
    }
    let (down, up) =
        (T::from_bits(step(nearest.bits(), false)), T::from_bits(step(nearest.bits(), true)));
    match rounding {
        Rounding::Zero if wide > value && value > 0.0 => down,
        Rounding::Zero if wide < value && value < 0.0 => up,
        Rounding::Down if wide > value => down,
        Rounding::Up if wide < value => up,
        _ => nearest,
    }
}

/// The bits of the next number up or down.
fn step(bits: u16, up: bool) -> u16 {
    let negative = bits & 0x8000 != 0;
    match (bits & 0x7FFF, negative == up) {
        (0, _) if up => 1,
        (0, _) => 0x8001,
        (_, true) => bits - 1,
        (_, false) => bits + 1,
    }
}

/// Single precision to TF32: 10 bits of mantissa are kept.
pub(crate) fn to_tf32(value: f32, rounding: Rounding) -> u32 {
    let bits = value.to_bits();
    if !value.is_finite() {
        return if value.is_nan() { 0x7FFF_FFFF } else { bits };
    }
    let rounded = match rounding {
        Rounding::NearestAway => bits + 0x1000,
        Rounding::Nearest => bits + 0xFFF + (bits >> 13 & 1),
        _ => bits,
    };
    rounded & 0xFFFF_E000
}

/// A float rounded to an integer that is a float.
pub(crate) fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Within 0 and 1; NaN becomes 0.
pub(crate) fn saturate(value: f32) -> f32 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// The smaller one; a number beats NaN, and -0 is below +0.
pub(crate) fn min(a: f32, b: f32) -> f32 {
    pick(a, b, a < b, |a, b| a | b)
}

/// The larger one; a number beats NaN, and +0 is above -0.
pub(crate) fn max(a: f32, b: f32) -> f32 {
    pick(a, b, a > b, |a, b| a & b)
}

/// `a` if it is first, else `b`; a number beats NaN; of two zeros, what their bits say.
fn pick(a: f32, b: f32, first: bool, of_equal: fn(u32, u32) -> u32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => NAN,
        (true, false) => b,
        (false, true) => a,
        _ if a == b => f32::from_bits(of_equal(a.to_bits(), b.to_bits())),
        _ if first => a,
        _ => b,
    }
}

/// The NaN that PTX arithmetic gives.
pub(crate) const NAN: f32 = f32::from_bits(0x7FFF_FFFF);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        Rounding, f32_to_odd, fma_fast, fma_in_doubt, quotient_to_odd, root_to_odd, sum_to_odd,
        to_f32, to_half,
    };

    fn floats() -> impl Strategy<Value = f32> {
        prop_oneof![any::<u32>().prop_map(f32::from_bits), (-64i32..64).prop_map(|it| it as f32)]
    }

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    proptest! {
        #[test]
        fn fused_products_are_rounded_once(a in floats(), b in floats(), c in floats()) {
            let sum = fma_fast(a, b, c);
            prop_assert!(fma_in_doubt(sum) || same(sum as f32, a.mul_add(b, c)));
        }

        #[test]
        fn rounding_to_odd_first_changes_nothing(a in floats(), b in floats()) {
            let (x, y) = (f64::from(a), f64::from(b));
            prop_assert!(same(to_f32(sum_to_odd(x, y), Rounding::Nearest), a + b));
            prop_assert!(same(to_f32(quotient_to_odd(x, y), Rounding::Nearest), a / b));
            prop_assert!(same(to_f32(root_to_odd(x), Rounding::Nearest), a.sqrt()));
        }

        #[test]
        fn addends_too_small_to_count_still_direct_the_rounding(a in 1u32..0x7F00_0000, tiny in 1u32..0x0080_0000) {
            let (a, tiny) = (f32::from_bits(a | 0x2000_0000), f32::from_bits(tiny));
            prop_assume!(a.is_finite());
            let sum = |b: f32, rounding| to_f32(sum_to_odd(f64::from(a), f64::from(b)), rounding);
            prop_assert_eq!(sum(tiny, Rounding::Up), a.next_up());
            prop_assert_eq!(sum(tiny, Rounding::Down), a);
            prop_assert_eq!(sum(-tiny, Rounding::Zero), a.next_down());
            prop_assert_eq!(sum(-tiny, Rounding::Nearest), a);
        }

        #[test]
        fn directed_results_enclose_the_exact_one(a in floats(), b in floats()) {
            prop_assume!(a.is_finite() && b.is_finite());
            let exact = sum_to_odd(f64::from(a), f64::from(b));
            let rounded = |rounding| f64::from(to_f32(exact, rounding));
            prop_assert!(rounded(Rounding::Down) <= exact && exact <= rounded(Rounding::Up));
            prop_assert!(rounded(Rounding::Zero).abs() <= exact.abs());
        }

        #[test]
        fn halves_of_doubles_are_rounded_once(bits in any::<u64>()) {
            let value = f64::from_bits(bits & 0xBFFF_FFFF_FFFF_FFFF | 0x3E00_0000_0000_0000);
            prop_assume!(value.abs() < 60000.0);
            let got: half::f16 = to_half(f32_to_odd(value), Rounding::Nearest);
            // No other half is closer.
            let distance = |it: half::f16| (it.to_f64() - value).abs();
            for near in [got.to_bits().wrapping_sub(1), got.to_bits().wrapping_add(1)] {
                let near = half::f16::from_bits(near);
                prop_assert!(near.is_nan() || distance(got) <= distance(near));
            }
        }
    }
}
