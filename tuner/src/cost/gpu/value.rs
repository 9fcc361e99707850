//! Total evaluation of polynomials.
//!
//! Overflows saturate, and a division by 0 gives 0: an estimate of a program that does so means
//! nothing, but there is one.

use tvmtune_ir::poly::{Atom, Poly, VarId};

/// Values of dimensions and variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    dims: Vec<i64>,
    vars: Vec<i64>,
}

/// More variables than any grid has.
const MAX_VARS: usize = 1 << 16;

impl Values {
    /// Those dimensions; every variable is 0.
    pub(super) fn new(dims: &[i64]) -> Self {
        Self { dims: dims.to_vec(), vars: Vec::new() }
    }

    pub(super) fn set(&mut self, var: VarId, value: i64) {
        let n = var.0 as usize;
        if n >= self.vars.len() && n < MAX_VARS {
            self.vars.resize(n + 1, 0);
        }
        if let Some(it) = self.vars.get_mut(n) {
            *it = value;
        }
    }

    pub(super) fn of(&self, poly: &Poly) -> i64 {
        let product = |(atoms, coefficient): (&[Atom], i64)| {
            atoms.iter().fold(coefficient, |all, it| all.saturating_mul(self.atom(it)))
        };
        poly.terms().map(product).fold(0, i64::saturating_add)
    }

    fn atom(&self, atom: &Atom) -> i64 {
        match atom {
            Atom::Dim(dim) => self.dims.get(dim.0 as usize).copied().unwrap_or(1),
            Atom::Var(var) => self.vars.get(var.0 as usize).copied().unwrap_or(0),
            Atom::Div(a, b) => self.of(a).checked_div_euclid(self.of(b)).unwrap_or(0),
            Atom::Mod(a, b) => self.of(a).checked_rem_euclid(self.of(b)).unwrap_or(0),
            Atom::Min(a, b) => self.of(a).min(self.of(b)),
            Atom::Max(a, b) => self.of(a).max(self.of(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_value_is_some_number() {
        let mut values = Values::new(&[7]);
        values.set(VarId(1), 5);
        values.set(VarId(u32::MAX), 5);
        let var = Poly::var(VarId(1));
        assert_eq!(values.of(&(var.clone() * 3 + Poly::constant(1))), 16);
        assert_eq!(values.of(&Poly::var(VarId(9))), 0);
        let quotient = Atom::Div(Box::new(var.clone()), Box::new(Poly::var(VarId(9))));
        assert_eq!(values.of(&Poly::atom(quotient)), 0, "a division by 0");
        values.set(VarId(1), i64::MAX);
        assert_eq!(values.of(&(var.clone() * var)), i64::MAX);
    }
}
