//! Printing: everything that the text of a nest, Rust and CUDA C++ have in common. Where the
//! languages differ, their printers decide.

pub mod names;

pub use names::{Language, Names};

use std::fmt::Debug;

use crate::nest::Buffer;
use tvmtune_ir::dag::expr::operation_name;
use tvmtune_ir::dag::{BinaryOp, CompareOp, Expr, Subscript};
use tvmtune_ir::poly::{Atom, Poly};

/// The text of an expression.
#[derive(Clone, Debug)]
pub struct Text {
    /// The expression, with no parentheses around it.
    pub text: String,
    /// True of a token, a call or an element, which bind tighter than any operator.
    is_atom: bool,
}

impl Text {
    /// Makes a token, a call or an element.
    pub fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_atom: true }
    }

    /// Makes an expression with an operator outside of all parentheses.
    pub fn compound(text: String) -> Self {
        Self { text, is_atom: false }
    }

    /// Makes `a symbol b`.
    pub fn infix(a: &Self, symbol: &str, b: &Self) -> Self {
        Self::compound(format!("{} {symbol} {}", a.operand(), b.operand()))
    }

    /// Returns the text as an operand or a receiver, parenthesized if necessary.
    pub fn operand(&self) -> String {
        if self.is_atom { self.text.clone() } else { format!("({})", self.text) }
    }
}

/// Prints a polynomial as a sum of products, the constant last; `atom` prints their factors.
pub fn poly(value: &Poly, atom: &dyn Fn(&Atom) -> String) -> Text {
    let (constant, others): (Vec<_>, Vec<_>) = value.terms().partition(|it| it.0.is_empty());
    let terms: Vec<(&[Atom], i64)> = others.into_iter().chain(constant).collect();
    let mut text = String::new();
    for (n, (atoms, coefficient)) in terms.iter().enumerate() {
        text.push_str(match (n, *coefficient < 0) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        });
        let magnitude = coefficient.unsigned_abs();
        let coefficient = (magnitude != 1 || atoms.is_empty()).then(|| magnitude.to_string());
        let factors = coefficient.into_iter().chain(atoms.iter().map(atom));
        text.push_str(&factors.collect::<Vec<String>>().join(" * "));
    }
    match terms.as_slice() {
        [] => Text::atom("0"),
        [([_], 1) | ([], 0..)] => Text::atom(text),
        _ => Text::compound(text),
    }
}

/// Prints the row-major position of an element; `value` prints a subscript that is computed from
/// data, as an operand of a product.
pub fn offset<S>(
    buffer: &Buffer<S>,
    index: &[Subscript],
    poly: &dyn Fn(&Poly) -> Text,
    value: &dyn Fn(&Expr) -> String,
) -> Text {
    let (mut affine, mut sum) = (Poly::default(), Vec::new());
    let mut stride = Poly::constant(1);
    for (subscript, extent) in index.iter().zip(&buffer.shape).rev() {
        match subscript {
            Subscript::Affine(it) => affine += it.clone() * stride.clone(),
            Subscript::Value(it) => sum.push(match stride.as_constant() {
                Some(1) => value(it),
                _ => format!("{} * {}", value(it), poly(&stride).operand()),
            }),
        }
        stride = stride * extent.clone();
    }
    if sum.is_empty() {
        return poly(&affine);
    }
    if !affine.is_zero() {
        sum.insert(0, poly(&affine).text);
    }
    Text::compound(sum.join(" + "))
}

/// Returns the symbol of a comparison.
pub fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Ge => ">=",
        CompareOp::Gt => ">",
    }
}

/// Returns the symbol of an operator and its precedence; `None` of an operation that is a call.
pub fn operator(op: BinaryOp) -> Option<(&'static str, u8)> {
    match op {
        BinaryOp::Or => Some(("||", 1)),
        BinaryOp::And => Some(("&&", 2)),
        BinaryOp::Add => Some(("+", 4)),
        BinaryOp::Sub => Some(("-", 4)),
        BinaryOp::Mul => Some(("*", 5)),
        BinaryOp::Div => Some(("/", 5)),
        BinaryOp::Rem => Some(("%", 5)),
        BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Pow
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr => None,
    }
}

/// Returns the function that an operation is a call of.
pub fn function(op: impl Debug) -> String {
    operation_name(&op)
}
