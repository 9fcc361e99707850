//! The operations of a statement, by kind.

use tvmtune_ir::dag::{BinaryOp, DType, Expr, Reducer, Types, UnaryOp};

use super::statement::{Statement, Statements};

/// Kinds of operations on floats; integers have as many.
const KINDS: usize = 7;
/// The positions of the kinds after those.
const LOGIC: usize = 2 * KINDS;
const CHOICE: usize = LOGIC + 1;

/// A count for each kind, in the order of the layout.
pub(super) type Operations = [f64; CHOICE + 1];

/// A kind of operation; its number is its position among those on floats.
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

/// Counts the operations of one run of a statement.
pub(super) fn count(stmts: &Statements<'_>, stmt: &Statement<'_>) -> Operations {
    let mut counts = [0.0; CHOICE + 1];
    stmt.value.walk(&mut |it| add(it, stmts.nest, &mut counts));
    if let Some(it) = stmt.reducer {
        counts[position(reducer(it), stmts.nest.buffer(stmt.tensor).dtype)] += 1.0;
    }
    counts
}

/// Returns the number of operations on floats.
pub(super) fn on_floats(operations: &Operations) -> f64 {
    operations[..KINDS].iter().sum()
}

/// Counts the operation at the root of an expression.
fn add(expr: &Expr, types: &dyn Types, counts: &mut Operations) {
    let (kind, operand) = match expr {
        Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) | Expr::Read { .. } => return,
        Expr::Unary(op, a) => (unary(*op), a),
        Expr::Binary(op, a, _) => (binary(*op), a),
        Expr::Compare(_, a, _) => (Kind::Comparison, a),
        Expr::Cast(_, a) => (Kind::Other, a),
        Expr::Select { condition, .. } => (Kind::Choice, condition),
    };
    counts[position(kind, operand.dtype(types))] += 1.0;
}

/// Returns the position of a kind in the layout.
fn position(kind: Kind, dtype: DType) -> usize {
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
        | UnaryOp::Exp2
        | UnaryOp::Log2
        | UnaryOp::ExpM1
        | UnaryOp::Ln1p
        | UnaryOp::Tanh
        | UnaryOp::Erf
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Atan => Kind::Function,
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
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr => {
            Kind::Other
        }
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
