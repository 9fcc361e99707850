//! Values of element types, and the semantics of each operation of [`Expr`](crate::dag::Expr).
//!
//! Arithmetic is Rust's, in the operation's type. Floats are held as `f64`: an operation on `f32`
//! operands done in `f64` and rounded once is exactly the `f32` operation, since `f64` has more than
//! twice the digits.

use std::cmp::Ordering;

use crate::dag::{BinaryOp, CompareOp, DType, Literal, UnaryOp, integer_range};
use crate::half::{Bf16, F16};

/// A value of any element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of a floating-point type.
    Float(f64),
    /// Of an integer type.
    Int(i64),
    /// Of type `bool`.
    Bool(bool),
}

/// The value of type `dtype` nearest to `value`, ties to even.
pub fn round(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 => F16::from_f64(value).to_f64(),
        DType::Bf16 => Bf16::from_f64(value).to_f64(),
        _ => value,
    }
}

/// The value of type `dtype` that is congruent to `value`: the result of wrapping arithmetic.
pub fn wrap(value: i64, dtype: DType) -> i64 {
    match dtype {
        DType::I8 => i64::from(value as i8),
        DType::U8 => i64::from(value as u8),
        DType::I32 => i64::from(value as i32),
        DType::U32 => i64::from(value as u32),
        _ => value,
    }
}

/// `op(x)` on floats, before rounding to the type.
pub fn float_unary(op: UnaryOp, x: f64, dtype: DType) -> f64 {
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Not => unreachable!("`!` applies to bool and integers only"),
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / round(x.sqrt(), dtype),
        UnaryOp::Exp => libm::exp(x),
        UnaryOp::Ln => libm::log(x),
        UnaryOp::Exp2 => libm::exp2(x),
        UnaryOp::Log2 => libm::log2(x),
        UnaryOp::ExpM1 => libm::expm1(x),
        UnaryOp::Ln1p => libm::log1p(x),
        UnaryOp::Tanh => libm::tanh(x),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::Sin => libm::sin(x),
        UnaryOp::Cos => libm::cos(x),
        UnaryOp::Atan => libm::atan(x),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Tf32 => f64::from(tf32(x as f32)),
    }
}

/// See [`UnaryOp::Tf32`]. A carry out of the largest numbers makes them infinite.
fn tf32(x: f32) -> f32 {
    let bits = x.to_bits();
    if x.is_nan() { x } else { f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff) }
}

/// `op(a, b)` on floats, before rounding to the type.
pub fn float_binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Rem => a % b,
        // Of a number and a NaN the number, of equal numbers the second.
        BinaryOp::Min if a < b || b.is_nan() => a,
        BinaryOp::Max if a > b || b.is_nan() => a,
        BinaryOp::Min | BinaryOp::Max => b,
        BinaryOp::Pow => libm::pow(a, b),
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr => unreachable!("{op:?} does not apply to floats"),
    }
}

/// `op(x)` on integers, before wrapping to the type.
pub fn int_unary(op: UnaryOp, x: i64) -> i64 {
    match op {
        UnaryOp::Neg => x.wrapping_neg(),
        UnaryOp::Not => !x,
        UnaryOp::Abs => x.wrapping_abs(),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round => x,
        _ => unreachable!("{op:?} does not apply to integers"),
    }
}

/// `op(a, b)` on integers of a type, before wrapping to it.
pub fn int_binary(op: BinaryOp, a: i64, b: i64, dtype: DType) -> i64 {
    // Of a negative amount, the lowest bits count as well.
    let amount = || (b & (8 * dtype.bytes() as i64 - 1)) as u32;
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div if b == 0 => 0,
        BinaryOp::Div => a.wrapping_div(b),
        BinaryOp::Rem if b == 0 => 0,
        BinaryOp::Rem => a.wrapping_rem(b),
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Shl => a << amount(),
        BinaryOp::Shr => a >> amount(),
        BinaryOp::Pow | BinaryOp::And | BinaryOp::Or => {
            unreachable!("{op:?} does not apply to integers")
        }
    }
}

/// `op(a, b)` on truth values; `Min` and `Max` take false as the smaller.
pub fn bool_binary(op: BinaryOp, a: bool, b: bool) -> bool {
    match op {
        BinaryOp::And | BinaryOp::Min => a && b,
        BinaryOp::Or | BinaryOp::Max => a || b,
        _ => unreachable!("{op:?} does not apply to bool"),
    }
}

/// Returns whether a comparison of two values of that ordering holds; the ordering with a NaN is `None`.
pub fn holds(op: CompareOp, ordering: Option<Ordering>) -> bool {
    match op {
        CompareOp::Lt => ordering == Some(Ordering::Less),
        CompareOp::Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        CompareOp::Eq => ordering == Some(Ordering::Equal),
        CompareOp::Ne => ordering != Some(Ordering::Equal),
        CompareOp::Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        CompareOp::Gt => ordering == Some(Ordering::Greater),
    }
}

impl Number {
    /// The literal `value` as a value of type `dtype`.
    pub fn literal(value: Literal, dtype: DType) -> Self {
        match value {
            Literal::Float(it) => Number::Float(it).cast(dtype),
            Literal::Int(it) => Number::Int(it).cast(dtype),
            Literal::Bool(it) => Number::Bool(it).cast(dtype),
        }
    }

    /// `op(self)`, of type `dtype`.
    pub fn unary(self, op: UnaryOp, dtype: DType) -> Self {
        match self {
            Number::Float(x) => Number::Float(round(float_unary(op, x, dtype), dtype)),
            Number::Int(x) => Number::Int(wrap(int_unary(op, x), dtype)),
            Number::Bool(x) => Number::Bool(!x),
        }
    }

    /// `op(self, other)`, both of type `dtype`.
    pub fn binary(self, op: BinaryOp, other: Number, dtype: DType) -> Self {
        match (self, other) {
            (Number::Float(a), Number::Float(b)) => {
                Number::Float(round(float_binary(op, a, b), dtype))
            }
            (Number::Int(a), Number::Int(b)) => {
                Number::Int(wrap(int_binary(op, a, b, dtype), dtype))
            }
            (Number::Bool(a), Number::Bool(b)) => Number::Bool(bool_binary(op, a, b)),
            _ => unreachable!("{op:?} of values of two types"),
        }
    }

    /// Returns whether `self op other` holds; both of one type.
    pub fn compare(self, op: CompareOp, other: Number) -> bool {
        let ordering = match (self, other) {
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (Number::Bool(a), Number::Bool(b)) => Some(a.cmp(&b)),
            _ => unreachable!("{op:?} of values of two types"),
        };
        holds(op, ordering)
    }

    /// The value as Rust's `as` converts it; truth values become 0 and 1.
    pub fn cast(self, to: DType) -> Self {
        match self {
            Number::Float(x) if to.is_float() => Number::Float(round(x, to)),
            Number::Float(x) if to.is_integer() => {
                let range = integer_range(to);
                Number::Int((x as i64).clamp(range.lo, range.hi))
            }
            Number::Float(x) => Number::Bool(x != 0.0),
            // Straight to `f32`, since a stop at `f64` would round twice.
            Number::Int(x) if to == DType::F32 => Number::Float(f64::from(x as f32)),
            Number::Int(x) if to.is_float() => Number::Float(round(x as f64, to)),
            Number::Int(x) if to.is_integer() => Number::Int(wrap(x, to)),
            Number::Int(x) => Number::Bool(x != 0),
            Number::Bool(x) if to == DType::Bool => Number::Bool(x),
            Number::Bool(x) if to.is_float() => Number::Float(f64::from(u8::from(x))),
            Number::Bool(x) => Number::Int(i64::from(x)),
        }
    }

    /// The value as a float, whatever its type.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Float(x) => x,
            Number::Int(x) => x as f64,
            Number::Bool(x) => f64::from(u8::from(x)),
        }
    }

    /// The value as an integer, whatever its type; floats saturate.
    pub fn to_i64(self) -> i64 {
        match self {
            Number::Float(x) => x as i64,
            Number::Int(x) => x,
            Number::Bool(x) => i64::from(x),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_dividing_by_zero_gives_zero() {
        let i = Number::Int;
        assert_eq!(i(127).binary(BinaryOp::Add, i(1), DType::I8), i(-128));
        assert_eq!(i(255).binary(BinaryOp::Mul, i(2), DType::U8), i(254));
        assert_eq!(i(0).binary(BinaryOp::Sub, i(1), DType::U32), i(u32::MAX.into()));
        assert_eq!(i(u32::MAX.into()).binary(BinaryOp::Div, i(2), DType::U32), i(i32::MAX.into()));
        assert_eq!(i(1).unary(UnaryOp::Neg, DType::U32), i(u32::MAX.into()));
        assert_eq!(i(-7).binary(BinaryOp::Div, i(2), DType::I32), i(-3));
        assert_eq!(i(-7).binary(BinaryOp::Rem, i(2), DType::I32), i(-1));
        assert_eq!(i(5).binary(BinaryOp::Div, i(0), DType::I32), i(0));
        let least = i(i32::MIN.into());
        assert_eq!(least.binary(BinaryOp::Div, i(-1), DType::I32), least);
        assert_eq!(i(i64::MIN).unary(UnaryOp::Abs, DType::I64), i(i64::MIN));
    }

    #[test]
    fn bits_are_those_of_the_type_and_shifts_are_modulo_them() {
        let i = Number::Int;
        let check = |op, a, b, dtype, want| assert_eq!(i(a).binary(op, i(b), dtype), i(want));
        check(BinaryOp::Shl, 0x81, 1, DType::U8, 2);
        check(BinaryOp::Shl, 1, 7, DType::I8, -128);
        check(BinaryOp::Shl, 1, 9, DType::I8, 2);
        check(BinaryOp::Shl, 3, -1, DType::I32, i32::MIN.into());
        check(BinaryOp::Shl, 1, 63, DType::I64, i64::MIN);
        check(BinaryOp::Shl, 1, 64, DType::I64, 1);
        check(BinaryOp::Shr, -128, 7, DType::I8, -1);
        check(BinaryOp::Shr, 128, 7, DType::U8, 1);
        check(BinaryOp::Shr, u32::MAX.into(), 28, DType::U32, 15);
        check(BinaryOp::Shr, -16, 34, DType::I32, -4);
        check(BinaryOp::BitAnd, -1, 0x7f, DType::I8, 0x7f);
        check(BinaryOp::BitOr, -128, 1, DType::I8, -127);
        check(BinaryOp::BitXor, u32::MAX.into(), 1, DType::U32, i64::from(u32::MAX) - 1);
        assert_eq!(i(1).unary(UnaryOp::Not, DType::U32), i(i64::from(u32::MAX) - 1));
        assert_eq!(i(-128).unary(UnaryOp::Not, DType::I8), i(127));
    }

    #[test]
    fn casts_saturate_as_rust_does() {
        for x in [f64::NAN, f64::INFINITY, -1e30, 300.7, -3.9, 0.5] {
            let x32 = x as f32;
            assert_eq!(Number::Float(x).cast(DType::I8), Number::Int((x32 as i8).into()));
            assert_eq!(Number::Float(x).cast(DType::U8), Number::Int((x32 as u8).into()));
            assert_eq!(Number::Float(x).cast(DType::I32), Number::Int((x32 as i32).into()));
            assert_eq!(Number::Float(x).cast(DType::U32), Number::Int((x32 as u32).into()));
            assert_eq!(Number::Float(x).cast(DType::I64), Number::Int(x32 as i64));
        }
        let big = (1 << 60) + 1;
        assert_eq!(Number::Int(big).cast(DType::F32), Number::Float(f64::from(big as f32)));
        assert_eq!(Number::Int(257).cast(DType::U8), Number::Int(1));
    }

    #[test]
    fn small_floats_are_rounded_once_by_all_digits() {
        // Just above a tie, below one, and ties.
        let tie = 1.0 + 2_f64.powi(-11);
        for (x, want) in [
            (tie, 1.0),
            (tie + 2_f64.powi(-23), 1.0 + 2_f64.powi(-10)),
            (tie + 2_f64.powi(-50), 1.0 + 2_f64.powi(-10)),
            (tie - 2_f64.powi(-50), 1.0),
            (3.0 * tie - 2.0, 1.0 + 2_f64.powi(-9)),
            (-tie - 2_f64.powi(-40), -1.0 - 2_f64.powi(-10)),
            (2_f64.powi(-25), 0.0),
            (2_f64.powi(-25) * (1.0 + 1e-15), 2_f64.powi(-24)),
            (65_519.999_999, 65_504.0),
            (65_520.0, f64::INFINITY),
            (1e-60, 0.0),
        ] {
            assert_eq!(round(x, DType::F16), want, "{x:e}");
        }
        let tie = 1.0 + 2_f64.powi(-8);
        assert_eq!(round(tie, DType::Bf16), 1.0);
        assert_eq!(round(tie + 2_f64.powi(-45), DType::Bf16), 1.0 + 2_f64.powi(-7));
        assert_eq!(round(1e300, DType::Bf16), f64::INFINITY);
        assert!(round(f64::NAN, DType::F16).is_nan());
        assert_eq!(round(-0.0, DType::F16).to_bits(), (-0.0_f64).to_bits());
        for bits in 0..=u16::MAX {
            let x = F16::from_bits(bits).to_f64();
            assert!(round(x, DType::F16) == x || x.is_nan());
        }
    }

    #[test]
    fn arithmetic_in_f32_is_that_of_the_machine() {
        let values = [0.1f32, -3.7, 1e-38, 1e38, 7.0, 1.0 / 3.0];
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
            let (x, y) = (Number::Float(a.into()), Number::Float(b.into()));
            for (op, want) in [
                (BinaryOp::Add, a + b),
                (BinaryOp::Mul, a * b),
                (BinaryOp::Div, a / b),
                (BinaryOp::Rem, a % b),
            ] {
                assert_eq!(
                    x.binary(op, y, DType::F32),
                    Number::Float(want.into()),
                    "{a} {op:?} {b}"
                );
            }
        }
    }

    #[test]
    fn the_smaller_of_a_number_and_a_nan_is_the_number() {
        let (one, nan) = (Number::Float(1.0), Number::Float(f64::NAN));
        assert_eq!(nan.binary(BinaryOp::Min, one, DType::F32), one);
        assert_eq!(one.binary(BinaryOp::Max, nan, DType::F32), one);
        assert!(nan.compare(CompareOp::Ne, nan) && !nan.compare(CompareOp::Le, one));
    }
}
