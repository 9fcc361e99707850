//! Operations on the bits of integers: `& | ^ << >>`, and `!`.

use super::elaborate::Elaborator;
use super::errors::Location;
use super::value::{Kind, Value, unify};
use crate::dag::limits::MAX_INDEX;
use crate::dag::{BinaryOp, DType, UnaryOp};

const OF_INDEX: &str = "indices have no bits of their own: convert them first, as in `i as i32`";

impl Elaborator {
    /// Elaborates `a op b` on the bits of integers.
    pub(super) fn bits(
        &mut self,
        op: BinaryOp,
        syntax: &syn::ExprBinary,
        a: &Value,
        b: &Value,
    ) -> Option<Value> {
        let sides = [a, b];
        if sides.iter().any(|it| it.default_type() == DType::Bool) {
            let message = match op {
                BinaryOp::BitAnd => "for conditions, write `&&`",
                BinaryOp::BitOr => "for conditions, write `||`",
                BinaryOp::BitXor => "for conditions, write `!=`",
                _ => "integers have bits to shift, and conditions have none",
            };
            return self.errors.at(syntax.op, message);
        }
        let location = Location::of(&syntax);
        if let Some(index) = sides.iter().find(|it| matches!(it.kind, Kind::Index(_))) {
            return self.errors.at_location(index.location, OF_INDEX);
        }
        if let Some(float) = sides.iter().find(|it| it.default_type().is_float()) {
            let found = float.type_name();
            let message =
                format!("integers have bits, and this is {found}: convert it with `as i32`");
            return self.errors.at_location(float.location, message);
        }
        let kind = match (&a.kind, &b.kind) {
            (Kind::Integer(a), Kind::Integer(b)) => {
                let Some(value) = of_literals(op, *a, *b) else {
                    let message = "this integer is out of range: write the type of a side behind it, \
                                   as in `1_i64`";
                    return self.errors.at_location(location, message);
                };
                Kind::Integer(value)
            }
            _ => {
                let (a, b, dtype) = unify(a, b, &mut self.errors)?;
                Kind::Typed(a.binary(op, b), dtype)
            }
        };
        Value::of_parts(kind, location, &sides, &mut self.errors)
    }

    /// Elaborates `!value` of an integer.
    pub(super) fn complement(&mut self, value: &Value, location: Location) -> Option<Value> {
        let kind = match &value.kind {
            Kind::Integer(it) => Kind::Integer(!it),
            Kind::Index(_) => return self.errors.at_location(location, OF_INDEX),
            _ => {
                let (expr, dtype) = value.widened(&mut self.errors)?;
                Kind::Typed(expr.unary(UnaryOp::Not), dtype)
            }
        };
        Value::of_parts(kind, location, &[value], &mut self.errors)
    }
}

/// Computes `a op b` of literals, which have all the bits that they need; nothing beyond the largest
/// literal.
fn of_literals(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    let amount = u32::try_from(b).ok().filter(|it| *it < i64::BITS);
    let value = match op {
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Shl => i64::try_from(i128::from(a) << amount?).ok()?,
        _ => a >> amount?,
    };
    (value.unsigned_abs() <= MAX_INDEX.unsigned_abs()).then_some(value)
}
