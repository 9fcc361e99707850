//! Addressing: rewrites a stage's expressions from axes to loop variables, and from logical indices of
//! tensors to indices of their buffers.

use crate::Schedule;
use tvmtune_ir::dag::condition::as_inequality;
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// The mapping from logical indices of tensors to indices of their buffers.
#[derive(Clone)]
pub struct Addressing<'a> {
    /// The schedule that owns the tensors.
    pub schedule: &'a Schedule,
    /// By tensor: the origin of the region that its buffer holds; empty if it holds everything.
    pub origins: Vec<Vec<Poly>>,
    /// An expression of axes, and the read of a buffer that has its value.
    pub local: Option<(Expr, Expr)>,
}

impl Addressing<'_> {
    /// Maps a logical index to the buffer's, layout included.
    pub fn stored_index(&self, tensor: TensorId, mut index: Vec<Poly>, facts: &Facts) -> Vec<Poly> {
        for (at, first) in index.iter_mut().zip(&self.origins[tensor.0 as usize]) {
            *at += -first.clone();
        }
        match &self.schedule.tensor(tensor).layout {
            None => index,
            Some(layout) => layout.index(&index, facts),
        }
    }

    /// Maps a logical index to one relative to the origin of the tensor's region, with no layout.
    pub fn region_index(
        &self,
        tensor: TensorId,
        index: &[Poly],
        values: &[Poly],
        facts: &Facts,
    ) -> Vec<Poly> {
        let origins = &self.origins[tensor.0 as usize];
        let relative = |(n, it): (usize, &Poly)| {
            let first = origins.get(n).cloned().unwrap_or_default();
            replaced(it, values, facts) - first
        };
        index.iter().enumerate().map(relative).collect()
    }

    /// Replaces variables by `values` and reads of tensors by reads of buffers, and folds the
    /// conditions that the facts decide.
    pub fn lower_expr(&self, expr: &Expr, values: &[Poly], facts: &Facts) -> Expr {
        if let Some((value, read)) = &self.local
            && value == expr
        {
            return read.clone();
        }
        let lower = |it: &Expr| self.lower_expr(it, values, facts);
        match expr {
            Expr::Index(poly) => Expr::Index(replaced(poly, values, facts)),
            Expr::Read { tensor, index } => self.lower_read(*tensor, index, values, facts),
            Expr::Unary(UnaryOp::Not, a) => match lower(a) {
                Expr::Const(Literal::Bool(value), _) => truth(!value),
                a => a.unary(UnaryOp::Not),
            },
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                connective(*op, lower(a), lower(b))
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = (lower(a), lower(b));
                decided(as_inequality(*op, &a, &b), facts).unwrap_or_else(|| a.compare(*op, b))
            }
            Expr::Select { condition, then, otherwise } => match lower(condition) {
                Expr::Const(Literal::Bool(true), _) => lower(then),
                Expr::Const(Literal::Bool(false), _) => lower(otherwise),
                condition => condition.select(lower(then), lower(otherwise)),
            },
            other => other.map_children(&mut |child| lower(child)),
        }
    }

    fn lower_read(
        &self,
        tensor: TensorId,
        index: &[Subscript],
        values: &[Poly],
        facts: &Facts,
    ) -> Expr {
        let origins = &self.origins[tensor.0 as usize];
        let subscript = |(n, it): (usize, &Subscript)| match it {
            Subscript::Affine(poly) => {
                let mut at = replaced(poly, values, facts);
                if let Some(first) = origins.get(n) {
                    at += -first.clone();
                }
                Subscript::Affine(at)
            }
            // The region of such a dimension is the whole: its reads are unknown.
            Subscript::Value(value) => {
                Subscript::Value(Box::new(self.lower_expr(value, values, facts)))
            }
        };
        let index: Vec<Subscript> = index.iter().enumerate().map(subscript).collect();
        let index = match &self.schedule.tensor(tensor).layout {
            None => index,
            Some(layout) => layout.place(index, |it, by| self.split(it, by, facts)),
        };
        Expr::Read { tensor: self.schedule.dag.home(tensor), index }
    }

    /// Splits a subscript into the tile and the position in it.
    fn split(&self, subscript: &Subscript, factor: i64, facts: &Facts) -> [Subscript; 2] {
        match subscript {
            Subscript::Affine(poly) => {
                let (tile, inside) = poly.div_mod(&Poly::constant(factor), facts);
                [Subscript::Affine(tile), Subscript::Affine(inside)]
            }
            Subscript::Value(value) => {
                // Never negative where it is evaluated, so rounding does not matter.
                let dtype = value.dtype(self.schedule);
                let by = |op| {
                    let factor = Expr::Const(Literal::Int(factor), dtype);
                    Subscript::Value(Box::new((**value).clone().binary(op, factor)))
                };
                [by(BinaryOp::Div), by(BinaryOp::Rem)]
            }
        }
    }
}

/// `poly` with variable `n` replaced by `values[n]`.
fn replaced(poly: &Poly, values: &[Poly], facts: &Facts) -> Poly {
    poly.substitute_vars(&|var: VarId| values.get(var.0 as usize).cloned(), facts)
}

fn truth(value: bool) -> Expr {
    Expr::Const(Literal::Bool(value), DType::Bool)
}

/// Returns the truth of `inequality >= 0`, if the facts decide it.
fn decided(inequality: Option<Poly>, facts: &Facts) -> Option<Expr> {
    let inequality = inequality?;
    if inequality.is_nonnegative(facts) {
        return Some(truth(true));
    }
    (-inequality).is_positive(facts).then(|| truth(false))
}

/// Folds `a and b`, `a or b` with constant operands.
fn connective(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    // The neutral element: true for `and`, false for `or`.
    let neutral = op == BinaryOp::And;
    match (&a, &b) {
        (Expr::Const(Literal::Bool(it), _), _) if *it == neutral => b,
        (Expr::Const(Literal::Bool(_), _), _) => a,
        (_, Expr::Const(Literal::Bool(it), _)) if *it == neutral => a,
        (_, Expr::Const(Literal::Bool(_), _)) => b,
        _ => a.binary(op, b),
    }
}
