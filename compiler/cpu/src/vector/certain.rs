//! Elements that a statement accesses whatever its choices are: `x[i]` in `if x[i] > 0 { x[i] } else { a * x[i] }`.
//!
//! They are in bounds wherever the statement runs. So reads of them in branches take no mask, and are the same
//! load.

use tvmtune_ir::dag::{BinaryOp, Expr, Subscript, TensorId};
use tvmtune_ir::poly::Poly;

/// Elements that are in bounds wherever a statement runs.
#[derive(Default)]
pub(super) struct Certain {
    reads: Vec<(TensorId, Vec<Subscript>)>,
    /// The element that the statement writes, of a tensor of that shape.
    written: (Vec<Poly>, Vec<Poly>),
}

impl Certain {
    /// Returns those of a statement that writes a value to a place in a tensor of that shape.
    pub(super) fn of(value: &Expr, index: &[Poly], shape: &[Poly]) -> Self {
        let mut reads = Vec::new();
        collect(value, &mut reads);
        Self { reads, written: (index.to_vec(), shape.to_vec()) }
    }

    /// Returns whether an element of a tensor of that shape is one of them.
    pub(super) fn contains(&self, tensor: TensorId, index: &[Subscript], shape: &[Poly]) -> bool {
        let (place, extents) = &self.written;
        let is_written = || {
            extents == shape
                && index.len() == place.len()
                && index.iter().zip(place).all(|(a, b)| a.affine() == Some(b))
        };
        is_written() || self.reads.iter().any(|it| it.0 == tensor && it.1 == index)
    }
}

fn collect(expr: &Expr, found: &mut Vec<(TensorId, Vec<Subscript>)>) {
    match expr {
        Expr::Select { condition, .. } => collect(condition, found),
        Expr::Binary(BinaryOp::And | BinaryOp::Or, a, _) => collect(a, found),
        Expr::Read { tensor, index } => {
            found.push((*tensor, index.clone()));
            expr.children().into_iter().for_each(|it| collect(it, found));
        }
        _ => expr.children().into_iter().for_each(|it| collect(it, found)),
    }
}
