//! Sums and products in normal form.
//!
//! Coefficients are exact or there is none: [`crate::dag::limits`] keeps those of a program far within
//! 64 bits, and arithmetic that would leave them stops, in release as well, since bounds are proven
//! from these numbers.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

use super::Poly;

/// Adds integers of the index arithmetic.
///
/// # Panics
///
/// If the sum does not fit 64 bits, which the limits of programs and schedules exclude.
pub fn exact_sum(a: i64, b: i64) -> i64 {
    a.checked_add(b).expect(LIMITED)
}

/// Multiplies integers of the index arithmetic.
///
/// # Panics
///
/// If the product does not fit 64 bits, which the limits of programs and schedules exclude.
pub fn exact_product(a: i64, b: i64) -> i64 {
    a.checked_mul(b).expect(LIMITED)
}

const LIMITED: &str = "the limits of programs and schedules keep indices within 64 bits";

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
                    self.terms[at].1 = exact_sum(self.terms[at].1, coefficient);
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
            *coefficient = exact_product(*coefficient, -1);
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
                let sum = product.entry(atoms).or_insert(0);
                *sum = exact_sum(*sum, exact_product(*a, *b));
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
            *coefficient = exact_product(*coefficient, factor);
        }
        self
    }
}

impl From<i64> for Poly {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}
