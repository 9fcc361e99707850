//! Scalar expressions: the definition of one element in terms of others.
//!
//! The same type serves a [`Dag`](crate::dag::Dag), where variables are the axes of one compute and
//! reads use logical indices, and a loop nest, where variables are loops and reads use indices into
//! buffers as stored.

use std::fmt;

use crate::dag::{DType, TensorId};
use crate::poly::{Facts, Poly, VarId};

/// A run-time scalar parameter, by position in [`crate::dag::Dag::scalars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScalarId(pub u32);

/// A literal. Zeros of different sign differ, since `1 / x` tells them apart; a NaN is itself.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// A floating-point value; rounded to its type where it is used.
    Float(f64),
    /// An integer value; fits its type.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Literal {
    /// Returns whether two literals are the same number; zeros of either sign are.
    pub fn equals(self, other: Literal) -> bool {
        match (self, other) {
            (Literal::Float(a), Literal::Float(b)) => a == b,
            (a, b) => a == b,
        }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        match (self, other) {
            (Literal::Float(a), Literal::Float(b)) => {
                a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
            }
            (Literal::Int(a), Literal::Int(b)) => a == b,
            (Literal::Bool(a), Literal::Bool(b)) => a == b,
            _ => false,
        }
    }
}

/// Operations on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnaryOp {
    /// Arithmetic negation; integers wrap.
    Neg,
    /// Complement: logical of a `Bool`, of every bit of an integer.
    Not,
    /// Absolute value; integers wrap.
    Abs,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`, correctly rounded twice: a division of a root.
    Rsqrt,
    /// `e^x`.
    Exp,
    /// Natural logarithm.
    Ln,
    /// `2^x`.
    Exp2,
    /// Logarithm to base 2.
    Log2,
    /// `e^x - 1`.
    ExpM1,
    /// `ln(1 + x)`.
    Ln1p,
    /// Hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Arc tangent.
    Atan,
    /// Largest integral value not above.
    Floor,
    /// Smallest integral value not below.
    Ceil,
    /// Nearest integral value, ties to even.
    Round,
    /// The nearest `f32` whose lower 13 bits are 0, ties to even: the operands of TF32
    /// tensor cores. A NaN stays one.
    Tf32,
}

impl BinaryOp {
    /// Returns whether it is an operation on the bits of integers.
    pub fn is_bitwise(self) -> bool {
        use BinaryOp::{BitAnd, BitOr, BitXor, Shl, Shr};
        matches!(self, BitAnd | BitOr | BitXor | Shl | Shr)
    }
}

/// Returns the name of an operation in texts: that of its variant in lower case, with the words of some
/// apart.
pub fn operation_name(op: &dyn fmt::Debug) -> String {
    let name = format!("{op:?}").to_lowercase();
    match name.as_str() {
        "expm1" => "exp_m1".to_owned(),
        "ln1p" => "ln_1p".to_owned(),
        "bitand" | "bitor" | "bitxor" => name.replacen("bit", "bit_", 1),
        _ => name,
    }
}

/// Operations on two values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BinaryOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient; of integers, rounded towards zero, and 0 where the divisor is 0.
    Div,
    /// Remainder of `Div`, with the sign of the dividend; 0 where the divisor is 0.
    Rem,
    /// The smaller; of a number and a NaN, the number.
    Min,
    /// The larger; of a number and a NaN, the number.
    Max,
    /// `x^y`, of floats.
    Pow,
    /// Conjunction, of `Bool`.
    And,
    /// Disjunction, of `Bool`.
    Or,
    /// Conjunction of the bits of integers.
    BitAnd,
    /// Disjunction of the bits of integers.
    BitOr,
    /// Exclusive disjunction of the bits of integers.
    BitXor,
    /// Shift to the left, of integers, by the second modulo the bits of the type.
    Shl,
    /// Shift to the right, of integers, by the second modulo the bits of the type. Signed ones are
    /// filled with their sign.
    Shr,
}

/// Comparisons; false where either side is a NaN, but for `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompareOp {
    /// Less than.
    Lt,
    /// At most.
    Le,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// At least.
    Ge,
    /// Greater than.
    Gt,
}

/// One subscript of a read.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscript {
    /// A polynomial in loop variables and dimensions.
    Affine(Poly),
    /// Computed from data (a gather): an expression of type `I64` or `I32`.
    Value(Box<Expr>),
}

impl Subscript {
    /// The expression, if the subscript is computed from data.
    pub fn value(&self) -> Option<&Expr> {
        match self {
            Subscript::Affine(_) => None,
            Subscript::Value(value) => Some(value),
        }
    }

    /// The polynomial, unless the subscript is computed from data.
    pub fn affine(&self) -> Option<&Poly> {
        match self {
            Subscript::Affine(poly) => Some(poly),
            Subscript::Value(_) => None,
        }
    }
}

/// A scalar expression. Its type follows from its parts, see [`Expr::dtype`].
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A literal of a type.
    Const(Literal, DType),
    /// An index as a value, of type `I64`.
    Index(Poly),
    /// A run-time scalar.
    Scalar(ScalarId),
    /// An element of a tensor (in a nest: of its buffer), with one subscript for each dimension. In
    /// bounds whenever it is evaluated: proven, or below a `Select` that asks.
    Read { tensor: TensorId, index: Vec<Subscript> },
    /// An operation on one value.
    Unary(UnaryOp, Box<Expr>),
    /// An operation on two values of one type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A comparison of two values of one type; a `Bool`.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// `if condition { then } else { otherwise }`, of a `Bool` and two values of one type; only the
    /// chosen branch is evaluated.
    Select { condition: Box<Expr>, then: Box<Expr>, otherwise: Box<Expr> },
    /// Conversion as Rust's `as`: floats to integers saturate, NaN becomes 0.
    Cast(DType, Box<Expr>),
}

/// The types of the tensors and scalars that an expression refers to.
pub trait Types {
    /// The element type of a tensor.
    fn tensor(&self, tensor: TensorId) -> DType;
    /// The type of a run-time scalar.
    fn scalar(&self, scalar: ScalarId) -> DType;
}

impl Expr {
    /// The `F32` literal `value`.
    pub fn f32(value: f64) -> Self {
        Expr::Const(Literal::Float(value), DType::F32)
    }

    /// A read with affine subscripts only.
    pub fn read(tensor: TensorId, index: impl IntoIterator<Item = Poly>) -> Self {
        Expr::Read { tensor, index: index.into_iter().map(Subscript::Affine).collect() }
    }

    /// `op(self)`.
    pub fn unary(self, op: UnaryOp) -> Self {
        Expr::Unary(op, Box::new(self))
    }

    /// `self op other`.
    pub fn binary(self, op: BinaryOp, other: Expr) -> Self {
        Expr::Binary(op, Box::new(self), Box::new(other))
    }

    /// `self op other`, a `Bool`.
    pub fn compare(self, op: CompareOp, other: Expr) -> Self {
        Expr::Compare(op, Box::new(self), Box::new(other))
    }

    /// `if self { then } else { otherwise }`.
    pub fn select(self, then: Expr, otherwise: Expr) -> Self {
        let (then, otherwise) = (Box::new(then), Box::new(otherwise));
        Expr::Select { condition: Box::new(self), then, otherwise }
    }

    /// The value, rounded to its type where it is a product of floats, or a choice of one: a sum contracts products
    /// that it adds as they stand.
    #[must_use]
    pub fn rounded(self, dtype: DType) -> Self {
        match self {
            Expr::Binary(BinaryOp::Mul, ..) if dtype.is_float() => {
                Expr::Cast(dtype, Box::new(self))
            }
            Expr::Select { condition, then, otherwise } => {
                condition.select(then.rounded(dtype), otherwise.rounded(dtype))
            }
            other => other,
        }
    }

    /// The type of the value.
    pub fn dtype(&self, types: &dyn Types) -> DType {
        match self {
            Expr::Const(_, dtype) | Expr::Cast(dtype, _) => *dtype,
            Expr::Index(_) => DType::I64,
            Expr::Scalar(scalar) => types.scalar(*scalar),
            Expr::Read { tensor, .. } => types.tensor(*tensor),
            Expr::Unary(_, a) | Expr::Binary(_, a, _) => a.dtype(types),
            Expr::Compare(..) => DType::Bool,
            Expr::Select { then, .. } => then.dtype(types),
        }
    }

    /// The direct operands, data-dependent subscripts included, in order of evaluation.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) => Vec::new(),
            Expr::Read { index, .. } => index.iter().filter_map(Subscript::value).collect(),
            Expr::Unary(_, a) | Expr::Cast(_, a) => vec![a],
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => vec![a, b],
            Expr::Select { condition, then, otherwise } => vec![condition, then, otherwise],
        }
    }

    /// Calls `visit` for this expression and everything below it, outermost first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// Returns whether `holds` for this expression or one below it; outermost first.
    pub fn any<'a>(&'a self, holds: &mut dyn FnMut(&'a Expr) -> bool) -> bool {
        holds(self) || self.children().into_iter().any(|it| it.any(holds))
    }

    /// Calls `visit` for each read, outermost first, in order of evaluation.
    pub fn for_each_read<'a>(&'a self, visit: &mut dyn FnMut(TensorId, &'a [Subscript])) {
        self.walk(&mut |it| {
            if let Expr::Read { tensor, index } = it {
                visit(*tensor, index);
            }
        });
    }

    /// Returns whether the expression reads that tensor.
    pub fn reads(&self, tensor: TensorId) -> bool {
        self.any(&mut |it| matches!(it, Expr::Read { tensor: read, .. } if *read == tensor))
    }

    /// Calls `visit` for each polynomial, in subscripts and in indices used as values.
    pub fn for_each_poly<'a>(&'a self, visit: &mut dyn FnMut(&'a Poly)) {
        self.walk(&mut |it| it.own_polys().for_each(&mut *visit));
    }

    /// The polynomials of this expression alone.
    fn own_polys(&self) -> impl Iterator<Item = &Poly> {
        let (value, index): (Option<&Poly>, &[Subscript]) = match self {
            Expr::Index(poly) => (Some(poly), &[]),
            Expr::Read { index, .. } => (None, index),
            _ => (None, &[]),
        };
        value.into_iter().chain(index.iter().filter_map(Subscript::affine))
    }

    /// Returns whether a polynomial in the expression mentions `var`.
    pub fn mentions(&self, var: VarId) -> bool {
        self.any(&mut |it| it.own_polys().any(|poly| poly.mentions(var)))
    }

    /// The same expression with `f` applied to each direct operand.
    pub fn map_children(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
        let mut boxed = |it: &Expr| Box::new(f(it));
        match self {
            Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) => self.clone(),
            Expr::Read { tensor, index } => {
                let index = index.iter().map(|it| match it {
                    Subscript::Affine(poly) => Subscript::Affine(poly.clone()),
                    Subscript::Value(value) => Subscript::Value(boxed(value)),
                });
                Expr::Read { tensor: *tensor, index: index.collect() }
            }
            Expr::Unary(op, a) => Expr::Unary(*op, boxed(a)),
            Expr::Cast(dtype, a) => Expr::Cast(*dtype, boxed(a)),
            Expr::Binary(op, a, b) => {
                let a = boxed(a);
                Expr::Binary(*op, a, boxed(b))
            }
            Expr::Compare(op, a, b) => {
                let a = boxed(a);
                Expr::Compare(*op, a, boxed(b))
            }
            Expr::Select { condition, then, otherwise } => {
                let condition = boxed(condition);
                let then = boxed(then);
                Expr::Select { condition, then, otherwise: boxed(otherwise) }
            }
        }
    }

    /// Replaces variables, in subscripts and in indices used as values.
    pub fn substitute_vars(
        &self,
        replacement: &dyn Fn(VarId) -> Option<Poly>,
        facts: &Facts,
    ) -> Expr {
        self.map_polys(&mut |poly| poly.substitute_vars(replacement, facts))
    }

    /// Replaces every polynomial, in subscripts and in indices used as values.
    pub fn map_polys(&self, f: &mut dyn FnMut(&Poly) -> Poly) -> Expr {
        match self {
            Expr::Index(poly) => Expr::Index(f(poly)),
            Expr::Read { tensor, index } => {
                let index = index.iter().map(|it| match it {
                    Subscript::Affine(poly) => Subscript::Affine(f(poly)),
                    Subscript::Value(value) => Subscript::Value(Box::new(value.map_polys(f))),
                });
                Expr::Read { tensor: *tensor, index: index.collect() }
            }
            other => other.map_children(&mut |child| child.map_polys(f)),
        }
    }

    /// Replaces each read for which `replacement` gives an expression, which is not searched again.
    pub fn replace_reads(
        &self,
        replacement: &mut dyn FnMut(TensorId, &[Subscript]) -> Option<Expr>,
    ) -> Expr {
        if let Expr::Read { tensor, index } = self
            && let Some(replaced) = replacement(*tensor, index)
        {
            return replaced;
        }
        self.map_children(&mut |child| child.replace_reads(replacement))
    }
}

/// Returns the subscripts as polynomials, if none is computed from data.
pub fn affine(index: &[Subscript]) -> Option<Vec<Poly>> {
    index.iter().map(|it| it.affine().cloned()).collect()
}
