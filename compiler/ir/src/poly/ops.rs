//! Sums and products in normal form.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

use super::Poly;

impl AddAssign for Poly {
    fn add_assign(&mut self, other: Poly) {
        if self.terms.is_empty() {
            self.terms = other.terms;
            return;
        }
        // Few terms: finding places is faster than merging.
        for (atoms, coefficient) in other.terms {
            match self.terms.binary_search_by(|it| it.0.cmp(&atoms)) {
                Ok(at) => {
                    self.terms[at].1 += coefficient;
                    if self.terms[at].1 == 0 {
                        self.terms.remove(at);
                    }
                }
                Err(at) => self.terms.insert(at, (atoms, coefficient)),
            }
        }
    }
}

impl Add for Poly {
    type Output = Poly;

    fn add(mut self, other: Poly) -> Poly {
        self += other;
        self
    }
}

impl Neg for Poly {
    type Output = Poly;

    fn neg(mut self) -> Poly {
        for (_, coefficient) in &mut self.terms {
            *coefficient = -*coefficient;
        }
        self
    }
}

impl Sub for Poly {
    type Output = Poly;

    fn sub(self, other: Poly) -> Poly {
        self + -other
    }
}

impl Mul for Poly {
    type Output = Poly;

    fn mul(self, other: Poly) -> Poly {
        if let Some(factor) = other.as_constant() {
            return self * factor;
        }
        if let Some(factor) = self.as_constant() {
            return other * factor;
        }
        let mut product = BTreeMap::new();
        for (a_atoms, a) in &self.terms {
            for (b_atoms, b) in &other.terms {
                let mut atoms = [a_atoms.as_slice(), b_atoms.as_slice()].concat();
                atoms.sort();
                *product.entry(atoms).or_insert(0) += a * b;
            }
        }
        Self::from_map(product)
    }
}

impl Mul<i64> for Poly {
    type Output = Poly;

    fn mul(mut self, factor: i64) -> Poly {
        if factor == 0 {
            return Poly::default();
        }
        for (_, coefficient) in &mut self.terms {
            *coefficient *= factor;
        }
        self
    }
}

impl From<i64> for Poly {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}
