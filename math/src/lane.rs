//! Operations on lanes, and what they are on one lane of 32 bits: for Rust, constant folding and
//! interpreters. [`crate::lane64`] has them on lanes of 64 bits.
//!
//! A float is an `f32` in lanes of 32 bits and an `f64` in lanes of 64, an integer an `i32` or an `i64`. Each
//! operation is exact or rounded once, so that every machine has the same result.

/// The bits of each lane of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 32 bits: `f32` and `i32`.
    Bits32,
    /// 64 bits: `f64` and `i64`.
    Bits64,
}

impl Width {
    /// Returns the number of bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Width::Bits32 => 32,
            Width::Bits64 => 64,
        }
    }
}

/// Lane-wise operations on one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// Square root of a float.
    SqrtF,
    /// Float rounded to integral: nearest, ties to even.
    RoundF,
    /// Float rounded to integral, down.
    FloorF,
    /// Float rounded to integral, up.
    CeilF,
    /// Integer to float, rounded to nearest.
    IntToFloat,
    /// Float to integer towards zero; out of range and NaN give the least integer.
    FloatToInt,
    /// Shift of the bits to the left, filled with zeros.
    ShiftLeft(u8),
    /// Shift of the bits to the right, filled with zeros.
    ShiftRight(u8),
    /// Shift of the bits to the right, filled with the sign.
    ShiftRightSigned(u8),
    /// Float rounded to the nearest number that an `f32` can have, ties to even.
    SingleF,
}

/// Lane-wise operations on two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binary {
    /// Sum of floats.
    AddF,
    /// Difference of floats.
    SubF,
    /// Product of floats.
    MulF,
    /// Quotient of floats.
    DivF,
    /// Of floats, the first times 2 to the second, which is rounded down first; the product is rounded
    /// once, as of real numbers (and 2 to the infinity makes a quiet NaN infinite, 2 to the
    /// negative infinity makes it 0). Only where there is an instruction for it, and in lanes of 32 bits.
    ScaleF,
    /// Of floats, the first if it is smaller, else the second (also where either is a NaN).
    MinF,
    /// Of floats, the first if it is larger, else the second (also where either is a NaN).
    MaxF,
    /// Sum of integers; wraps.
    AddI,
    /// Difference of integers; wraps.
    SubI,
    /// Product of integers; wraps.
    MulI,
    /// Sum of the products of the low halves and of the high ones, as signed numbers; wraps. Only in lanes of 32 bits.
    DotHalves,
    /// Smaller integer.
    MinI,
    /// Larger integer.
    MaxI,
    /// Bitwise and; of truth values, conjunction.
    And,
    /// Bitwise or; of truth values, disjunction.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift of the bits to the left by so many, filled with zeros; by all of them or more, 0.
    ShiftLeftBy,
    /// Shift of the bits to the right by so many, filled with zeros; by all of them or more, 0.
    ShiftRightBy,
    /// Shift of the bits to the right by so many, filled with the sign; by all of them or more, the sign.
    ShiftRightSignedBy,
}

/// Comparisons; the result is a truth value: all bits of the lane set, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compare {
    /// Float less than; false for NaN.
    LtF,
    /// Float at most; false for NaN.
    LeF,
    /// Floats equal; false for NaN.
    EqF,
    /// Floats not equal; true for NaN.
    NeF,
    /// Integer less than.
    LtI,
    /// Integers equal.
    EqI,
}

/// Bits of a lane that is true.
pub const TRUE: u32 = u32::MAX;
/// Bits of a lane that is false.
pub const FALSE: u32 = 0;

/// Makes a truth value: all bits, or none.
#[inline]
pub fn truth(holds: bool) -> u32 {
    if holds { TRUE } else { FALSE }
}

/// Returns whether a lane is a finite float.
#[inline]
pub fn is_finite(bits: u32) -> bool {
    float(bits).is_finite()
}

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// Converts as x86 does: values out of range become `i32::MIN`.
fn truncate(value: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 } else { i32::MIN }
}

/// Computes an operation on one lane.
#[inline]
pub fn unary(op: Unary, x: u32) -> u32 {
    match op {
        Unary::SqrtF => float(x).sqrt().to_bits(),
        Unary::RoundF => float(x).round_ties_even().to_bits(),
        Unary::FloorF => float(x).floor().to_bits(),
        Unary::CeilF => float(x).ceil().to_bits(),
        Unary::IntToFloat => (x.cast_signed() as f32).to_bits(),
        Unary::FloatToInt => truncate(float(x)).cast_unsigned(),
        Unary::ShiftLeft(by) => x.checked_shl(by.into()).unwrap_or(0),
        Unary::ShiftRight(by) => x.checked_shr(by.into()).unwrap_or(0),
        Unary::ShiftRightSigned(by) => (x.cast_signed() >> u32::from(by).min(31)).cast_unsigned(),
        Unary::SingleF => x,
    }
}

/// Computes an operation on two lanes.
#[inline]
pub fn binary(op: Binary, x: u32, y: u32) -> u32 {
    let (a, b) = (float(x), float(y));
    let (i, j) = (x.cast_signed(), y.cast_signed());
    match op {
        Binary::AddF => (a + b).to_bits(),
        Binary::SubF => (a - b).to_bits(),
        Binary::MulF => (a * b).to_bits(),
        Binary::DivF => (a / b).to_bits(),
        Binary::ScaleF => scaled(a, b).to_bits(),
        Binary::MinF => {
            if a < b {
                x
            } else {
                y
            }
        }
        Binary::MaxF => {
            if a > b {
                x
            } else {
                y
            }
        }
        Binary::AddI => i.wrapping_add(j).cast_unsigned(),
        Binary::SubI => i.wrapping_sub(j).cast_unsigned(),
        Binary::MulI => i.wrapping_mul(j).cast_unsigned(),
        Binary::DotHalves => {
            let halves = |it: i32| [i32::from(it as i16), it >> 16];
            let ([a, b], [c, d]) = (halves(i), halves(j));
            (a * c).wrapping_add(b * d).cast_unsigned()
        }
        Binary::MinI => i.min(j).cast_unsigned(),
        Binary::MaxI => i.max(j).cast_unsigned(),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::ShiftLeftBy => x.checked_shl(y).unwrap_or(0),
        Binary::ShiftRightBy => x.checked_shr(y).unwrap_or(0),
        Binary::ShiftRightSignedBy => (i >> y.min(31)).cast_unsigned(),
    }
}

/// Computes `x * 2^floor(y)`, rounded once.
fn scaled(x: f32, y: f32) -> f32 {
    const QUIET: u32 = 1 << 22;
    let is_quiet = x.is_nan() && x.to_bits() & QUIET != 0;
    let power = match y {
        // As `vscalefps` does.
        f32::INFINITY if is_quiet => return f32::INFINITY,
        f32::NEG_INFINITY if is_quiet => return 0.0,
        f32::INFINITY => f32::INFINITY,
        f32::NEG_INFINITY => 0.0,
        nan if nan.is_nan() => nan,
        // Exact in double precision, where no such power is out of range.
        y => {
            let exponent = y.floor().clamp(-1000.0, 1000.0) as i64;
            let power = f64::from_bits(((1023 + exponent) as u64) << 52);
            return (f64::from(x) * power) as f32;
        }
    };
    x * power
}

/// Computes `a * b + c`, rounded once.
#[inline]
pub fn fma(a: u32, b: u32, c: u32) -> u32 {
    crate::fma(float(a), float(b), float(c)).to_bits()
}

/// Compares two lanes.
#[inline]
pub fn compare(op: Compare, x: u32, y: u32) -> u32 {
    let (a, b) = (float(x), float(y));
    truth(match op {
        Compare::LtF => a < b,
        Compare::LeF => a <= b,
        Compare::EqF => a == b,
        Compare::NeF => a != b,
        Compare::LtI => x.cast_signed() < y.cast_signed(),
        Compare::EqI => x == y,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_scale_as_the_instruction_does() {
        let scale = |x: f32, y: f32| float(binary(Binary::ScaleF, x.to_bits(), y.to_bits()));
        assert_eq!((scale(3.0, 2.5), scale(3.0, -1.5), scale(-1.0, 0.0)), (12.0, 0.75, -1.0));
        assert_eq!(
            (scale(1.0, -149.0), scale(1.0, -151.0), scale(1.0, 128.0)),
            (1e-45, 0.0, f32::INFINITY)
        );
        assert_eq!((scale(f32::MIN_POSITIVE, 1e9), scale(f32::MAX, -1e9)), (f32::INFINITY, 0.0));
        assert!(scale(1.0, f32::NAN).is_nan() && scale(f32::NAN, 1.0).is_nan());
        assert_eq!(
            (scale(f32::NAN, f32::INFINITY), scale(f32::NAN, f32::NEG_INFINITY)),
            (f32::INFINITY, 0.0)
        );
    }
}
