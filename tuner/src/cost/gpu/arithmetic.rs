//! Cost of expressions, by the unit that computes them.
//!
//! Instructions of one evaluation in one warp. Elementary functions are those of `math.cuh`: at full
//! accuracy, so that most are a dozen multiply-adds around one special instruction.

use tvmtune_cuda::codegen;
use tvmtune_cuda::grid::Grid;
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Reducer, UnaryOp};

/// Warp instructions, by unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ops {
    /// Multiply-adds in `f32`, and what takes their place.
    pub(super) fma: f64,
    /// The same in `f64`.
    pub(super) double: f64,
    /// Integers, comparisons, conversions.
    pub(super) integer: f64,
    /// Reciprocals, roots, powers of 2.
    pub(super) special: f64,
}

impl Ops {
    /// All that are issued.
    pub(super) fn issued(self) -> f64 {
        self.fma + self.double + self.integer + self.special
    }

    pub(super) fn add(&mut self, more: Ops, times: f64) {
        self.fma += more.fma * times;
        self.double += more.double * times;
        self.integer += more.integer * times;
        self.special += more.special * times;
    }

    fn fma(n: f64, special: f64) -> Self {
        Ops { fma: n, special, ..Ops::default() }
    }

    /// So many instructions on values of a type.
    fn plain(dtype: DType, n: f64) -> Self {
        match dtype {
            DType::F64 => Ops { double: n, ..Ops::default() },
            DType::I64 => Ops { integer: 2.0 * n, ..Ops::default() },
            it if it.is_float() => Ops { fma: n, ..Ops::default() },
            _ => Ops { integer: n, ..Ops::default() },
        }
    }
}

/// One evaluation of an expression, and what adds it to others.
pub(super) fn ops(grid: &Grid, value: &Expr, reducer: Option<Reducer>) -> Ops {
    let mut all = of(grid, value);
    if let Some(reducer) = reducer {
        let dtype = value.dtype(grid);
        let fused = reducer == Reducer::Sum && is_product(value) && dtype.is_float();
        if !fused {
            all.add(Ops::plain(dtype, 1.0), 1.0);
        }
    }
    all
}

fn is_product(value: &Expr) -> bool {
    matches!(value, Expr::Binary(BinaryOp::Mul, ..))
}

/// Returns whether a value is a condition on indices: those count by what they depend on.
pub(super) fn is_bound(value: &Expr) -> bool {
    match value {
        Expr::Compare(_, a, b) => matches!((&**a, &**b), (Expr::Index(_), Expr::Index(_))),
        Expr::Binary(BinaryOp::And, a, b) => is_bound(a) && is_bound(b),
        _ => false,
    }
}

fn of(grid: &Grid, value: &Expr) -> Ops {
    if is_bound(value) {
        return Ops::default();
    }
    if let Expr::Cast(to, a) = value
        && let Some(exponent) = codegen::narrow_exp(grid, *to, a)
    {
        let mut all = of(grid, exponent);
        all.add(Ops { fma: 1.0, integer: 1.0, special: 1.0, double: 0.0 }, 1.0);
        return all;
    }
    let mut all = own(grid, value);
    for child in value.children() {
        all.add(of(grid, child), 1.0);
    }
    all
}

fn own(grid: &Grid, value: &Expr) -> Ops {
    match value {
        Expr::Const(..) | Expr::Scalar(_) | Expr::Read { .. } => Ops::default(),
        Expr::Index(_) => Ops::plain(DType::I32, 1.0),
        Expr::Compare(_, a, _) => Ops::plain(a.dtype(grid), 1.0),
        Expr::Select { .. } => Ops::plain(DType::I32, 1.0),
        Expr::Cast(to, a) if a.dtype(grid) == *to => Ops::default(),
        Expr::Cast(..) => Ops::plain(DType::I32, 1.0),
        Expr::Unary(op, a) => unary(*op, a.dtype(grid)),
        Expr::Binary(op, a, b) => {
            let dtype = a.dtype(grid);
            let sum = matches!(op, BinaryOp::Add | BinaryOp::Sub);
            // One of the factors' sums comes free with the product.
            let fused = sum && dtype.is_float() && (is_product(a) || is_product(b));
            if fused { Ops::default() } else { binary(*op, dtype) }
        }
    }
}

/// In `f64`, functions take about three times as many instructions, all in `f64`.
fn function(dtype: DType, n: f64, special: f64) -> Ops {
    match dtype {
        DType::F64 => Ops { double: 3.0 * n, special, ..Ops::default() },
        _ => Ops::fma(n, special),
    }
}

fn unary(op: UnaryOp, dtype: DType) -> Ops {
    match op {
        // Signs are part of the instructions around.
        UnaryOp::Neg | UnaryOp::Abs if dtype.is_float() => Ops::default(),
        UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs => Ops::plain(dtype, 1.0),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Tf32 => Ops::fma(0.0, 1.0),
        UnaryOp::Sqrt => function(dtype, 7.0, 1.0),
        UnaryOp::Rsqrt => function(dtype, 3.0, 1.0),
        UnaryOp::Exp => function(dtype, 7.0, 1.0),
        UnaryOp::Ln => function(dtype, 18.0, 0.0),
        UnaryOp::Exp2 => function(dtype, 4.0, 1.0),
        UnaryOp::Log2 => function(dtype, 18.0, 0.0),
        UnaryOp::ExpM1 => function(dtype, 14.0, 1.0),
        UnaryOp::Ln1p => function(dtype, 22.0, 0.0),
        UnaryOp::Tanh => function(dtype, 18.0, 2.0),
        UnaryOp::Erf => function(dtype, 20.0, 1.0),
        UnaryOp::Sin | UnaryOp::Cos => function(dtype, 24.0, 0.0),
        UnaryOp::Atan => function(dtype, 22.0, 1.0),
    }
}

fn binary(op: BinaryOp, dtype: DType) -> Ops {
    match op {
        BinaryOp::Div if dtype.is_float() => function(dtype, 9.0, 1.0),
        BinaryOp::Rem if dtype.is_float() => function(dtype, 30.0, 1.0),
        BinaryOp::Div | BinaryOp::Rem => Ops { special: 1.0, ..Ops::plain(dtype, 18.0) },
        BinaryOp::Pow => function(dtype, 60.0, 2.0),
        BinaryOp::Min | BinaryOp::Max if dtype == DType::F32 => Ops::plain(DType::I32, 1.0),
        _ => Ops::plain(dtype, 1.0),
    }
}
