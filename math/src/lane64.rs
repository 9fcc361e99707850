//! The operations of [`crate::lane`] on one lane of 64 bits.

use crate::lane::{Binary, Compare, Unary};

/// Bits of a lane that is true.
pub const TRUE: u64 = u64::MAX;
/// Bits of a lane that is false.
pub const FALSE: u64 = 0;

/// Makes a truth value: all bits, or none.
#[inline]
#[must_use]
pub fn truth(holds: bool) -> u64 {
    if holds { TRUE } else { FALSE }
}

fn float(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Converts as x86 does: values out of range become `i64::MIN`.
fn truncate(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

/// Computes an operation on one lane.
#[inline]
#[must_use]
pub fn unary(op: Unary, x: u64) -> u64 {
    match op {
        Unary::SqrtF => float(x).sqrt().to_bits(),
        Unary::RoundF => float(x).round_ties_even().to_bits(),
        Unary::FloorF => float(x).floor().to_bits(),
        Unary::CeilF => float(x).ceil().to_bits(),
        Unary::IntToFloat => (x.cast_signed() as f64).to_bits(),
        Unary::FloatToInt => truncate(float(x)).cast_unsigned(),
        Unary::ShiftLeft(by) => x.checked_shl(by.into()).unwrap_or(0),
        Unary::ShiftRight(by) => x.checked_shr(by.into()).unwrap_or(0),
        Unary::ShiftRightSigned(by) => (x.cast_signed() >> u32::from(by).min(63)).cast_unsigned(),
        Unary::SingleF => f64::from(float(x) as f32).to_bits(),
    }
}

/// Computes an operation on two lanes.
///
/// # Panics
///
/// For [`Binary::ScaleF`], which lanes of 64 bits do not have.
#[inline]
#[must_use]
pub fn binary(op: Binary, x: u64, y: u64) -> u64 {
    let (a, b) = (float(x), float(y));
    let (i, j) = (x.cast_signed(), y.cast_signed());
    let by = u32::try_from(y).unwrap_or(u32::MAX);
    match op {
        Binary::AddF => (a + b).to_bits(),
        Binary::SubF => (a - b).to_bits(),
        Binary::MulF => (a * b).to_bits(),
        Binary::DivF => (a / b).to_bits(),
        Binary::ScaleF => unreachable!("lanes of 64 bits scale by products"),
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
        Binary::DotHalves => unreachable!("lanes of 64 bits have whole products"),
        Binary::MinI => i.min(j).cast_unsigned(),
        Binary::MaxI => i.max(j).cast_unsigned(),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::ShiftLeftBy => x.checked_shl(by).unwrap_or(0),
        Binary::ShiftRightBy => x.checked_shr(by).unwrap_or(0),
        Binary::ShiftRightSignedBy => (i >> by.min(63)).cast_unsigned(),
    }
}

/// Computes `a * b + c`, rounded once.
#[inline]
#[must_use]
pub fn fma(a: u64, b: u64, c: u64) -> u64 {
    float(a).mul_add(float(b), float(c)).to_bits()
}

/// Compares two lanes.
#[inline]
#[must_use]
pub fn compare(op: Compare, x: u64, y: u64) -> u64 {
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
