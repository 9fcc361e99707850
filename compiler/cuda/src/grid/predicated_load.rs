//! Predicated loads: values that are an element, or zero where a condition fails.

use tvmtune_ir::dag::{Expr, Literal, Subscript, TensorId};

/// An element as it is; zero where a condition fails.
#[derive(Clone, Debug)]
pub struct PredicatedLoad<'e> {
    /// The tensor it is read from.
    pub tensor: TensorId,
    /// The element.
    pub index: &'e [Subscript],
    /// All of these must hold.
    pub conditions: Vec<&'e Expr>,
}

/// Returns the load that a value is, if it is one.
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
