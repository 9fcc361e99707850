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

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dag::CompareOp;
    use tvmtune_ir::poly::VarId;

    /// Returns which of `x[i]`, `x[i + 1]` and `x[i + 2]` a value surely reads.
    fn certain(value: &Expr) -> [bool; 3] {
        let shape = [Poly::constant(9)];
        let found = Certain::of(value, &[Poly::constant(0)], &[Poly::constant(1)]);
        [0, 1, 2].map(|n| found.contains(TensorId(0), &[Subscript::Affine(place(n))], &shape))
    }

    fn place(n: i64) -> Poly {
        Poly::var(VarId(0)) + Poly::constant(n)
    }

    #[test]
    fn the_first_side_of_a_conjunction_is_certain() {
        let x = |n: i64| Expr::read(TensorId(0), [place(n)]);
        let positive = |n: i64| x(n).compare(CompareOp::Gt, Expr::f32(0.0));
        for op in [BinaryOp::And, BinaryOp::Or] {
            let condition = positive(0).binary(op, positive(1));
            assert_eq!(certain(&condition), [true, false, false]);
            assert_eq!(certain(&condition.select(x(1), x(2))), [true, false, false]);
        }
        assert_eq!(certain(&positive(0).select(x(1), x(1))), [true, false, false]);
        assert_eq!(certain(&x(2).binary(BinaryOp::Add, x(1))), [false, true, true]);
    }
}
