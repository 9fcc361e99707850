//! Proofs from dimensions that are at least others: a capacity from the length on.
//!
//! A dimension with a lower end is that end plus a difference that is 0 or more. In these terms
//! `S - T` is the difference itself, and `S - t` is positive where `T - t` is.

use super::{Atom, DimId, Facts, Poly};

/// Dimensions from here on are differences between a dimension and its lower end.
const FIRST_DIFFERENCE: u32 = 1 << 31;
/// No proof goes on with longer sums: products of sums could take long.
const MAX_TERMS: usize = 128;

impl Facts {
    /// States that `dim` is at least `end` at every launch. Following the ends of the dimensions that
    /// an end mentions must terminate.
    pub fn bound_below(&mut self, dim: DimId, end: Poly) {
        self.lower_ends.insert(dim, end);
    }

    /// Returns whether `dim` is no dimension of a program, but a difference; it is 0 or more.
    pub(super) fn is_difference(dim: DimId) -> bool {
        dim.0 >= FIRST_DIFFERENCE
    }
}

impl Poly {
    /// The same value with each dimension that has a lower end as that end and a difference; `None`
    /// if there is no such dimension outside of quotients, or the sum is long.
    pub(super) fn above_lower_ends(&self, facts: &Facts) -> Option<Poly> {
        let mut value = self.clone();
        let mut found = false;
        // An end may mention a dimension that has one itself.
        for _ in 0..facts.lower_ends.len() {
            let Some(replaced) = value.above_lower_ends_once(facts) else { break };
            value = replaced;
            found = true;
        }
        found.then_some(value)
    }

    fn above_lower_ends_once(&self, facts: &Facts) -> Option<Poly> {
        let end_of = |atom: &Atom| match atom {
            Atom::Dim(dim) => facts.lower_ends.get(dim).map(|end| (*dim, end)),
            _ => None,
        };
        let has_end = |(atoms, _): (&[Atom], i64)| atoms.iter().any(|it| end_of(it).is_some());
        if !self.terms().any(has_end) {
            return None;
        }
        let mut sum = Poly::default();
        for (atoms, value) in self.terms() {
            let mut product = Poly::constant(value);
            for atom in atoms {
                product = product
                    * match end_of(atom) {
                        Some((dim, end)) => {
                            end.clone() + Poly::dim(DimId(dim.0 ^ FIRST_DIFFERENCE))
                        }
                        None => Poly::atom(atom.clone()),
                    };
                if product.terms.len() > MAX_TERMS {
                    return None;
                }
            }
            sum += product;
            if sum.terms.len() > MAX_TERMS {
                return None;
            }
        }
        Some(sum)
    }
}
