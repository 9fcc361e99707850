//! Symbolic intervals: the values of an index while some of its variables run and others are fixed.
//!
//! They give the region of a tensor that is read: by one iteration of a loop (the span of that loop's
//! variable is then a single value) or by all of a compute.
//!
//! # Invariants
//!
//! - Sizes depend on dimensions only: they are extents of memory.
//! - Monotone: smaller spans of the variables never give a span that reaches further. Indices that
//!   could only be bounded loosely have no span.

use crate::poly::{Atom, Facts, Poly, VarId};

/// The integers from `first` on, `size` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub first: Poly,
    /// Number of values; at least 1.
    pub size: Poly,
}

/// The span of a variable.
pub type VarSpan<'a> = &'a dyn Fn(VarId) -> Option<Span>;

impl Span {
    /// A single value.
    pub fn point(value: Poly) -> Self {
        Self { first: value, size: Poly::constant(1) }
    }

    /// The integers `0..size`.
    pub fn whole(size: Poly) -> Self {
        Self { first: Poly::default(), size }
    }

    /// Returns whether there is only one value.
    pub fn is_point(&self) -> bool {
        self.size.as_constant() == Some(1)
    }

    /// The greatest value.
    pub fn last(&self) -> Poly {
        self.first.clone() + self.size.clone() - Poly::constant(1)
    }

    /// Returns the values of `poly` while its variables run; `None` if they are no span, or unknown.
    pub fn of(poly: &Poly, var: VarSpan<'_>, facts: &Facts) -> Option<Self> {
        let mut sum = Span::point(Poly::default());
        for (atoms, coefficient) in poly.terms() {
            let mut factor = Poly::constant(coefficient);
            let mut running = None;
            for atom in atoms {
                let span = Span::of_atom(atom, var, facts)?;
                if span.is_point() {
                    factor = factor * span.first;
                } else if running.replace(span).is_some() {
                    return None;
                }
            }
            match running {
                None => sum.first += factor,
                Some(span) => sum.add_scaled(span, factor, facts)?,
            }
        }
        Some(sum)
    }

    fn of_atom(atom: &Atom, var: VarSpan<'_>, facts: &Facts) -> Option<Self> {
        match atom {
            Atom::Dim(_) => Some(Span::point(Poly::atom(atom.clone()))),
            Atom::Var(it) => var(*it),
            Atom::Div(value, divisor) => {
                let divisor = Span::of(divisor, var, facts).filter(Span::is_point)?.first;
                Span::of(value, var, facts)?.divided(&divisor, facts)
            }
            Atom::Mod(value, divisor) => {
                let divisor = Span::of(divisor, var, facts).filter(Span::is_point)?.first;
                Span::of(value, var, facts)?.remainder(&divisor, facts)
            }
            Atom::Min(a, b) | Atom::Max(a, b) => {
                let a = Span::of(a, var, facts).filter(Span::is_point)?.first;
                let b = Span::of(b, var, facts).filter(Span::is_point)?.first;
                let least = matches!(atom, Atom::Min(..));
                let value = if least { a.lesser(&b, facts) } else { a.greater(&b, facts) };
                Some(Span::point(value))
            }
        }
    }

    fn add_scaled(&mut self, span: Span, factor: Poly, facts: &Facts) -> Option<()> {
        if factor.has_vars() {
            return None;
        }
        let more = factor.clone() * (span.size.clone() - Poly::constant(1));
        if factor.is_nonnegative(facts) {
            self.first += factor * span.first;
            self.size += more;
        } else if (-factor.clone()).is_nonnegative(facts) {
            self.first += factor * span.last();
            self.size += -more;
        } else {
            return None;
        }
        Some(())
    }

    /// The quotients of the values, rounded down.
    pub fn divided(&self, divisor: &Poly, facts: &Facts) -> Option<Self> {
        let (quotient, remainder) = self.first.div_mod(divisor, facts);
        if self.is_point() {
            return Some(Span::point(quotient));
        }
        let most = self.size.clone() + divisor.clone() - Poly::constant(1);
        remainder.is_zero().then(|| Span { first: quotient, size: most.div(divisor, facts) })
    }

    /// The remainders of the values, if they do not wrap around.
    pub fn remainder(&self, divisor: &Poly, facts: &Facts) -> Option<Self> {
        let remainder = self.first.modulo(divisor, facts);
        if self.is_point() {
            return Some(Span::point(remainder));
        }
        let room = divisor.clone() - self.size.clone();
        (remainder.is_zero() && room.is_nonnegative(facts))
            .then(|| Span { first: remainder, size: self.size.clone() })
    }

    /// Returns the least span that contains both, if the order of their ends is known.
    pub fn hull(&self, other: &Span, facts: &Facts) -> Option<Self> {
        if self == other {
            return Some(self.clone());
        }
        let lesser = |a: &Poly, b: &Poly| {
            let difference = b.clone() - a.clone();
            if difference.is_nonnegative(facts) {
                Some(a.clone())
            } else {
                (-difference).is_nonnegative(facts).then(|| b.clone())
            }
        };
        let first = lesser(&self.first, &other.first)?;
        let last = -lesser(&-self.last(), &-other.last())?;
        let size = last - first.clone() + Poly::constant(1);
        (!size.has_vars()).then_some(Span { first, size })
    }
}
