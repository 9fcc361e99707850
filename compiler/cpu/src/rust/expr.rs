//! Printing of expressions and indices.

use super::{Printer, element_type};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal, Subscript, TensorId, UnaryOp};
use tvmtune_ir::half::{Bf16, F16};
use tvmtune_ir::poly::{Atom, Poly};
use tvmtune_schedule::print::{self, Text, comparison, function, operator};

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
        let value = |it: &Expr| format!("({} as i64)", self.expr(it).operand());
        let offset = print::offset(self.nest.buffer(tensor), index, &|it| self.poly(it), &value);
        let buffer = self.names.buffer(tensor);
        // A literal is a `usize` as it stands.
        match offset.text.bytes().all(|it| it.is_ascii_digit()) {
            true => format!("{buffer}[{}]", offset.text),
            false => format!("{buffer}[{} as usize]", offset.operand()),
        }
    }

    fn slice(&self, tensor: TensorId, index: &[Subscript]) -> Option<String> {
        if self.slices.is_empty() {
            return None;
        }
        let offset = self.nest.buffer(tensor).position(&affine(index)?);
        self.slices.get(&(tensor, offset)).cloned()
    }

    pub(super) fn expr(&self, expr: &Expr) -> Text {
        if let Some(name) = self.shared.get(&std::ptr::from_ref(expr)) {
            return Text::atom(name.clone());
        }
        match expr {
            Expr::Const(value, dtype) => literal(*value, *dtype),
            Expr::Index(poly) => match poly.as_constant() {
                Some(value) => literal(Literal::Int(value), DType::I64),
                None => self.poly(poly),
            },
            Expr::Scalar(scalar) => Text::atom(self.names.scalar(*scalar)),
            Expr::Read { tensor, index } => Text::atom(self.read(*tensor, index)),
            Expr::Unary(op, a) => unary(*op, &self.receiver(a), a.dtype(self.nest)),
            Expr::Binary(op, a, b) => {
                binary(*op, &self.receiver(a), &self.expr(b), a.dtype(self.nest))
            }
            Expr::Compare(op, a, b) => Text::infix(&self.expr(a), comparison(*op), &self.expr(b)),
            Expr::Select { condition, then, otherwise } => {
                let [condition, then, otherwise] =
                    [condition, then, otherwise].map(|it| self.expr(it).text);
                // In parentheses: a statement must not end at its closing brace.
                Text::atom(format!("(if {condition} {{ {then} }} else {{ {otherwise} }})"))
            }
            Expr::Cast(to, a) => cast(&self.expr(a), a.dtype(self.nest), *to),
        }
    }
}

impl Printer<'_> {
    /// An expression whose methods are called. Loop variables have no type before a use decides it, and
    /// then no methods.
    fn receiver(&self, expr: &Expr) -> Text {
        let text = self.expr(expr);
        match expr {
            Expr::Index(poly) if poly.as_constant().is_none() => {
                Text::atom(format!("core::convert::identity::<i64>({})", text.text))
            }
            _ => text,
        }
    }
}

/// A polynomial over the names that `leaf` gives for dimensions and variables, of type `i64`.
pub fn poly(value: &Poly, leaf: &dyn Fn(&Atom) -> String) -> Text {
    print::poly(value, &|it| atom(it, leaf))
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

fn literal(value: Literal, dtype: DType) -> Text {
    let text = match (value, dtype) {
        (Literal::Float(it), DType::F16) => {
            format!("rt::half::f16::from_bits({:#x})", F16::from_f64(it).to_bits())
        }
        (Literal::Float(it), DType::Bf16) => {
            format!("rt::half::bf16::from_bits({:#x})", Bf16::from_f64(it).to_bits())
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
    if text.starts_with('-') { Text::compound(text) } else { Text::atom(text) }
}

fn float(value: f64, digits: String, dtype: DType) -> String {
    match value {
        f64::INFINITY => format!("{dtype}::INFINITY"),
        f64::NEG_INFINITY => format!("{dtype}::NEG_INFINITY"),
        _ => format!("{digits}_{dtype}"),
    }
}

fn unary(op: UnaryOp, a: &Text, dtype: DType) -> Text {
    let operand = a.operand();
    let call = |name: &str| Text::atom(format!("{operand}.{name}()"));
    let of_runtime =
        |name: &str| Text::atom(format!("rt::math::{name}{}({})", bits(dtype), a.text));
    match op {
        UnaryOp::Not => Text::compound(format!("!{operand}")),
        UnaryOp::Neg if dtype.is_float() => Text::compound(format!("-{operand}")),
        UnaryOp::Neg => call("wrapping_neg"),
        UnaryOp::Abs if dtype.is_unsigned() => Text::atom(operand),
        UnaryOp::Abs if dtype.is_integer() => call("wrapping_abs"),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round if !dtype.is_float() => Text::atom(operand),
        UnaryOp::Rsqrt => Text::compound(format!("1.0 / {operand}.sqrt()")),
        UnaryOp::Round => call("round_ties_even"),
        UnaryOp::Tf32 => Text::atom(format!("rt::math::tf32({})", a.text)),
        UnaryOp::Abs | UnaryOp::Sqrt | UnaryOp::Floor | UnaryOp::Ceil => call(&function(op)),
        // Those of Rust are those of the system.
        UnaryOp::Exp
        | UnaryOp::Ln
        | UnaryOp::Exp2
        | UnaryOp::Log2
        | UnaryOp::ExpM1
        | UnaryOp::Ln1p
        | UnaryOp::Tanh
        | UnaryOp::Erf
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Atan => of_runtime(&function(op)),
    }
}

/// Returns what the names of functions of the runtime end with.
fn bits(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "64" } else { "" }
}

/// The sum of a product and a number, rounded once.
pub(super) fn fma(a: &Text, b: &Text, sum: &str) -> String {
    format!("rt::math::fma({}, {}, {sum})", a.text, b.text)
}

pub(super) fn binary(op: BinaryOp, a: &Text, b: &Text, dtype: DType) -> Text {
    let is_infix = dtype.is_float() || matches!(op, BinaryOp::And | BinaryOp::Or);
    if let Some((symbol, _)) = operator(op).filter(|_| is_infix) {
        return Text::infix(a, symbol, b);
    }
    let call = |name: &str| Text::atom(format!("{name}({}, {})", a.text, b.text));
    let method = |name: &str| Text::atom(format!("{}.{name}({})", a.operand(), b.text));
    match op {
        BinaryOp::Div => call("rt::math::Integer::quotient"),
        BinaryOp::Rem => call("rt::math::Integer::remainder"),
        BinaryOp::Min if dtype.is_float() => call("rt::math::Float::smaller"),
        BinaryOp::Max if dtype.is_float() => call("rt::math::Float::larger"),
        BinaryOp::Min | BinaryOp::Max => method(&function(op)),
        BinaryOp::Pow => call(&format!("rt::math::pow{}", bits(dtype))),
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => {
            method(&format!("wrapping_{}", function(op)))
        }
        BinaryOp::BitAnd => Text::infix(a, "&", b),
        BinaryOp::BitOr => Text::infix(a, "|", b),
        BinaryOp::BitXor => Text::infix(a, "^", b),
        // These count modulo the bits of the type.
        BinaryOp::Shl | BinaryOp::Shr => {
            let (name, a) = (function(op), a.operand());
            Text::atom(format!("{a}.wrapping_{name}({} as u32)", b.operand()))
        }
        BinaryOp::And | BinaryOp::Or => unreachable!("those are operators"),
    }
}

/// A conversion as Rust's `as`, also of types for which there is no `as`.
fn cast(a: &Text, from: DType, to: DType) -> Text {
    if from == to {
        return a.clone();
    }
    let operand = a.operand();
    match (from, to) {
        (DType::F16 | DType::Bf16, DType::F32) => Text::atom(format!("{operand}.to_f32()")),
        (DType::F16 | DType::Bf16, _) => {
            cast(&Text::atom(format!("{operand}.to_f64()")), DType::F64, to)
        }
        (DType::F32, DType::F16 | DType::Bf16) => {
            Text::atom(format!("{}::from_f32({})", element_type(to), a.text))
        }
        (_, DType::F16 | DType::Bf16) => {
            let wide = cast(a, from, DType::F64);
            Text::atom(format!("rt::math::{to}({})", wide.text))
        }
        (DType::F32 | DType::F64, DType::Bool) => Text::compound(format!("{operand} != 0.0")),
        (_, DType::Bool) => Text::compound(format!("{operand} != 0")),
        (DType::Bool, DType::F32 | DType::F64) => {
            Text::compound(format!("{operand} as u8 as {to}"))
        }
        _ => Text::compound(format!("{operand} as {to}")),
    }
}
