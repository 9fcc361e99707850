//! Values that are copies of an element, or zero where conditions do not hold.

use tvmtune_ir::dag::{Expr, Literal, Subscript, TensorId};

/// An element that is copied as it is; where a condition does not hold, zero.
#[derive(Clone, Debug)]
pub struct PredicatedLoad<'e> {
    /// The tensor it is read from.
    pub tensor: TensorId,
    /// Where.
    pub index: &'e [Subscript],
    /// All of these must hold.
    pub conditions: Vec<&'e Expr>,
}

/// What a value copies, if it is a copy.
pub fn predicated_load(value: &Expr) -> Option<PredicatedLoad<'_>> {
    match value {
        Expr::Read { tensor, index } => {
            Some(PredicatedLoad { tensor: *tensor, index, conditions: Vec::new() })
        }
        Expr::Select { condition, then, otherwise } => {
            let is_zero = match **otherwise {
                Expr::Const(Literal::Float(it), _) => it == 0.0 && it.is_sign_positive(),
                Expr::Const(Literal::Int(it), _) => it == 0,
                _ => false,
            };
            let mut inner = predicated_load(then).filter(|_| is_zero)?;
            inner.conditions.push(condition);
            Some(inner)
        }
        _ => None,
    }
}
