//! Printing of expressions and indices.

use half::{bf16, f16};

use super::{Printer, element_type, method};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Expr, Literal, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Atom, Poly};

/// The text of an expression, and whether it needs parentheses as an operand.
pub struct ExprText {
    pub text: String,
    is_atom: bool,
}

impl ExprText {
    /// Makes a token, a call or an index, which bind tighter than any operator.
    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_atom: true }
    }

    /// Makes an expression with an operator outside of all parentheses.
    fn compound(text: String) -> Self {
        Self { text, is_atom: false }
    }

    /// Returns the text as an operand or receiver, parenthesized if necessary.
    pub fn operand(&self) -> String {
        if self.is_atom { self.text.clone() } else { format!("({})", self.text) }
    }
}

impl Printer<'_> {
    /// An element of a buffer, as a place.
    pub(super) fn element(&self, tensor: TensorId, index: &[Poly]) -> String {
        let index: Vec<Subscript> = index.iter().cloned().map(Subscript::Affine).collect();
        self.read(tensor, &index)
    }

    /// `buffer[row-major offset]`, or an element of a slice that stands for it.
    fn read(&self, tensor: TensorId, index: &[Subscript]) -> String {
        if let Some(place) = self.slice(tensor, index) {
            return place;
        }
        let shape = &self.nest.buffer(tensor).shape;
        let (mut affine, mut values) = (Poly::default(), Vec::new());
        let mut stride = Poly::constant(1);
        for (subscript, extent) in index.iter().zip(shape).rev() {
            match subscript {
                Subscript::Affine(poly) => affine += poly.clone() * stride.clone(),
                Subscript::Value(value) => {
                    let value = self.expr(value).operand();
                    values.push(match stride.as_constant() {
                        Some(1) => format!("({value} as i64)"),
                        _ => format!("({value} as i64) * {}", self.poly(&stride).operand()),
                    });
                }
            }
            stride = stride * extent.clone();
        }
        let mut offset = self.poly(&affine);
        if !values.is_empty() {
            let affine = (!affine.is_zero()).then_some(offset.text);
            let sum: Vec<String> = affine.into_iter().chain(values).collect();
            offset = ExprText::compound(sum.join(" + "));
        }
        let buffer = self.names.buffer(tensor);
        // A literal is a `usize` as it stands.
        match affine.as_constant() {
            Some(constant) if offset.is_atom => format!("{buffer}[{constant}]"),
            _ => format!("{buffer}[{} as usize]", offset.operand()),
        }
    }

    fn slice(&self, tensor: TensorId, index: &[Subscript]) -> Option<String> {
        if self.slices.is_empty() {
            return None;
        }
        let offset = self.offset(tensor, &affine(index)?);
        self.slices.get(&(tensor, offset)).cloned()
    }

    pub(super) fn expr(&self, expr: &Expr) -> ExprText {
        match expr {
            Expr::Const(value, dtype) => literal(*value, *dtype),
            Expr::Index(poly) => match poly.as_constant() {
                Some(value) => literal(Literal::Int(value), DType::I64),
                None => self.poly(poly),
            },
            Expr::Scalar(scalar) => ExprText::atom(self.names.scalar(*scalar)),
            Expr::Read { tensor, index } => ExprText::atom(self.read(*tensor, index)),
            Expr::Unary(op, a) => unary(*op, &self.expr(a), a.dtype(self.nest)),
            Expr::Binary(op, a, b) => binary(*op, &self.expr(a), &self.expr(b), a.dtype(self.nest)),
            Expr::Compare(op, a, b) => {
                let (a, b) = (self.expr(a).operand(), self.expr(b).operand());
                ExprText::compound(format!("{a} {} {b}", comparison(*op)))
            }
            Expr::Select { condition, then, otherwise } => {
                let [condition, then, otherwise] =
                    [condition, then, otherwise].map(|it| self.expr(it).text);
                // In parentheses: a statement must not end at its closing brace.
                ExprText::atom(format!("(if {condition} {{ {then} }} else {{ {otherwise} }})"))
            }
            Expr::Cast(to, a) => cast(&self.expr(a), a.dtype(self.nest), *to),
        }
    }
}

/// A polynomial over the names that `leaf` gives for dimensions and variables, of type `i64`.
pub fn poly(value: &Poly, leaf: &dyn Fn(&Atom) -> String) -> ExprText {
    let (mut constants, mut others) = (Vec::new(), Vec::new());
    for (atoms, coefficient) in value.terms() {
        if atoms.is_empty() { &mut constants } else { &mut others }.push((atoms, coefficient));
    }
    let mut text = String::new();
    let terms: Vec<_> = others.into_iter().chain(constants).collect();
    for (n, (atoms, coefficient)) in terms.iter().enumerate() {
        text.push_str(match (n, *coefficient < 0) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        });
        let magnitude = coefficient.unsigned_abs();
        let coefficient = (magnitude != 1 || atoms.is_empty()).then(|| magnitude.to_string());
        let factors = coefficient.into_iter().chain(atoms.iter().map(|it| atom(it, leaf)));
        text.push_str(&factors.collect::<Vec<String>>().join(" * "));
    }
    match terms.as_slice() {
        [] => ExprText::atom("0"),
        [(atoms, 1)] if atoms.len() == 1 => ExprText::atom(text),
        [([], 0..)] => ExprText::atom(text),
        _ => ExprText::compound(text),
    }
}

fn atom(atom: &Atom, leaf: &dyn Fn(&Atom) -> String) -> String {
    let (a, name, b) = match atom {
        Atom::Dim(_) | Atom::Var(_) => return leaf(atom),
        Atom::Div(a, b) => (a, "div_euclid", b),
        Atom::Mod(a, b) => (a, "rem_euclid", b),
        Atom::Min(a, b) => (a, "min", b),
        Atom::Max(a, b) => (a, "max", b),
    };
    // Written as a function of the type: a method of a bare literal has no type to belong to.
    format!("i64::{name}({}, {})", poly(a, leaf).text, poly(b, leaf).text)
}

fn literal(value: Literal, dtype: DType) -> ExprText {
    let text = match (value, dtype) {
        (Literal::Float(it), DType::F16) => {
            format!("rt::half::f16::from_bits({:#x})", f16::from_f64(it).to_bits())
        }
        (Literal::Float(it), DType::Bf16) => {
            format!("rt::half::bf16::from_bits({:#x})", bf16::from_f64(it).to_bits())
        }
        (Literal::Float(it), _) if it.is_nan() => format!("{dtype}::NAN"),
        (Literal::Float(it), DType::F32) => {
            float(f64::from(it as f32), format!("{:?}", it as f32), dtype)
        }
        (Literal::Float(it), _) => float(it, format!("{it:?}"), dtype),
        (Literal::Int(it), DType::F32 | DType::F64) => {
            return literal(Literal::Float(it as f64), dtype);
        }
        (Literal::Int(it), _) => format!("{it}_{dtype}"),
        (Literal::Bool(it), _) => it.to_string(),
    };
    // A method call binds tighter than a sign.
    if text.starts_with('-') { ExprText::compound(text) } else { ExprText::atom(text) }
}

fn float(value: f64, digits: String, dtype: DType) -> String {
    match value {
        f64::INFINITY => format!("{dtype}::INFINITY"),
        f64::NEG_INFINITY => format!("{dtype}::NEG_INFINITY"),
        _ => format!("{digits}_{dtype}"),
    }
}

fn unary(op: UnaryOp, a: &ExprText, dtype: DType) -> ExprText {
    let operand = a.operand();
    let call = |name: &str| ExprText::atom(format!("{operand}.{name}()"));
    match op {
        UnaryOp::Not => ExprText::compound(format!("!{operand}")),
        UnaryOp::Neg if dtype.is_float() => ExprText::compound(format!("-{operand}")),
        UnaryOp::Neg => call("wrapping_neg"),
        UnaryOp::Abs if dtype == DType::U8 => ExprText::atom(operand),
        UnaryOp::Abs if dtype.is_integer() => call("wrapping_abs"),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round if !dtype.is_float() => {
            ExprText::atom(operand)
        }
        UnaryOp::Abs => call("abs"),
        UnaryOp::Sqrt => call("sqrt"),
        UnaryOp::Rsqrt => ExprText::compound(format!("1.0 / {operand}.sqrt()")),
        UnaryOp::Exp => call("exp"),
        UnaryOp::Ln => call("ln"),
        UnaryOp::Tanh => call("tanh"),
        UnaryOp::Erf if dtype == DType::F64 => {
            ExprText::atom(format!("rt::math::erf64({})", a.text))
        }
        UnaryOp::Erf => ExprText::atom(format!("rt::math::erf({})", a.text)),
        UnaryOp::Sin => call("sin"),
        UnaryOp::Cos => call("cos"),
        UnaryOp::Floor => call("floor"),
        UnaryOp::Ceil => call("ceil"),
        UnaryOp::Round => call("round_ties_even"),
        UnaryOp::Tf32 => ExprText::atom(format!("rt::math::tf32({})", a.text)),
    }
}

pub(super) fn binary(op: BinaryOp, a: &ExprText, b: &ExprText, dtype: DType) -> ExprText {
    let operator = match op {
        BinaryOp::And => Some("&&"),
        BinaryOp::Or => Some("||"),
        BinaryOp::Add if dtype.is_float() => Some("+"),
        BinaryOp::Sub if dtype.is_float() => Some("-"),
        BinaryOp::Mul if dtype.is_float() => Some("*"),
        BinaryOp::Div if dtype.is_float() => Some("/"),
        BinaryOp::Rem if dtype.is_float() => Some("%"),
        _ => None,
    };
    if let Some(operator) = operator {
        return ExprText::compound(format!("{} {operator} {}", a.operand(), b.operand()));
    }
    let trait_method = match op {
        BinaryOp::Div => "rt::math::Integer::quotient",
        BinaryOp::Rem => "rt::math::Integer::remainder",
        _ => {
            let method = method(op).expect("all others are methods");
            return ExprText::atom(format!("{}.{method}({})", a.operand(), b.text));
        }
    };
    ExprText::atom(format!("{trait_method}({}, {})", a.text, b.text))
}

fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Ge => ">=",
        CompareOp::Gt => ">",
    }
}

/// A conversion as Rust's `as`, also of types for which there is no `as`.
fn cast(a: &ExprText, from: DType, to: DType) -> ExprText {
    if from == to {
        return ExprText { text: a.text.clone(), is_atom: a.is_atom };
    }
    let operand = a.operand();
    match (from, to) {
        (DType::F16 | DType::Bf16, DType::F32) => ExprText::atom(format!("{operand}.to_f32()")),
        (DType::F16 | DType::Bf16, _) => {
            cast(&ExprText::atom(format!("{operand}.to_f64()")), DType::F64, to)
        }
        (DType::F32, DType::F16 | DType::Bf16) => {
            ExprText::atom(format!("{}::from_f32({})", element_type(to), a.text))
        }
        (_, DType::F16 | DType::Bf16) => {
            let wide = cast(a, from, DType::F64);
            ExprText::atom(format!("{}::from_f64({})", element_type(to), wide.text))
        }
        (DType::F32 | DType::F64, DType::Bool) => ExprText::compound(format!("{operand} != 0.0")),
        (_, DType::Bool) => ExprText::compound(format!("{operand} != 0")),
        (DType::Bool, DType::F32 | DType::F64) => {
            ExprText::compound(format!("{operand} as u8 as {to}"))
        }
        _ => ExprText::compound(format!("{operand} as {to}")),
    }
}
