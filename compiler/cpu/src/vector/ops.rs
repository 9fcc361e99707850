//! Semantics of lane-wise operations, on one 32-bit lane: for constant folding and the interpreter.
//!
//! Functions of floats are `libm`'s, so that every machine folds to the same code.

use super::{VectorBinary, VectorCompare, VectorUnary};

/// Bits of a lane that is true.
pub(crate) const TRUE: u32 = u32::MAX;
/// Bits of a lane that is false.
pub(crate) const FALSE: u32 = 0;

/// Makes a truth value: all bits, or none.
pub(crate) fn truth(holds: bool) -> u32 {
    if holds { TRUE } else { FALSE }
}

pub(crate) fn is_finite(bits: u32) -> bool {
    float(bits).is_finite()
}

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// Converts as x86 does: values out of range become `i32::MIN`.
fn truncate(value: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 } else { i32::MIN }
}

pub(crate) fn unary(op: VectorUnary, x: u32) -> u32 {
    match op {
        VectorUnary::SqrtF => libm::sqrtf(float(x)).to_bits(),
        VectorUnary::RoundF => libm::rintf(float(x)).to_bits(),
        VectorUnary::FloorF => libm::floorf(float(x)).to_bits(),
        VectorUnary::CeilF => libm::ceilf(float(x)).to_bits(),
        VectorUnary::IntToFloat => (x.cast_signed() as f32).to_bits(),
        VectorUnary::FloatToInt => truncate(float(x)).cast_unsigned(),
        VectorUnary::ShiftLeft(by) => x.checked_shl(by.into()).unwrap_or(0),
        VectorUnary::ShiftRight(by) => x.checked_shr(by.into()).unwrap_or(0),
        VectorUnary::ShiftRightSigned(by) => {
            (x.cast_signed() >> u32::from(by).min(31)).cast_unsigned()
        }
    }
}

pub(crate) fn binary(op: VectorBinary, x: u32, y: u32) -> u32 {
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
        y => {
            let exponent = f64::from(libm::floorf(y).clamp(-1000.0, 1000.0));
            return (f64::from(x) * libm::exp2(exponent)) as f32;
        }
    };
    x * power
}

pub(crate) fn fma(a: u32, b: u32, c: u32) -> u32 {
    float(a).mul_add(float(b), float(c)).to_bits()
}

pub(crate) fn compare(op: VectorCompare, x: u32, y: u32) -> u32 {
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
