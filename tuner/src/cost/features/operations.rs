//! How many operations a statement takes, by kind.

use tvmtune_ir::dag::{BinaryOp, DType, Expr, Reducer, Types, UnaryOp};

use super::site::{Site, Sites};

/// Kinds of operations on floats, and as many on integers.
const KINDS: usize = 7;
/// What follows those.
const LOGIC: usize = 2 * KINDS;
const CHOICE: usize = LOGIC + 1;

/// Of each kind, in the order of the layout.
pub(super) type Operations = [f64; CHOICE + 1];

/// What numbers can do.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sum = 1,
    Product,
    Quotient,
    Comparison,
    Function,
    Other,
    Logic,
    Choice,
}

/// The operations of one statement, run once.
pub(super) fn of(sites: &Sites<'_>, site: &Site<'_>) -> Operations {
    let mut found = [0.0; CHOICE + 1];
    site.value.walk(&mut |it| count(it, sites.nest, &mut found));
    if let Some(it) = site.reducer {
        found[place(reducer(it), sites.nest.buffer(site.tensor).dtype)] += 1.0;
    }
    found
}

/// Those on floats alone.
pub(super) fn on_floats(operations: &Operations) -> f64 {
    operations[..KINDS].iter().sum()
}

fn count(expr: &Expr, types: &dyn Types, found: &mut Operations) {
    let (kind, operand) = match expr {
        Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) | Expr::Read { .. } => return,
        Expr::Unary(op, a) => (unary(*op), a),
        Expr::Binary(op, a, _) => (binary(*op), a),
        Expr::Compare(_, a, _) => (Kind::Comparison, a),
        Expr::Cast(_, a) => (Kind::Other, a),
        Expr::Select { condition, .. } => (Kind::Choice, condition),
    };
    found[place(kind, operand.dtype(types))] += 1.0;
}

fn place(kind: Kind, dtype: DType) -> usize {
    match kind {
        Kind::Logic => LOGIC,
        Kind::Choice => CHOICE,
        kind if dtype.is_float() => kind as usize,
        kind => kind as usize + KINDS,
    }
}

fn unary(op: UnaryOp) -> Kind {
    match op {
        UnaryOp::Neg => Kind::Sum,
        UnaryOp::Not => Kind::Logic,
        UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Tf32 => {
            Kind::Other
        }
        UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Exp
        | UnaryOp::Ln
        | UnaryOp::Tanh
        | UnaryOp::Erf
        | UnaryOp::Sin
        | UnaryOp::Cos => Kind::Function,
    }
}

fn binary(op: BinaryOp) -> Kind {
    match op {
        BinaryOp::Add | BinaryOp::Sub => Kind::Sum,
        BinaryOp::Mul => Kind::Product,
        BinaryOp::Div | BinaryOp::Rem => Kind::Quotient,
        BinaryOp::Min | BinaryOp::Max => Kind::Comparison,
        BinaryOp::Pow => Kind::Function,
        BinaryOp::And | BinaryOp::Or => Kind::Logic,
    }
}

fn reducer(reducer: Reducer) -> Kind {
    match reducer {
        Reducer::Sum => Kind::Sum,
        Reducer::Prod => Kind::Product,
        Reducer::Min | Reducer::Max => Kind::Comparison,
        Reducer::Any | Reducer::All => Kind::Logic,
    }
}
