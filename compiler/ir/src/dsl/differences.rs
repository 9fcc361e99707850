//! Differences that are never negative: `a.abs_diff(b)` and `a.saturating_sub(b)`.

use super::elaborate::Elaborator;
use super::errors::Location;
use super::value::{Value, unify};
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Literal};

impl Elaborator {
    /// The difference of two indices, or of two integers without a sign.
    pub(super) fn difference(
        &mut self,
        name: &str,
        a: &Value,
        b: &Value,
        location: Location,
    ) -> Option<Value> {
        let (left, right, dtype) = match (a.as_index(), b.as_index()) {
            (Some(_), Some(_)) if name == "saturating_sub" => {
                let greater = self.arithmetic(BinaryOp::Max, a, b, location)?;
                return self.arithmetic(BinaryOp::Sub, &greater, b, location);
            }
            // Compared as indices, so that the difference is proven to be one.
            (Some(a), Some(b)) => (Expr::Index(a), Expr::Index(b), DType::I64),
            _ => {
                let sides = unify(a, b, &mut self.errors)?;
                if !matches!(sides.2, DType::U8 | DType::U32) {
                    let message =
                        format!("`{name}` is of indices, `u8` and `u32`: write it with an `if`");
                    return self.errors.at_location(location, message);
                }
                sides
            }
        };
        let minus = |a: &Expr, b: &Expr| a.clone().binary(BinaryOp::Sub, b.clone());
        let otherwise = match name {
            "abs_diff" => minus(&right, &left),
            _ => Expr::Const(Literal::Int(0), dtype),
        };
        let is_least = right.clone().compare(CompareOp::Le, left.clone());
        let value = is_least.select(minus(&left, &right), otherwise);
        self.typed_value(value, dtype, location, &[a, b, a, b, a, b])
    }
}
