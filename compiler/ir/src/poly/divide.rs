//! Division, minimum and maximum, simplified where the facts allow.

use std::collections::BTreeMap;

use super::{Atom, Facts, Poly, exact_product, exact_sum, without};

impl Poly {
    /// `floor(self / divisor)`; simplified where the facts allow.
    ///
    /// # Panics
    ///
    /// If `divisor` is a constant below 1.
    pub fn div(&self, divisor: &Poly, facts: &Facts) -> Poly {
        self.div_mod(divisor, facts).0
    }

    /// `self` modulo `divisor`; simplified where the facts allow.
    ///
    /// # Panics
    ///
    /// If `divisor` is a constant below 1.
    pub fn modulo(&self, divisor: &Poly, facts: &Facts) -> Poly {
        self.div_mod(divisor, facts).1
    }

    /// Quotient and remainder: terms that are multiples of the divisor are divided exactly, the rest
    /// by its range.
    ///
    /// # Panics
    ///
    /// If `divisor` is a constant below 1.
    pub fn div_mod(&self, divisor: &Poly, facts: &Facts) -> (Poly, Poly) {
        if let Some(d) = divisor.as_constant() {
            assert!(d > 0, "a divisor must be positive");
            if d == 1 {
                return (self.clone(), Poly::default());
            }
            if let Some(value) = self.as_constant() {
                return (Poly::constant(value.div_euclid(d)), Poly::constant(value.rem_euclid(d)));
            }
        }
        let (quotient, rest) = self.extract_multiples(divisor);
        let inside =
            rest.is_nonnegative(facts) && (divisor.clone() - rest.clone()).is_positive(facts);
        if inside {
            return (quotient, rest);
        }
        let above = rest.clone() + divisor.clone();
        if (-rest.clone()).is_positive(facts) && above.is_nonnegative(facts) {
            return (quotient - Poly::constant(1), above);
        }
        if let Some((tile, inner)) = rest.div_mod_by_parts(divisor, facts) {
            return (quotient + tile, inner);
        }
        let floor = rest.div_of_quotient(divisor, facts);
        let (rest, divisor) = (Box::new(rest), Box::new(divisor.clone()));
        let floor = floor.unwrap_or_else(|| Poly::atom(Atom::Div(rest.clone(), divisor.clone())));
        (quotient + floor, Poly::atom(Atom::Mod(rest, divisor)))
    }

    /// Quotient and remainder where the terms are multiples of a part of the divisor but for a rest
    /// that is smaller than that part: `(16*a + b) / 48 = a / 3` if `0 <= b < 16`.
    fn div_mod_by_parts(&self, divisor: &Poly, facts: &Facts) -> Option<(Poly, Poly)> {
        let divisor = divisor.as_constant()?;
        let parts = self.terms.iter().map(|(_, value)| gcd(*value, divisor));
        let mut parts: Vec<i64> = parts.filter(|it| (2..divisor).contains(it)).collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts.into_iter().rev() {
            let (mut multiples, mut rest) = (Poly::default(), Poly::default());
            for (atoms, value) in &self.terms {
                let (whole, left) = if atoms.is_empty() || value % part == 0 {
                    (value.div_euclid(part), value.rem_euclid(part))
                } else {
                    (0, *value)
                };
                let term = |it| Poly { terms: vec![(atoms.clone(), it)] };
                multiples += if whole == 0 { Poly::default() } else { term(whole) };
                rest += if left == 0 { Poly::default() } else { term(left) };
            }
            let below = Poly::constant(part) - rest.clone();
            if rest.is_nonnegative(facts) && below.is_positive(facts) {
                let (tile, inner) = multiples.div_mod(&Poly::constant(divisor / part), facts);
                return Some((tile, inner * part + rest));
            }
        }
        None
    }

    /// The quotient where one term is a quotient itself: `(a + b / 4) / 2 = (4*a + b) / 8`.
    fn div_of_quotient(&self, divisor: &Poly, facts: &Facts) -> Option<Poly> {
        let divisor = divisor.as_constant()?;
        let (place, inner, by) =
            self.terms.iter().enumerate().find_map(|(n, (atoms, value))| {
                match atoms.as_slice() {
                    [Atom::Div(inner, by)] if *value == 1 => Some((n, inner, by.as_constant()?)),
                    _ => None,
                }
            })?;
        let mut others = self.clone();
        others.terms.remove(place);
        let by_both = Poly::constant(by.checked_mul(divisor)?);
        Some((others * by + (**inner).clone()).div(&by_both, facts))
    }

    /// Decomposes `self` into `quotient * divisor + rest`, with all multiples in the quotient.
    fn extract_multiples(&self, divisor: &Poly) -> (Poly, Poly) {
        let [(divisor_atoms, divisor_value)] = divisor.terms.as_slice() else {
            return (Poly::default(), self.clone());
        };
        let (mut quotient, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (atoms, value) in &self.terms {
            let multiple = value.div_euclid(*divisor_value);
            match without(atoms, divisor_atoms) {
                Some(remaining) if multiple != 0 => {
                    add(&mut quotient, remaining, multiple);
                    add(&mut rest, atoms.clone(), value.rem_euclid(*divisor_value));
                }
                _ => add(&mut rest, atoms.clone(), *value),
            }
        }
        (Poly::from_map(quotient), Poly::from_map(rest))
    }

    /// The smaller of two; decided where the facts allow.
    pub fn lesser(&self, other: &Poly, facts: &Facts) -> Poly {
        match self.is_at_most(other, facts) {
            Some(true) => self.clone(),
            Some(false) => other.clone(),
            None => Poly::atom(Atom::Min(Box::new(self.clone()), Box::new(other.clone()))),
        }
    }

    /// The larger of two; decided where the facts allow.
    pub fn greater(&self, other: &Poly, facts: &Facts) -> Poly {
        match self.is_at_most(other, facts) {
            Some(true) => other.clone(),
            Some(false) => self.clone(),
            None => Poly::atom(Atom::Max(Box::new(self.clone()), Box::new(other.clone()))),
        }
    }

    /// Decides `self <= other` where the facts allow.
    fn is_at_most(&self, other: &Poly, facts: &Facts) -> Option<bool> {
        if (other.clone() - self.clone()).is_nonnegative(facts) {
            return Some(true);
        }
        (self.clone() - other.clone()).is_nonnegative(facts).then_some(false)
    }

    /// `ceil(self / divisor)`.
    ///
    /// # Panics
    ///
    /// If `divisor` is below 1.
    pub fn ceil_div(&self, divisor: i64, facts: &Facts) -> Poly {
        (self.clone() + Poly::constant(divisor - 1)).div(&Poly::constant(divisor), facts)
    }

    /// Calls `visit` for each dividend and its divisor, of quotients and remainders, outermost first.
    pub fn for_each_division(&self, visit: &mut dyn FnMut(&Poly, &Poly)) {
        for atom in self.terms().flat_map(|(atoms, _)| atoms) {
            match atom {
                Atom::Div(a, b) | Atom::Mod(a, b) => {
                    visit(a, b);
                    a.for_each_division(visit);
                }
                Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.for_each_division(visit);
                    b.for_each_division(visit);
                }
                Atom::Dim(_) | Atom::Var(_) => {}
            }
        }
    }
}

fn add(terms: &mut BTreeMap<Vec<Atom>, i64>, atoms: Vec<Atom>, value: i64) {
    let sum = terms.entry(atoms).or_insert(0);
    *sum = exact_sum(*sum, value);
}

/// The greatest common divisor.
///
/// # Panics
///
/// If it is 2^63, which the limits of programs exclude.
pub fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { exact_product(a, a.signum()) } else { gcd(b, a % b) }
}
