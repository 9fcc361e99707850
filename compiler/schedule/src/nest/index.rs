//! Expressions of a stage, placed in the nest: loop variables for axes, memory for tensors.

use crate::Schedule;
use tvmtune_ir::dag::condition::as_inequality;
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// Where tensors lie, while statements are written out.
pub struct Places<'a> {
    /// Whose tensors.
    pub schedule: &'a Schedule,
    /// By tensor: where the region starts that its buffer holds; empty if it holds everything.
    pub firsts: Vec<Vec<Poly>>,
}

impl Places<'_> {
    /// Where an element is stored, from its logical index.
    pub fn stored(&self, tensor: TensorId, mut index: Vec<Poly>, facts: &Facts) -> Vec<Poly> {
        for (at, first) in index.iter_mut().zip(&self.firsts[tensor.0 as usize]) {
            *at += -first.clone();
        }
        match &self.schedule.tensor(tensor).layout {
            None => index,
            Some(layout) => layout.index(&index, facts),
        }
    }

    /// Where an element of what is beside a tensor's buffer lies: counted from where its region
    /// starts, in no layout.
    pub fn region_index(
        &self,
        tensor: TensorId,
        index: &[Poly],
        values: &[Poly],
        facts: &Facts,
    ) -> Vec<Poly> {
        let firsts = &self.firsts[tensor.0 as usize];
        let at = |(n, it): (usize, &Poly)| {
            let first = firsts.get(n).cloned().unwrap_or_default();
            replaced(it, values, facts) - first
        };
        index.iter().enumerate().map(at).collect()
    }

    /// `expr` with its variables replaced by `values` and its reads by reads of buffers, without
    /// the choices that the facts decide.
    pub fn placed(&self, expr: &Expr, values: &[Poly], facts: &Facts) -> Expr {
        let again = |it: &Expr| self.placed(it, values, facts);
        match expr {
            Expr::Index(poly) => Expr::Index(replaced(poly, values, facts)),
            Expr::Read { tensor, index } => self.placed_read(*tensor, index, values, facts),
            Expr::Unary(UnaryOp::Not, a) => match again(a) {
                Expr::Const(Literal::Bool(value), _) => truth(!value),
                a => a.unary(UnaryOp::Not),
            },
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                connective(*op, again(a), again(b))
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = (again(a), again(b));
                decided(as_inequality(*op, &a, &b), facts).unwrap_or_else(|| a.compare(*op, b))
            }
            Expr::Select { condition, then, otherwise } => match again(condition) {
                Expr::Const(Literal::Bool(true), _) => again(then),
                Expr::Const(Literal::Bool(false), _) => again(otherwise),
                condition => Expr::Select {
                    condition: Box::new(condition),
                    then: Box::new(again(then)),
                    otherwise: Box::new(again(otherwise)),
                },
            },
            other => other.map_children(&mut |child| again(child)),
        }
    }

    fn placed_read(
        &self,
        tensor: TensorId,
        index: &[Subscript],
        values: &[Poly],
        facts: &Facts,
    ) -> Expr {
        let firsts = &self.firsts[tensor.0 as usize];
        let subscript = |(n, it): (usize, &Subscript)| match it {
            Subscript::Affine(poly) => {
                let mut at = replaced(poly, values, facts);
                if let Some(first) = firsts.get(n) {
                    at += -first.clone();
                }
                Subscript::Affine(at)
            }
            // Such a dimension is never cut: what is read of it is not known.
            Subscript::Value(value) => {
                Subscript::Value(Box::new(self.placed(value, values, facts)))
            }
        };
        let index: Vec<Subscript> = index.iter().enumerate().map(subscript).collect();
        let index = match &self.schedule.tensor(tensor).layout {
            None => index,
            Some(layout) => layout.place(index, |it, by| self.split(it, by, facts)),
        };
        Expr::Read { tensor, index }
    }

    /// A subscript of a split dimension: which tile, and where in it.
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

/// The truth of `inequality >= 0`, if the facts know it.
fn decided(inequality: Option<Poly>, facts: &Facts) -> Option<Expr> {
    let inequality = inequality?;
    if inequality.is_nonnegative(facts) {
        return Some(truth(true));
    }
    (-inequality).is_positive(facts).then(|| truth(false))
}

/// `a and b`, `a or b`, without constants.
fn connective(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    // What leaves the other side as it is: true for `and`, false for `or`.
    let neutral = op == BinaryOp::And;
    match (&a, &b) {
        (Expr::Const(Literal::Bool(value), _), _) => {
            if *value == neutral {
                b
            } else {
                a
            }
        }
        (_, Expr::Const(Literal::Bool(value), _)) => {
            if *value == neutral {
                a
            } else {
                b
            }
        }
        _ => a.binary(op, b),
    }
}
