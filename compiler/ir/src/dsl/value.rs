//! The meaning of an expression of the program, before and after its type is known.
//!
//! Literals have no type until they meet a typed operand, as in Rust. Integers made of axes and
//! dimensions alone are *indices*: exact, unbounded, and the only values whose bounds can be proven.

use super::errors::{Errors, Location};
use crate::dag::{DType, Expr, Literal, integer_range};
use crate::poly::Poly;

/// Above this many operations in one element's definition, something has gone wrong.
const MAX_SIZE: usize = 10_000;
/// Above this depth, recursion over the expression could exhaust a stack.
const MAX_DEPTH: usize = 200;

/// The meaning of an expression of the program.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) location: Location,
    size: usize,
    /// The longest chain of operations.
    depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// An integer literal, with no type yet.
    Integer(i64),
    /// Arithmetic on float literals, with no type yet: constants are of type `F64`.
    Float(Expr),
    /// A choice between literals, with no type yet.
    Choice(Box<Choice>),
    /// An integer known from axes and dimensions.
    Index(Poly),
    /// A value of a type; of `F16` and `Bf16` only as read or cast, never as computed.
    Typed(Expr, DType),
}

/// `if test { then } else { otherwise }` of literals: both integers, or both floats.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    test: Expr,
    then: Value,
    otherwise: Value,
}

impl Choice {
    /// Returns a choice between two values, if both are literals of one kind.
    pub(super) fn of_literals(test: &Expr, then: &Value, otherwise: &Value) -> Option<Self> {
        let are_literals = then.is_literal() && otherwise.is_literal();
        let is_one_kind = then.default_type() == otherwise.default_type();
        let (test, then, otherwise) = (test.clone(), then.clone(), otherwise.clone());
        (are_literals && is_one_kind).then_some(Self { test, then, otherwise })
    }
}

impl Value {
    pub(super) fn new(kind: Kind, location: Location) -> Self {
        Self { kind, location, size: 1, depth: 1 }
    }

    /// A value made of `parts`; nothing, with an error reported, if it is too large.
    pub(super) fn of_parts(
        kind: Kind,
        location: Location,
        parts: &[&Value],
        errors: &mut Errors,
    ) -> Option<Self> {
        let (size, depth) = Self::measure(location, parts, errors)?;
        Some(Self { kind, location, size, depth })
    }

    /// Returns size and depth of a value made of `parts`; nothing, with an error reported, if too
    /// large.
    pub(super) fn measure(
        location: Location,
        parts: &[&Value],
        errors: &mut Errors,
    ) -> Option<(usize, usize)> {
        let size = parts.iter().map(|it| it.size).fold(1, usize::saturating_add);
        let depth = 1 + parts.iter().map(|it| it.depth).max().unwrap_or(0);
        if size > MAX_SIZE || depth > MAX_DEPTH {
            let message = "this expression is too large; bind parts of it to tensors of their own \
                           with `let t = compute(..)`";
            return errors.at_location(location, message);
        }
        Some((size, depth))
    }

    /// Returns the same value at another location.
    pub(super) fn located(mut self, location: Location) -> Self {
        self.location = location;
        self
    }

    /// The value as an index, if it is one or could be.
    pub(super) fn as_index(&self) -> Option<Poly> {
        match &self.kind {
            Kind::Index(poly) | Kind::Typed(Expr::Index(poly), _) => Some(poly.clone()),
            Kind::Integer(value) => Some(Poly::constant(*value)),
            Kind::Float(_) | Kind::Choice(_) | Kind::Typed(..) => None,
        }
    }

    /// Returns whether it is made of literals alone, which take the type of what they meet.
    fn is_literal(&self) -> bool {
        matches!(self.kind, Kind::Integer(_) | Kind::Float(_) | Kind::Choice(_))
    }

    /// Returns whether it is made of literals alone that are values of a type.
    pub(super) fn takes(&self, dtype: DType) -> bool {
        match &self.kind {
            Kind::Float(_) => dtype.is_float(),
            Kind::Integer(it) => dtype.is_integer() && integer_range(dtype).contains(*it),
            Kind::Choice(it) => it.then.takes(dtype) && it.otherwise.takes(dtype),
            Kind::Index(_) | Kind::Typed(..) => false,
        }
    }

    /// The type in which arithmetic on this value is done; `None` for a literal or an index.
    pub(super) fn compute_type(&self) -> Option<DType> {
        match &self.kind {
            Kind::Typed(_, dtype) => Some(dtype.compute()),
            _ => None,
        }
    }

    /// The name of its type in messages.
    pub(super) fn type_name(&self) -> &'static str {
        match &self.kind {
            Kind::Integer(_) => "an integer",
            Kind::Float(_) => "a float",
            Kind::Choice(it) => it.then.type_name(),
            Kind::Index(_) => "an index",
            Kind::Typed(_, dtype) => dtype.name(),
        }
    }

    /// The type that it has if nothing else decides: `f32`, `i32`, and `i64` for indices.
    pub(super) fn default_type(&self) -> DType {
        match &self.kind {
            Kind::Integer(_) => DType::I32,
            Kind::Float(_) => DType::F32,
            Kind::Choice(it) => it.then.default_type(),
            Kind::Index(_) => DType::I64,
            Kind::Typed(_, dtype) => *dtype,
        }
    }

    /// The value as an operand of arithmetic in `dtype`, which is not a half type: literals take
    /// that type, halves are widened, anything else is an error.
    pub(super) fn operand(&self, dtype: DType, errors: &mut Errors) -> Option<Expr> {
        match &self.kind {
            Kind::Typed(expr, own) if own.compute() == dtype => Some(widen(expr.clone(), *own)),
            Kind::Float(expr) if dtype.is_float() => Some(retype(expr, dtype)),
            Kind::Integer(it) if dtype.is_integer() && integer_range(dtype).contains(*it) => {
                Some(Expr::Const(Literal::Int(*it), dtype))
            }
            Kind::Choice(it) if dtype != DType::Bool => {
                let (then, otherwise) =
                    (it.then.operand(dtype, errors), it.otherwise.operand(dtype, errors));
                Some(it.test.clone().select(then?, otherwise?))
            }
            Kind::Index(poly) if dtype == DType::I64 => Some(Expr::Index(poly.clone())),
            _ => errors.at_location(self.location, self.no_operand(dtype)),
        }
    }

    /// The message for a value that is no operand of arithmetic in `dtype`.
    fn no_operand(&self, dtype: DType) -> String {
        let found = self.type_name();
        match &self.kind {
            Kind::Integer(value) if dtype.is_integer() => {
                format!("{value} does not fit into {dtype}")
            }
            Kind::Integer(value) if dtype.is_float() => {
                format!("expected {dtype}, found an integer: write `{value}.0`")
            }
            _ if dtype == DType::Bool => format!("expected a condition, found {found}: compare it"),
            Kind::Float(_) => {
                format!("expected {dtype}, found a float: convert the other side with `as f32`")
            }
            Kind::Typed(_, DType::Bool) => format!("expected {dtype}, found {found}"),
            _ => format!("expected {dtype}, found {found}: convert it with `as {dtype}`"),
        }
    }

    /// The value as it is stored in a tensor of `dtype`: half types round here, and only here.
    pub(super) fn stored(&self, dtype: DType, errors: &mut Errors) -> Option<Expr> {
        match &self.kind {
            Kind::Typed(expr, own) if *own == dtype => Some(expr.clone()),
            _ => self.operand(dtype.compute(), errors).map(|it| cast(dtype, dtype.compute(), it)),
        }
    }

    /// The value in its own type, or in the one it has if nothing else decides.
    pub(super) fn typed(&self, errors: &mut Errors) -> Option<(Expr, DType)> {
        let dtype = self.default_type();
        self.stored(dtype, errors).map(|it| (it, dtype))
    }

    /// The value ready for arithmetic, with the type of the arithmetic.
    pub(super) fn widened(&self, errors: &mut Errors) -> Option<(Expr, DType)> {
        let dtype = self.default_type().compute();
        self.operand(dtype, errors).map(|it| (it, dtype))
    }
}

/// Converts both values to the type of their combination.
pub(super) fn unify(a: &Value, b: &Value, errors: &mut Errors) -> Option<(Expr, Expr, DType)> {
    let dtype = match (a.compute_type(), b.compute_type()) {
        (Some(x), Some(y)) if x != y => {
            let message = format!(
                "the sides have different types, {} and {}: convert one with `as`",
                a.type_name(),
                b.type_name()
            );
            return errors.at_location(a.location.to(b.location), message);
        }
        (Some(dtype), _) | (_, Some(dtype)) => dtype,
        // An index takes an integer along; a float literal stays a float.
        (None, None) if matches!(b.kind, Kind::Float(_)) => DType::F32,
        (None, None) if a.is_literal() && a.default_type().is_integer() => b.default_type(),
        (None, None) => a.default_type(),
    };
    let (a, b) = (a.operand(dtype, errors), b.operand(dtype, errors));
    Some((a?, b?, dtype))
}

/// The conversion of `expr` from one type to another, by way of `F32` where a half is rounded
/// from anything wider, so that there is one answer on every device.
pub(super) fn cast(to: DType, from: DType, expr: Expr) -> Expr {
    if to == from {
        return expr;
    }
    let half = |it: DType| it != it.compute();
    let needs_stop = |half_side: DType, other: DType| half(half_side) && other != DType::F32;
    if needs_stop(to, from) || needs_stop(from, to) {
        return cast(to, DType::F32, cast(DType::F32, from, expr));
    }
    Expr::Cast(to, Box::new(expr))
}

fn widen(expr: Expr, dtype: DType) -> Expr {
    cast(dtype.compute(), dtype, expr)
}

/// Arithmetic on untyped float literals, in a type.
fn retype(expr: &Expr, dtype: DType) -> Expr {
    match expr {
        Expr::Const(value, _) => Expr::Const(*value, dtype),
        other => other.map_children(&mut |it| retype(it, dtype)),
    }
}
