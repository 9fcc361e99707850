//! Integer expressions of constants: what can be evaluated without a compiler.

use syn::{BinOp, Expr, Lit, UnOp};

/// The value of a constant, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    Literal(i128),
    /// Another constant.
    Path(Vec<String>),
    Negated(Box<Integer>),
    Binary(Operation, Box<(Integer, Integer)>),
    /// Converted to an integer type of that many bits.
    Cast(Box<Integer>, u32, Sign),
    /// None of these: a call, a macro, a float ..
    Opaque,
}

/// An operation on two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Signed,
    Unsigned,
}

impl Integer {
    pub(super) fn read(expr: &Expr) -> Self {
        Self::parse(expr).unwrap_or(Self::Opaque)
    }

    fn parse(expr: &Expr) -> Option<Self> {
        Some(match expr {
            Expr::Lit(it) => match &it.lit {
                Lit::Int(it) => Self::Literal(it.base10_digits().parse().ok()?),
                _ => return None,
            },
            Expr::Paren(it) => return Self::parse(&it.expr),
            Expr::Group(it) => return Self::parse(&it.expr),
            Expr::Path(it) if it.qself.is_none() => Self::Path(segments(&it.path)?),
            Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) => {
                Self::Negated(Box::new(Self::parse(&it.expr)?))
            }
            Expr::Binary(it) => {
                let sides = (Self::parse(&it.left)?, Self::parse(&it.right)?);
                Self::Binary(Operation::of(&it.op)?, Box::new(sides))
            }
            Expr::Cast(it) => {
                let syn::Type::Path(ty) = &*it.ty else { return None };
                let name = ty.path.get_ident()?.to_string();
                let sign = if name.starts_with('u') { Sign::Unsigned } else { Sign::Signed };
                let bits = match name.get(1..)? {
                    _ if !name.starts_with(['u', 'i']) => return None,
                    // Where it is another width, the compiler's check says so.
                    "size" => 64,
                    bits => bits.parse().ok()?,
                };
                Self::Cast(Box::new(Self::parse(&it.expr)?), bits, sign)
            }
            _ => return None,
        })
    }
}

impl Operation {
    fn of(op: &BinOp) -> Option<Self> {
        Some(match op {
            BinOp::Add(_) => Self::Add,
            BinOp::Sub(_) => Self::Subtract,
            BinOp::Mul(_) => Self::Multiply,
            BinOp::Div(_) => Self::Divide,
            BinOp::Rem(_) => Self::Remainder,
            BinOp::Shl(_) => Self::ShiftLeft,
            BinOp::Shr(_) => Self::ShiftRight,
            BinOp::BitAnd(_) => Self::And,
            BinOp::BitOr(_) => Self::Or,
            BinOp::BitXor(_) => Self::Xor,
            _ => return None,
        })
    }

    /// `None` where the compiler refuses it.
    pub(super) fn apply(self, a: i128, b: i128) -> Option<i128> {
        let shift = || u32::try_from(b).ok().filter(|it| *it < 64);
        match self {
            Self::Add => a.checked_add(b),
            Self::Subtract => a.checked_sub(b),
            Self::Multiply => a.checked_mul(b),
            Self::Divide => a.checked_div(b),
            Self::Remainder => a.checked_rem(b),
            Self::ShiftLeft => a.checked_mul(1 << shift()?),
            Self::ShiftRight => Some(a >> shift()?),
            Self::And => Some(a & b),
            Self::Or => Some(a | b),
            Self::Xor => Some(a ^ b),
        }
    }
}

/// Converts as `as` does.
pub(super) fn cast(value: i128, bits: u32, sign: Sign) -> Option<i128> {
    if !matches!(bits, 8 | 16 | 32 | 64) {
        return None;
    }
    let low = value & ((1 << bits) - 1);
    let is_negative = sign == Sign::Signed && low >> (bits - 1) == 1;
    Some(if is_negative { low - (1 << bits) } else { low })
}

/// The names of a path without arguments; the first is empty if it begins with `::`.
pub(super) fn segments(path: &syn::Path) -> Option<Vec<String>> {
    let mut names = Vec::new();
    if path.leading_colon.is_some() {
        names.push(String::new());
    }
    for it in &path.segments {
        if !it.arguments.is_none() {
            return None;
        }
        names.push(it.ident.to_string());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_wrap_as_the_compiler_has_it() {
        let cases = [300, -1, 255, 128, 1 << 40, -(1 << 63)];
        for value in cases {
            assert_eq!(cast(value, 8, Sign::Unsigned), Some((value as u8).into()));
            assert_eq!(cast(value, 8, Sign::Signed), Some((value as i8).into()));
            assert_eq!(cast(value, 64, Sign::Unsigned), Some((value as u64).into()));
        }
    }

    #[test]
    fn what_no_arithmetic_defines_is_opaque() {
        for text in ["f(3)", "usize::MAX.min(3)", "2.0", "size_of::<u8>()", "A.0", "!3", "3 as T"] {
            assert_eq!(Integer::read(&syn::parse_str(text).unwrap()), Integer::Opaque, "{text}");
        }
    }

    #[test]
    fn operations_that_overflow_have_no_value() {
        assert_eq!(Operation::Divide.apply(1, 0), None);
        assert_eq!(Operation::ShiftLeft.apply(1, 64), None);
        assert_eq!(Operation::Multiply.apply(i128::MAX, 2), None);
        assert_eq!(Operation::ShiftRight.apply(-5, 1), Some(-3));
    }
}
