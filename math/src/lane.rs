//! Operations on lanes of 32 bits, and what they are on one lane: for Rust, constant folding and
//! interpreters.
//!
//! Each is exact or rounded once, so that every machine has the same result.

/// Lane-wise operations on one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// `f32` square root.
    SqrtF,
    /// `f32` rounded to integral: nearest, ties to even.
    RoundF,
    /// `f32` rounded to integral, down.
    FloorF,
    /// `f32` rounded to integral, up.
    CeilF,
    /// `i32` to `f32`, rounded to nearest.
    IntToFloat,
    /// `f32` to `i32` towards zero; out of range and NaN give `i32::MIN`.
    FloatToInt,
    /// Shift of the 32 bits to the left, filled with zeros.
    ShiftLeft(u8),
    /// Shift of the 32 bits to the right, filled with zeros.
    ShiftRight(u8),
    /// Shift of the 32 bits to the right, filled with the sign.
    ShiftRightSigned(u8),
}

/// Lane-wise operations on two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binary {
    /// `f32` sum.
    AddF,
    /// `f32` difference.
    SubF,
    /// `f32` product.
    MulF,
    /// `f32` quotient.
    DivF,
    /// `f32`: the first times 2 to the second, which is rounded down first; the product is rounded
    /// once, as of real numbers (and 2 to the infinity makes a quiet NaN infinite, 2 to the
    /// negative infinity makes it 0). Only where there is an instruction for it.
    ScaleF,
    /// `f32`: the first if it is smaller, else the second (also where either is a NaN).
    MinF,
    /// `f32`: the first if it is larger, else the second (also where either is a NaN).
    MaxF,
    /// `i32` sum; wraps.
    AddI,
    /// `i32` difference; wraps.
    SubI,
    /// `i32` product; wraps.
    MulI,
    /// Smaller `i32`.
    MinI,
    /// Larger `i32`.
    MaxI,
    /// Bitwise and; of truth values, conjunction.
    And,
    /// Bitwise or; of truth values, disjunction.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift of the 32 bits to the left by so many, filled with zeros; by 32 or more, 0.
    ShiftLeftBy,
    /// Shift of the 32 bits to the right by so many, filled with zeros; by 32 or more, 0.
    ShiftRightBy,
    /// Shift of the 32 bits to the right by so many, filled with the sign; by 32 or more, the sign.
    ShiftRightSignedBy,
}

/// Comparisons; the result is a truth value: all bits of the lane set, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compare {
    /// `f32` less than; false for NaN.
    LtF,
    /// `f32` at most; false for NaN.
    LeF,
    /// `f32` equal; false for NaN.
    EqF,
    /// `f32` not equal; true for NaN.
    NeF,
    /// `i32` less than.
    LtI,
    /// `i32` equal.
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
