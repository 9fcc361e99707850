//! Lower ends that a launch decides: `T` in `dims(T = 1..=4096, S = T..=8192)`.
//!
//! An end is arithmetic on one dimension of those before, and grows with it. It is kept as a polynomial
//! in that dimension alone, until dimensions have their numbers.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{BinOp, Expr};

use super::errors::Errors;
use super::extents::constant;
use super::options::Options;
use crate::dag::limits::{MAX_EXTENT, MAX_INDEX, is_index, magnitude};
use crate::poly::{Atom, DimId, Facts, Interval, Poly};

/// The dimension that an end grows with, until its number is known.
const BASE: DimId = DimId(0);

const NO_END: &str = "a lower end is made of `+` and `*` of a dimension and integers, of `-` of an \
                      integer, and of `/` by one, as in `T..=512` or `(T + 3) / 4..=512`";

/// The lower bound of a dimension at each launch.
#[derive(Clone)]
pub(super) struct LowerEnd {
    /// The dimension that it grows with.
    pub(super) base: Ident,
    /// As the program spells it.
    pub(super) spelled: String,
    value: Poly,
}

impl LowerEnd {
    /// The end, with that number for its dimension.
    pub(super) fn value(&self, base: DimId) -> Poly {
        let number = |atom: &Atom| (*atom == Atom::Dim(BASE)).then(|| Poly::dim(base));
        self.value.substitute(&number, &Facts::default())
    }

    /// The least and the greatest value for a dimension in that range.
    pub(super) fn range(&self, base: Interval) -> Interval {
        let at = |extent| self.value.eval(&|_| extent, &|_| 0);
        Interval { lo: at(base.lo), hi: at(base.hi) }
    }
}

/// Reads a lower end that mentions a dynamic dimension; the outer `None` if `expr` mentions none, the
/// inner one after an error.
pub(super) fn read(
    expr: &Expr,
    options: &mut Options,
    errors: &mut Errors,
) -> Option<Option<LowerEnd>> {
    let mut mentioned = Vec::new();
    dynamic(expr, options, &mut mentioned);
    let base = mentioned.first()?.clone();
    options.used.extend(mentioned.iter().map(ToString::to_string));
    if let Some(other) = mentioned.iter().find(|it| **it != base) {
        let message = format!(
            "a lower end mentions one dimension that is known at launch only, and this one \
             mentions `{base}` and `{other}`: write one of them"
        );
        return Some(errors.at(expr, message));
    }
    let range = options.range(&base);
    let mut reader = Reader { options, errors, facts: Facts::of_dims([range]) };
    let spelled = expr.to_token_stream().to_string();
    Some(reader.value(expr).map(|value| LowerEnd { base, spelled, value }))
}

/// Returns the first dynamic dimension that an expression mentions.
pub(super) fn first_dynamic(expr: &Expr, options: &Options) -> Option<Ident> {
    let mut found = Vec::new();
    dynamic(expr, options, &mut found);
    found.into_iter().next()
}

/// Collects the dynamic dimensions that an expression mentions.
fn dynamic(expr: &Expr, options: &Options, found: &mut Vec<Ident>) {
    match expr {
        Expr::Path(it) => {
            let dim = options.dims.iter().find(|dim| it.path.is_ident(&dim.ident));
            found.extend(dim.filter(|it| it.dynamic).map(|it| it.ident.clone()));
        }
        Expr::Paren(it) => dynamic(&it.expr, options, found),
        Expr::Group(it) => dynamic(&it.expr, options, found),
        Expr::Cast(it) => dynamic(&it.expr, options, found),
        Expr::Unary(it) => dynamic(&it.expr, options, found),
        Expr::Binary(it) => {
            dynamic(&it.left, options, found);
            dynamic(&it.right, options, found);
        }
        _ => {}
    }
}

struct Reader<'a> {
    options: &'a mut Options,
    errors: &'a mut Errors,
    facts: Facts,
}

impl Reader<'_> {
    /// The value, which grows with the dimension.
    fn value(&mut self, expr: &Expr) -> Option<Poly> {
        let value = match expr {
            Expr::Path(_) => Poly::dim(BASE),
            Expr::Paren(it) => return self.value(&it.expr),
            Expr::Group(it) => return self.value(&it.expr),
            Expr::Binary(it) => {
                let (left, right) = (self.is_dynamic(&it.left), self.is_dynamic(&it.right));
                match (&it.op, left, right) {
                    (BinOp::Add(_), true, true) => self.value(&it.left)? + self.value(&it.right)?,
                    (BinOp::Add(_), true, false) => {
                        self.value(&it.left)? + self.integer(&it.right, 0)?.into()
                    }
                    (BinOp::Add(_), false, true) => {
                        self.value(&it.right)? + self.integer(&it.left, 0)?.into()
                    }
                    (BinOp::Sub(_), true, false) => {
                        self.value(&it.left)? - self.integer(&it.right, 0)?.into()
                    }
                    (BinOp::Mul(_), true, false) => self.product(expr, &it.left, &it.right)?,
                    (BinOp::Mul(_), false, true) => self.product(expr, &it.right, &it.left)?,
                    (BinOp::Div(_), true, false) => {
                        let divisor = self.integer(&it.right, 1)?;
                        self.value(&it.left)?.div(&divisor.into(), &self.facts)
                    }
                    _ => return self.errors.at(expr, NO_END),
                }
            }
            _ => return self.errors.at(expr, NO_END),
        };
        if !is_index(&value, &self.facts) {
            return self.errors.at(expr, format!("extents are at most {MAX_EXTENT}"));
        }
        Some(value)
    }

    fn product(&mut self, whole: &Expr, value: &Expr, times: &Expr) -> Option<Poly> {
        let (value, times) = (self.value(value)?, self.integer(times, 1)?);
        if magnitude(&value, &self.facts) * times as f64 > MAX_INDEX as f64 {
            return self.errors.at(whole, format!("extents are at most {MAX_EXTENT}"));
        }
        Some(value * times)
    }

    fn is_dynamic(&self, expr: &Expr) -> bool {
        first_dynamic(expr, self.options).is_some()
    }

    /// An integer of at least `least`.
    fn integer(&mut self, expr: &Expr, least: i64) -> Option<i64> {
        let value = constant(expr, self.options, self.errors)?;
        if (least..=MAX_EXTENT).contains(&value) {
            return Some(value);
        }
        self.errors.at(expr, format!("expected an integer from {least} on in a lower end"))
    }
}
