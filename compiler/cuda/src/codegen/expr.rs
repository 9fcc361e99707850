//! Expressions and indices as CUDA C++.

use super::{Printer, element_type};
use crate::grid::Grid;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::limits::magnitude;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, DType, Expr, Literal, Reducer, Subscript, TensorId, UnaryOp,
};
use tvmtune_ir::half::{Bf16, F16};
use tvmtune_ir::poly::{Atom, Poly};
use tvmtune_schedule::print::{self, Text, comparison, function, operator};

impl Printer<'_> {
    /// An element of a buffer, as something that can be read and assigned.
    pub(super) fn element(&self, tensor: TensorId, index: &[Poly]) -> String {
        let index: Vec<Subscript> = index.iter().cloned().map(Subscript::Affine).collect();
        self.read(tensor, &index)
    }

    pub(super) fn read(&self, tensor: TensorId, index: &[Subscript]) -> String {
        let name = self.names.buffer(tensor);
        if self.in_registers(tensor) && self.n_elements(tensor) == 1 {
            return name.to_owned();
        }
        let buffer = self.grid.buffer(tensor);
        if let Some(index) = affine(index)
            && let Some(loaded) = self.loaded.get(&(tensor, buffer.position(&index)))
        {
            return loaded.clone();
        }
        let value = |it: &Expr| format!("Index({})", self.expr(it).text);
        self.place(tensor, &print::offset(buffer, index, &|it| self.poly(it), &value).text)
    }

    /// The element of a buffer in memory at a position.
    pub(super) fn place(&self, tensor: TensorId, position: &str) -> String {
        let (name, buffer) = (self.names.buffer(tensor), self.grid.buffer(tensor));
        match buffer.scope.swizzle() {
            Some(row) => format!("{name}[permuted<{row}, {}>({position})]", buffer.dtype.bytes()),
            None => format!("{name}[{position}]"),
        }
    }

    pub(super) fn expr(&self, expr: &Expr) -> Text {
        match expr {
            Expr::Const(value, dtype) => literal(*value, *dtype),
            // As a value an index has 64 bits.
            Expr::Index(poly) => Text::atom(format!("i64({})", self.value(poly).text)),
            Expr::Scalar(scalar) => Text::atom(self.names.scalar(*scalar)),
            Expr::Read { tensor, index } => Text::atom(self.read(*tensor, index)),
            Expr::Unary(op, a) => unary(*op, &self.expr(a), a.dtype(self.grid)),
            Expr::Binary(op, a, b) => binary(*op, &self.expr(a), &self.expr(b), a.dtype(self.grid)),
            Expr::Compare(op, a, b) => self.compare(*op, a, b),
            Expr::Select { condition, then, otherwise } => {
                let [condition, then, otherwise] =
                    [condition, then, otherwise].map(|it| self.expr(it).operand());
                Text::compound(format!("{condition} ? {then} : {otherwise}"))
            }
            Expr::Cast(to, a) if narrow_exp(self.grid, *to, a).is_some() => {
                let exponent = narrow_exp(self.grid, *to, a).map(|it| self.expr(it).text);
                let exponent = exponent.unwrap_or_default();
                Text::atom(format!("narrow_exp<{}>({exponent})", element_type(*to)))
            }
            Expr::Cast(to, a) => {
                let from = a.dtype(self.grid);
                // A scalar of 16 bits is passed as `f32`.
                let is_wide_scalar = matches!(**a, Expr::Scalar(_)) && from.compute() == *to;
                let a = self.expr(a);
                if from == *to || is_wide_scalar {
                    return a;
                }
                Text::atom(format!("cast<{}>({})", element_type(*to), a.text))
            }
        }
    }

    fn compare(&self, op: CompareOp, a: &Expr, b: &Expr) -> Text {
        // Conditions on indices need no more bits than the indices.
        let [a, b] = match (a, b) {
            (Expr::Index(a), Expr::Index(b)) => [self.value(a), self.value(b)],
            _ => [self.expr(a), self.expr(b)],
        };
        Text::infix(&a, comparison(op), &b)
    }

    /// An integer that is no offset: of type `Index` if that has room for it and all of its parts.
    fn value(&self, value: &Poly) -> Text {
        if magnitude(value, &self.facts) <= f64::from(i32::MAX) {
            return self.poly(value);
        }
        print::poly(value, &|it| match it {
            Atom::Dim(_) | Atom::Var(_) => format!("i64({})", self.names.leaf(it)),
            _ => self.atom_of("i64", it, &|part| self.value(part)),
        })
    }

    /// An integer expression of type `Index`.
    pub(super) fn poly(&self, value: &Poly) -> Text {
        print::poly(value, &|it| self.atom(it))
    }

    fn atom(&self, atom: &Atom) -> String {
        self.atom_of("Index", atom, &|it| self.poly(it))
    }

    /// An atom in arithmetic of that type, given the text of polynomials.
    fn atom_of(&self, ty: &str, atom: &Atom, poly: &dyn Fn(&Poly) -> Text) -> String {
        let (a, b, symbol, name) = match atom {
            Atom::Dim(_) | Atom::Var(_) => return self.names.leaf(atom),
            Atom::Div(a, b) => (a, b, "/", "div_floor"),
            Atom::Mod(a, b) => (a, b, "%", "mod_floor"),
            Atom::Min(a, b) => (a, b, "", "min"),
            Atom::Max(a, b) => (a, b, "", "max"),
        };
        let [a_text, b_text] = [a, b].map(|it| poly(it));
        if !symbol.is_empty() && a.is_nonnegative(&self.facts) {
            return format!("({} {symbol} {})", a_text.operand(), b_text.operand());
        }
        format!("tvmtune::{name}<{ty}>({}, {})", a_text.text, b_text.text)
    }
}

pub(super) fn literal(value: Literal, dtype: DType) -> Text {
    let name = element_type(dtype);
    Text::atom(match (value, dtype) {
        (Literal::Float(it), DType::F16) => {
            format!("f16{{{:#x}}}", F16::from_f64(it).to_bits())
        }
        (Literal::Float(it), DType::Bf16) => {
            format!("bf16{{{:#x}}}", Bf16::from_f64(it).to_bits())
        }
        (Literal::Float(it), DType::F64) if it.is_finite() => float(format!("{it:?}")),
        (Literal::Float(it), DType::F64) => {
            format!("__longlong_as_double({:#x})", it.to_bits())
        }
        (Literal::Float(it), _) if (it as f32).is_finite() => float(format!("{:?}f", it as f32)),
        (Literal::Float(it), _) => format!("__int_as_float({:#x})", (it as f32).to_bits()),
        (Literal::Int(it), DType::F32 | DType::F64) => {
            return literal(Literal::Float(it as f64), dtype);
        }
        // The least integers have no literal of their own.
        (Literal::Int(i64::MIN), _) => format!("{name}(-{} - 1)", i64::MAX),
        (Literal::Int(it), _) => format!("{name}({it})"),
        (Literal::Bool(it), _) => it.to_string(),
    })
}

fn float(digits: String) -> String {
    if digits.starts_with('-') { format!("({digits})") } else { digits }
}

/// Returns the exponent of an exponential that is rounded to 16 bits at once.
pub fn narrow_exp<'e>(grid: &Grid, to: DType, value: &'e Expr) -> Option<&'e Expr> {
    match value {
        Expr::Unary(UnaryOp::Exp, exponent) => {
            let is_narrow = matches!(to, DType::F16 | DType::Bf16);
            (is_narrow && exponent.dtype(grid) == DType::F32).then_some(&**exponent)
        }
        _ => None,
    }
}

fn unary(op: UnaryOp, a: &Text, dtype: DType) -> Text {
    let call = |name: &str| Text::atom(format!("tvmtune::{name}({})", a.text));
    match op {
        UnaryOp::Not if dtype.is_integer() => call("bit_not"),
        UnaryOp::Not => Text::compound(format!("!{}", a.operand())),
        UnaryOp::Neg if dtype.is_float() => Text::compound(format!("-{}", a.operand())),
        UnaryOp::Neg => call("wrapping_neg"),
        UnaryOp::Abs if dtype.is_unsigned() => Text::atom(a.operand()),
        UnaryOp::Abs if dtype.is_integer() => call("wrapping_abs"),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round if !dtype.is_float() => {
            Text::atom(a.operand())
        }
        UnaryOp::Abs
        | UnaryOp::Sqrt
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
        | UnaryOp::Atan
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Round
        | UnaryOp::Tf32 => call(&function(op)),
    }
}

pub(super) fn binary(op: BinaryOp, a: &Text, b: &Text, dtype: DType) -> Text {
    let is_logical = matches!(op, BinaryOp::And | BinaryOp::Or);
    let is_infix = is_logical || dtype.is_float() && op != BinaryOp::Rem;
    if let Some((symbol, _)) = operator(op).filter(|_| is_infix) {
        return Text::infix(a, symbol, b);
    }
    let name = match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => format!("wrapping_{}", function(op)),
        BinaryOp::Div => "quotient".to_owned(),
        BinaryOp::Rem => "remainder".to_owned(),
        BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Pow
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr => function(op),
        BinaryOp::And | BinaryOp::Or => unreachable!("those are operators"),
    };
    Text::atom(format!("tvmtune::{name}({}, {})", a.text, b.text))
}

/// Returns the device type of a reducer.
pub(super) fn reducer_type(reducer: Reducer) -> &'static str {
    match reducer {
        Reducer::Sum => "Sum",
        Reducer::Prod => "Product",
        Reducer::Max => "Max",
        Reducer::Min => "Min",
        Reducer::Any => "Any",
        Reducer::All => "All",
    }
}
