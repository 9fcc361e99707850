//! Expressions and indices as CUDA C++.

use half::{bf16, f16};

use super::{Printer, element_type, vector_access};
use crate::grid::Grid;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, DType, Expr, Literal, Reducer, Subscript, TensorId, UnaryOp,
};
use tvmtune_ir::poly::{Atom, Poly};

/// The text of an expression, and whether it may be an operand as it is.
pub(super) struct Text {
    pub(super) text: String,
    is_atom: bool,
}

impl Text {
    /// A token, a call or an element: binds tighter than any operator.
    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_atom: true }
    }

    fn compound(text: String) -> Self {
        Self { text, is_atom: false }
    }

    pub(super) fn operand(&self) -> String {
        if self.is_atom { self.text.clone() } else { format!("({})", self.text) }
    }
}

/// The polynomial of an affine subscript.
pub(super) fn affine_one(subscript: &Subscript) -> Option<Poly> {
    match subscript {
        Subscript::Affine(poly) => Some(poly.clone()),
        Subscript::Value(_) => None,
    }
}

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
        let affine: Option<Vec<Poly>> = index.iter().map(affine_one).collect();
        if let Some(affine) = affine
            && let Some(loaded) = self.loaded.get(&(tensor, self.position(tensor, &affine)))
        {
            return loaded.clone();
        }
        self.place(tensor, &self.offset(tensor, index).text)
    }

    /// The element of a buffer in memory at a position.
    pub(super) fn place(&self, tensor: TensorId, position: &str) -> String {
        let (name, buffer) = (self.names.buffer(tensor), self.grid.buffer(tensor));
        match buffer.swizzle {
            Some(row) => format!("{name}[permuted<{row}, {}>({position})]", buffer.dtype.bytes()),
            None => format!("{name}[{position}]"),
        }
    }

    /// The row-major position of an element.
    pub(super) fn position(&self, tensor: TensorId, index: &[Poly]) -> Poly {
        vector_access::position(self.grid, tensor, index)
    }

    fn offset(&self, tensor: TensorId, index: &[Subscript]) -> Text {
        let shape = &self.grid.buffer(tensor).shape;
        let (mut affine, mut values) = (Poly::default(), Vec::new());
        let mut stride = Poly::constant(1);
        for (subscript, extent) in index.iter().zip(shape).rev() {
            match subscript {
                Subscript::Affine(poly) => affine += poly.clone() * stride.clone(),
                Subscript::Value(value) => {
                    let value = format!("Index({})", self.expr(value).text);
                    values.push(match stride.as_constant() {
                        Some(1) => value,
                        _ => format!("{value} * {}", self.poly(&stride).operand()),
                    });
                }
            }
            stride = stride * extent.clone();
        }
        if values.is_empty() {
            return self.poly(&affine);
        }
        let affine = (!affine.is_zero()).then(|| self.poly(&affine).text);
        Text::compound(affine.into_iter().chain(values).collect::<Vec<_>>().join(" + "))
    }

    pub(super) fn expr(&self, expr: &Expr) -> Text {
        match expr {
            Expr::Const(value, dtype) => literal(*value, *dtype),
            // As a value an index has 64 bits.
            Expr::Index(poly) => Text::atom(format!("i64({})", self.poly(poly).text)),
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
        let symbol = match op {
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Ge => ">=",
            CompareOp::Gt => ">",
        };
        // Conditions on indices need no 64 bits.
        let [a, b] = match (a, b) {
            (Expr::Index(a), Expr::Index(b)) => [self.poly(a), self.poly(b)],
            _ => [self.expr(a), self.expr(b)],
        };
        Text::compound(format!("{} {symbol} {}", a.operand(), b.operand()))
    }

    /// An integer expression of type `Index`.
    pub(super) fn poly(&self, value: &Poly) -> Text {
        let (mut constants, mut others) = (Vec::new(), Vec::new());
        for (atoms, coefficient) in value.terms() {
            if atoms.is_empty() { &mut constants } else { &mut others }.push((atoms, coefficient));
        }
        let n_terms = constants.len() + others.len();
        let mut text = String::new();
        let mut is_atom = n_terms <= 1;
        for (n, (atoms, coefficient)) in others.into_iter().chain(constants).enumerate() {
            let mut factors: Vec<String> = atoms.iter().map(|it| self.atom(it)).collect();
            let magnitude = coefficient.unsigned_abs();
            if magnitude != 1 || factors.is_empty() {
                factors.insert(0, magnitude.to_string());
            }
            is_atom &= factors.len() == 1 && coefficient >= 0;
            text.push_str(match (n, coefficient < 0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            });
            text.push_str(&factors.join(" * "));
        }
        if n_terms == 0 {
            text.push('0');
        }
        Text { text, is_atom }
    }

    fn atom(&self, atom: &Atom) -> String {
        let (a, b, symbol, name) = match atom {
            Atom::Dim(_) | Atom::Var(_) => return self.names.leaf(atom),
            Atom::Div(a, b) => (a, b, "/", "div_floor"),
            Atom::Mod(a, b) => (a, b, "%", "mod_floor"),
            Atom::Min(a, b) => (a, b, "", "min"),
            Atom::Max(a, b) => (a, b, "", "max"),
        };
        let [a_text, b_text] = [a, b].map(|it| self.poly(it));
        if !symbol.is_empty() && a.is_nonnegative(&self.facts) {
            return format!("({} {symbol} {})", a_text.operand(), b_text.operand());
        }
        format!("tvmtune::{name}<Index>({}, {})", a_text.text, b_text.text)
    }
}

pub(super) fn literal(value: Literal, dtype: DType) -> Text {
    let name = element_type(dtype);
    Text::atom(match (value, dtype) {
        (Literal::Float(it), DType::F16) => {
            format!("f16{{{:#x}}}", f16::from_f64(it).to_bits())
        }
        (Literal::Float(it), DType::Bf16) => {
            format!("bf16{{{:#x}}}", bf16::from_f64(it).to_bits())
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
        UnaryOp::Not => Text::compound(format!("!{}", a.operand())),
        UnaryOp::Neg if dtype.is_float() => Text::compound(format!("-{}", a.operand())),
        UnaryOp::Neg => call("wrapping_neg"),
        UnaryOp::Abs if dtype == DType::U8 => Text::atom(a.operand()),
        UnaryOp::Abs if dtype.is_integer() => call("wrapping_abs"),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round if !dtype.is_float() => {
            Text::atom(a.operand())
        }
        UnaryOp::Abs => call("abs"),
        UnaryOp::Sqrt => call("sqrt"),
        UnaryOp::Rsqrt => call("rsqrt"),
        UnaryOp::Exp => call("exp"),
        UnaryOp::Ln => call("ln"),
        UnaryOp::Tanh => call("tanh"),
        UnaryOp::Erf => call("erf"),
        UnaryOp::Sin => call("sin"),
        UnaryOp::Cos => call("cos"),
        UnaryOp::Floor => call("floor"),
        UnaryOp::Ceil => call("ceil"),
        UnaryOp::Round => call("round"),
        UnaryOp::Tf32 => call("tf32"),
    }
}

pub(super) fn binary(op: BinaryOp, a: &Text, b: &Text, dtype: DType) -> Text {
    let operator = match op {
        BinaryOp::And => Some("&&"),
        BinaryOp::Or => Some("||"),
        BinaryOp::Add if dtype.is_float() => Some("+"),
        BinaryOp::Sub if dtype.is_float() => Some("-"),
        BinaryOp::Mul if dtype.is_float() => Some("*"),
        BinaryOp::Div if dtype.is_float() => Some("/"),
        _ => None,
    };
    if let Some(operator) = operator {
        return Text::compound(format!("{} {operator} {}", a.operand(), b.operand()));
    }
    let name = match op {
        BinaryOp::Add => "wrapping_add",
        BinaryOp::Sub => "wrapping_sub",
        BinaryOp::Mul => "wrapping_mul",
        BinaryOp::Div => "quotient",
        BinaryOp::Rem => "remainder",
        BinaryOp::Min => "min",
        BinaryOp::Max => "max",
        BinaryOp::Pow => "pow",
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
