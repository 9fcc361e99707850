//! Exact integer arithmetic on axes and dimensions.

use super::elaborate::Elaborator;
use super::errors::Location;
use crate::dag::BinaryOp;
use crate::dag::limits::{
    MAX_FACTORS, MAX_INDEX, MAX_QUOTIENTS, MAX_TERMS, is_index, is_short, magnitude,
};
use crate::poly::Poly;

/// The message for an index beyond the limit.
pub(super) const TOO_LARGE: &str = "this index could exceed 2^53";

/// The message for an index that proofs would take long for.
fn too_long() -> String {
    format!(
        "this index has more than {MAX_TERMS} terms, {MAX_FACTORS} factors in a term, or \
         {MAX_QUOTIENTS} divisions in one another: compute it as a tensor of `i64`, and read that"
    )
}

impl Elaborator {
    /// Elaborates `a op b` with Rust's meaning; reports an error where that is not proven.
    pub(super) fn index_binary(
        &mut self,
        op: BinaryOp,
        a: &Poly,
        b: &Poly,
        location: Location,
    ) -> Option<Poly> {
        let facts = &self.known.facts;
        let (size_a, size_b) = (magnitude(a, facts), magnitude(b, facts));
        let (terms_a, terms_b) = (a.terms().count(), b.terms().count());
        let (size, terms) = match op {
            BinaryOp::Mul => (size_a * size_b, terms_a * terms_b),
            _ => (size_a + size_b, terms_a + terms_b),
        };
        if size > MAX_INDEX as f64 {
            return self.errors.at_location(location, TOO_LARGE);
        }
        if terms > MAX_TERMS {
            return self.errors.at_location(location, too_long());
        }
        let value = match op {
            BinaryOp::Add => Some(a.clone() + b.clone()),
            BinaryOp::Sub => Some(a.clone() - b.clone()),
            BinaryOp::Mul => Some(a.clone() * b.clone()),
            BinaryOp::Min => Some(a.lesser(b, facts)),
            BinaryOp::Max => Some(a.greater(b, facts)),
            BinaryOp::Div | BinaryOp::Rem => self.index_divide(op, a, b, location),
            BinaryOp::Pow
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Shl
            | BinaryOp::Shr => {
                let message = "indices know `+ - * / %`, `min`, `max` and comparisons";
                self.errors.at_location(location, message)
            }
        }?;
        // A remainder is spelled by terms that cancel.
        if !is_index(&value, &self.known.facts) {
            return self.errors.at_location(location, TOO_LARGE);
        }
        if !is_short(&value) {
            return self.errors.at_location(location, too_long());
        }
        Some(value)
    }

    fn index_divide(
        &mut self,
        op: BinaryOp,
        a: &Poly,
        b: &Poly,
        location: Location,
    ) -> Option<Poly> {
        let facts = &self.known.facts;
        if !b.is_positive(facts) {
            let b = self.name_poly(b);
            let message = format!("the divisor `{b}` may be 0 or less");
            return self.errors.at_location(location, message);
        }
        if let (Some(a), Some(b)) = (a.as_constant(), b.as_constant()) {
            return Some(Poly::constant(if op == BinaryOp::Div { a / b } else { a % b }));
        }
        if !self.known.is_nonnegative(a) {
            let a = self.name_poly(a);
            let message = format!(
                "`{a}` may be negative, and an index is divided only where it cannot be; \
                 add a multiple of the divisor first"
            );
            return self.errors.at_location(location, message);
        }
        Some(if op == BinaryOp::Div { a.div(b, facts) } else { a.modulo(b, facts) })
    }

    /// The text of a polynomial with the program's names in it.
    pub(super) fn name_poly(&self, poly: &Poly) -> String {
        let dims = self.options.dims.iter().filter(|it| it.dynamic);
        let dims: Vec<String> = dims.map(|it| it.ident.to_string()).collect();
        let mut text = String::new();
        let write = poly.write_named(&mut text, &|atom, f| match atom {
            crate::poly::Atom::Dim(it) => f.write_str(&dims[it.0 as usize]),
            crate::poly::Atom::Var(it) => f.write_str(&self.vars[it.0 as usize].name),
            _ => Ok(()),
        });
        write.expect("writing to a string does not fail");
        text
    }

    /// The least and the greatest value of an index, as text: `1..=K`.
    pub(super) fn name_range(&self, poly: &Poly) -> String {
        let (mut lo, mut hi) = (poly.clone(), poly.clone());
        for var in self.around.iter().rev() {
            let last = self.vars[var.0 as usize].extent.clone() - Poly::constant(1);
            for (bound, upper) in [(&mut lo, false), (&mut hi, true)] {
                let Some((coefficient, rest)) = bound.split_linear(*var) else { continue };
                let range = coefficient.interval(&self.known.facts);
                if range.lo >= 0 {
                    *bound = if upper { coefficient * last.clone() + rest } else { rest };
                } else if range.hi <= 0 {
                    *bound = if upper { rest } else { coefficient * last.clone() + rest };
                }
            }
        }
        if lo.has_vars() || hi.has_vars() {
            let range = poly.interval(&self.known.facts);
            return format!("{}..={}", range.lo, range.hi);
        }
        format!("{}..={}", self.name_poly(&lo), self.name_poly(&hi))
    }
}
