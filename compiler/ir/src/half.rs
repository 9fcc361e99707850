//! The 16-bit floats, `f16` and `bf16`: their bits, and conversions that round once, ties to even.
//!
//! Conversions start from `f64`, in which every operation of the interpreters is done: all of its digits
//! count, since a tie of the leading ones may be decided by the last one.
//!
//! # Source
//!
//! IEEE 754-2019, section 4.3.1; the rules for NaN are those of 6.2.

/// A number with 5 bits of exponent and 10 of significand (`binary16`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F16(u16);

/// A number with 8 bits of exponent and 7 of significand: the upper half of an `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bf16(u16);

/// The widths of the fields of a 16-bit float.
struct Format {
    exponent_bits: u32,
    significand_bits: u32,
}

const BINARY16: Format = Format { exponent_bits: 5, significand_bits: 10 };
const BFLOAT16: Format = Format { exponent_bits: 8, significand_bits: 7 };

/// Bits of the significand of an `f64` that are stored, and the bias of its exponent.
const F64_SIGNIFICAND_BITS: u32 = f64::MANTISSA_DIGITS - 1;
const F64_BIAS: i64 = 1023;

impl Format {
    const fn bias(&self) -> i64 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Returns the bits of infinity: those of every NaN are larger.
    const fn infinity(&self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.significand_bits
    }

    /// Returns the bits of the number nearest to `value`. A NaN keeps its sign and leading digits, and is
    /// quiet.
    fn encode(&self, value: f64) -> u16 {
        let bits = value.to_bits();
        let sign = (bits >> 63) << 15;
        let digits = bits & ((1 << F64_SIGNIFICAND_BITS) - 1);
        let n_dropped = F64_SIGNIFICAND_BITS - self.significand_bits;
        if value.is_nan() {
            let quiet = 1 << (self.significand_bits - 1);
            return (sign | self.infinity() | quiet | (digits >> n_dropped)) as u16;
        }
        if value.is_infinite() {
            return (sign | self.infinity()) as u16;
        }
        let exponent = (bits >> F64_SIGNIFICAND_BITS & 0x7ff) as i64 - F64_BIAS + self.bias();
        // Below the normal numbers the exponent stays, and leading zeros take digits away.
        let n_zeros = (1 - exponent).max(0);
        let n_dropped = i64::from(n_dropped) + n_zeros;
        if n_dropped > i64::from(f64::MANTISSA_DIGITS) {
            return sign as u16;
        }
        // Numbers that are subnormal as `f64` returned above: the leading digit is 1.
        let significand = digits | 1 << F64_SIGNIFICAND_BITS;
        let kept = round_shift(significand, n_dropped as u32);
        // The leading digit of a normal number adds 1 to the exponent, and so does a carry.
        let magnitude = ((exponent.max(1) - 1) << self.significand_bits) as u64 + kept;
        (sign | magnitude.min(self.infinity())) as u16
    }

    /// Returns the number of some bits; exact.
    fn decode(&self, bits: u16) -> f64 {
        let magnitude = u64::from(bits & 0x7fff);
        let sign = u64::from(bits >> 15) << 63;
        let n_added = F64_SIGNIFICAND_BITS - self.significand_bits;
        let magnitude = if magnitude >= self.infinity() {
            f64::INFINITY.to_bits() | (magnitude - self.infinity()) << n_added
        } else if magnitude >> self.significand_bits == 0 {
            // A subnormal number counts the least one.
            let least = F64_BIAS - self.bias() + 1 - i64::from(self.significand_bits);
            (magnitude as f64 * f64::from_bits((least as u64) << F64_SIGNIFICAND_BITS)).to_bits()
        } else {
            let rebased = ((F64_BIAS - self.bias()) as u64) << F64_SIGNIFICAND_BITS;
            (magnitude << n_added) + rebased
        };
        f64::from_bits(sign | magnitude)
    }
}

/// Divides by `2^n`, rounds to nearest, ties to even; `n` in 1..=63.
fn round_shift(value: u64, n: u32) -> u64 {
    let (kept, rest) = (value >> n, value & ((1 << n) - 1));
    let tie = 1 << (n - 1);
    kept + u64::from(rest > tie || rest == tie && kept % 2 == 1)
}

macro_rules! half {
    ($half:ident, $format:ident, max: $max:literal, least: $least:literal, epsilon: $epsilon:literal) => {
        impl $half {
            /// The largest finite number.
            pub const MAX: Self = Self($max);
            /// The least positive normal number.
            pub const MIN_POSITIVE: Self = Self($least);
            /// The difference between 1 and the next larger number.
            pub const EPSILON: Self = Self($epsilon);

            /// The number with these bits.
            pub fn from_bits(bits: u16) -> Self {
                Self(bits)
            }

            /// The bits of the number.
            pub fn to_bits(self) -> u16 {
                self.0
            }

            /// The number nearest to `value`, ties to even.
            pub fn from_f64(value: f64) -> Self {
                Self($format.encode(value))
            }

            /// The number nearest to `value`, ties to even.
            pub fn from_f32(value: f32) -> Self {
                Self::from_f64(value.into())
            }

            /// The same number; exact.
            pub fn to_f64(self) -> f64 {
                $format.decode(self.0)
            }

            /// The same number; exact.
            pub fn to_f32(self) -> f32 {
                self.to_f64() as f32
            }

            /// The number in memory, least significant byte first.
            pub fn to_le_bytes(self) -> [u8; 2] {
                self.0.to_le_bytes()
            }

            /// The number that has these bytes in memory, least significant byte first.
            pub fn from_le_bytes(bytes: [u8; 2]) -> Self {
                Self(u16::from_le_bytes(bytes))
            }
        }
    };
}

half!(F16, BINARY16, max: 0x7bff, least: 0x0400, epsilon: 0x1400);
half!(Bf16, BFLOAT16, max: 0x7f7f, least: 0x0080, epsilon: 0x3c00);

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks both directions against the crate `half`, whose conversions from `f32` are right.
    macro_rules! check {
        ($ours:ty, $theirs:ty) => {
            for bits in 0..=u16::MAX {
                let (ours, theirs) = (<$ours>::from_bits(bits), <$theirs>::from_bits(bits));
                assert_eq!(ours.to_f32().to_bits(), theirs.to_f32().to_bits(), "{bits:#x}");
                let value = ours.to_f64();
                if value.is_nan() {
                    assert!(<$ours>::from_f64(value).to_f64().is_nan(), "{bits:#x}");
                    continue;
                }
                assert_eq!(<$ours>::from_f64(value), ours, "{bits:#x}");
                // Around the number and around the ties beside it.
                for step in -40_000..=40_000 {
                    let near =
                        f32::from_bits(ours.to_f32().to_bits().wrapping_add_signed(step * 7));
                    if step % 997 == 0 && !near.is_nan() {
                        let expected = <$theirs>::from_f32(near).to_bits();
                        assert_eq!(<$ours>::from_f32(near).to_bits(), expected, "{near:e}");
                    }
                }
            }
        };
    }

    #[test]
    fn all_numbers_and_their_neighbors_convert_as_in_the_crate_half() {
        check!(F16, half::f16);
        check!(Bf16, half::bf16);
    }

    /// Between two neighbors: the even one at the middle, the nearer one beside it by the last digit of an
    /// `f64`.
    #[test]
    fn the_last_digit_decides_a_tie() {
        for bits in 0..F16::MAX.to_bits() {
            let [low, high] = [bits, bits + 1].map(|it| F16::from_bits(it).to_f64());
            let middle = f64::midpoint(low, high);
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            let nearest = [middle.next_down(), middle, middle.next_up()].map(F16::from_f64);
            assert_eq!(nearest.map(F16::to_bits), [bits, even, bits + 1]);
        }
        let tie = 1.0 + 2_f64.powi(-8);
        assert_eq!(Bf16::from_f64(tie).to_f64(), 1.0);
        assert_eq!(Bf16::from_f64(tie.next_up()).to_f64(), 1.0 + 2_f64.powi(-7));
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(F16::MAX.to_f64(), 65504.0);
        assert_eq!(F16::MIN_POSITIVE.to_f64(), 2_f64.powi(-14));
        assert_eq!(F16::EPSILON.to_f64(), 2_f64.powi(-10));
        assert_eq!(Bf16::MAX.to_f32(), f32::from_bits(0x7f7f_0000));
        assert_eq!(Bf16::MIN_POSITIVE.to_f32(), f32::MIN_POSITIVE);
        assert_eq!(Bf16::EPSILON.to_f64(), 2_f64.powi(-7));
        assert_eq!(F16::from_f64(65519.999).to_f64(), 65504.0);
        assert_eq!(F16::from_f64(-65520.0).to_f64(), f64::NEG_INFINITY);
        assert_eq!(F16::from_f64(f64::MAX).to_f64(), f64::INFINITY);
        assert_eq!(F16::from_f64(-f64::MIN_POSITIVE).to_bits(), 0x8000);
        assert_eq!(F16::from_f64(2_f64.powi(-25)).to_bits(), 0);
        assert_eq!(F16::from_f64(2_f64.powi(-25).next_up()).to_bits(), 1);
        assert_eq!(Bf16::from_f64(2_f64.powi(-134).next_up()).to_bits(), 1);
    }
}
