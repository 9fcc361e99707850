//! Semantics of lane-wise operations, on one 32-bit lane.

use crate::vector::{VectorBinary, VectorCompare, VectorUnary};

use super::FaultKind;

/// One word for each lane; lanes beyond the width of the instruction set are unused.
pub(super) type Vector = [u32; 16];

/// Makes a truth value: all bits, or none.
pub(super) fn truth(holds: bool) -> u32 {
    if holds { u32::MAX } else { 0 }
}

/// Reads a truth value; anything but all bits or none is a fault.
pub(super) fn is_true(bits: u32) -> Result<bool, FaultKind> {
    match bits {
        0 => Ok(false),
        u32::MAX => Ok(true),
        _ => Err(FaultKind::NotATruthValue { bits }),
    }
}

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// Converts as x86 does: values out of range become `i32::MIN`.
fn truncate(value: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 } else { i32::MIN }
}

pub(super) fn unary(op: VectorUnary, x: u32) -> u32 {
    match op {
        VectorUnary::SqrtF => float(x).sqrt().to_bits(),
        VectorUnary::RoundF => float(x).round_ties_even().to_bits(),
        VectorUnary::FloorF => float(x).floor().to_bits(),
        VectorUnary::CeilF => float(x).ceil().to_bits(),
        VectorUnary::IntToFloat => (x.cast_signed() as f32).to_bits(),
        VectorUnary::FloatToInt => truncate(float(x)).cast_unsigned(),
        VectorUnary::ShiftLeft(by) => x.checked_shl(by.into()).unwrap_or(0),
        VectorUnary::ShiftRight(by) => x.checked_shr(by.into()).unwrap_or(0),
        VectorUnary::ShiftRightSigned(by) => {
            (x.cast_signed() >> u32::from(by).min(31)).cast_unsigned()
        }
    }
}

pub(super) fn binary(op: VectorBinary, x: u32, y: u32) -> u32 {
    let (a, b) = (float(x), float(y));
    let (i, j) = (x.cast_signed(), y.cast_signed());
    match op {
        VectorBinary::AddF => (a + b).to_bits(),
        VectorBinary::SubF => (a - b).to_bits(),
        VectorBinary::MulF => (a * b).to_bits(),
        VectorBinary::DivF => (a / b).to_bits(),
        VectorBinary::ScaleF => scaled(a, b).to_bits(),
        VectorBinary::MinF => {
            if a < b {
                x
            } else {
                y
            }
        }
        VectorBinary::MaxF => {
            if a > b {
                x
            } else {
                y
            }
        }
        VectorBinary::AddI => i.wrapping_add(j).cast_unsigned(),
        VectorBinary::SubI => i.wrapping_sub(j).cast_unsigned(),
        VectorBinary::MulI => i.wrapping_mul(j).cast_unsigned(),
        VectorBinary::MinI => i.min(j).cast_unsigned(),
        VectorBinary::MaxI => i.max(j).cast_unsigned(),
        VectorBinary::And => x & y,
        VectorBinary::Or => x | y,
        VectorBinary::Xor => x ^ y,
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
        // Exact in double precision, where no such power is out of range.
        y => return (f64::from(x) * f64::from(y.floor().clamp(-1000.0, 1000.0)).exp2()) as f32,
    };
    x * power
}

pub(super) fn fma(a: u32, b: u32, c: u32) -> u32 {
    float(a).mul_add(float(b), float(c)).to_bits()
}

pub(super) fn compare(op: VectorCompare, x: u32, y: u32) -> u32 {
    let (a, b) = (float(x), float(y));
    truth(match op {
        VectorCompare::LtF => a < b,
        VectorCompare::LeF => a <= b,
        VectorCompare::EqF => a == b,
        VectorCompare::NeF => a != b,
        VectorCompare::LtI => x.cast_signed() < y.cast_signed(),
        VectorCompare::EqI => x == y,
    })
}
