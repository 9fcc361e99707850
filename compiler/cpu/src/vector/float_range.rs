//! Ranges of floats that follow from indices, as places between pixels do: `floor(p as f32 * 0.5) as i64`.
//!
//! A conversion of such a float is an integer that fits 32 bits, where one of any float takes 64.

use super::context::Lowering;
use super::tree::{Term, TermKind};
use tvmtune_ir::dag::{BinaryOp, DType, UnaryOp};
use tvmtune_ir::poly::Interval;

/// A range that rounding widens by this share of its largest number holds results of `f32`.
const ROUNDING: f64 = 1e-6;
/// Smaller numbers may be rounded to 0.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;
/// Larger numbers are not followed: they may be rounded to infinities, of which there are NaNs.
const LARGEST: f64 = 1e15;

/// The numbers from `lo` to `hi`; no NaN is one of them.
#[derive(Clone, Copy)]
struct FloatRange {
    lo: f64,
    hi: f64,
}

impl FloatRange {
    fn of(ends: &[f64]) -> Self {
        let lo = ends.iter().copied().fold(f64::INFINITY, f64::min);
        Self { lo, hi: ends.iter().copied().fold(f64::NEG_INFINITY, f64::max) }
    }

    fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self::of(&[f(self.lo), f(self.hi)])
    }

    /// Returns the results of a monotone operation of a number of each.
    fn with(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let (a, b) = (self, other);
        Self::of(&[f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)])
    }

    fn rounded(self) -> Option<Self> {
        let by = self.lo.abs().max(self.hi.abs()) * ROUNDING + SMALLEST;
        let found = Self { lo: self.lo - by, hi: self.hi + by };
        (-LARGEST < found.lo && found.hi < LARGEST).then_some(found)
    }
}

impl Lowering<'_> {
    /// Returns the integers that a float is converted to, if its range follows from indices.
    pub(super) fn converted_range(&self, float: &Term) -> Option<Interval> {
        let FloatRange { lo, hi } = self.float_range(float)?;
        Some(Interval { lo: lo.floor() as i64, hi: hi.ceil() as i64 })
    }

    fn float_range(&self, term: &Term) -> Option<FloatRange> {
        if !matches!(term.dtype, DType::F32 | DType::F64) {
            return None;
        }
        let range = |it: &Term| self.float_range(it);
        match &term.kind {
            TermKind::Bits(bits) => {
                let number = match self.is_long() {
                    true => f64::from_bits(*bits),
                    false => f64::from(f32::from_bits(*bits as u32)),
                };
                FloatRange::of(&[number]).rounded()
            }
            TermKind::Cast(a) if a.dtype.is_integer() => {
                let Interval { lo, hi } = self.range_of(a);
                FloatRange { lo: lo as f64, hi: hi as f64 }.rounded()
            }
            TermKind::Cast(a) => range(a)?.rounded(),
            TermKind::Unary(UnaryOp::Floor, a) => Some(range(a)?.map(f64::floor)),
            TermKind::Unary(UnaryOp::Ceil, a) => Some(range(a)?.map(f64::ceil)),
            TermKind::Unary(UnaryOp::Neg, a) => Some(range(a)?.map(|it| -it)),
            TermKind::Binary(op, a, b) => {
                let (a, b) = (range(a)?, range(b)?);
                match op {
                    BinaryOp::Add => a.with(b, |a, b| a + b).rounded(),
                    BinaryOp::Sub => a.with(b, |a, b| a - b).rounded(),
                    BinaryOp::Mul => a.with(b, |a, b| a * b).rounded(),
                    BinaryOp::Min => Some(a.with(b, f64::min)),
                    BinaryOp::Max => Some(a.with(b, f64::max)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
