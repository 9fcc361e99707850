//! Symbolic integers: extents, strides and indices, in a normal form.
//!
//! A [`Poly`] is a sum of products of [`Atom`]s with integer coefficients, such as
//! `8*v0 + v1` or `384*d0`. Atoms are the dynamic dimensions of a program, loop variables, and
//! floor divisions or minima that could not be simplified away. Two polynomials that are equal
//! term by term are the same value, so equality here is equality of text, and hashes are stable.
//!
//! Every stage of the compiler uses this type: extents in `dag`, indices in nests, launch parameters
//! in kernels.
//!
//! # Invariants
//!
//! - Terms are sorted, no coefficient is 0, and the constant is the term with no atoms.
//! - No coefficient wraps, whatever the profile: see [`exact_sum`].
//! - Divisors are positive, and division rounds down, so `a = b * (a / b) + a % b`, `0 <= a % b`.

mod cases;
mod divide;
mod facts;
mod lower_ends;
mod ops;
mod print;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use divide::gcd;
pub use facts::{Facts, Interval};
pub use ops::{exact_product, exact_sum};
pub use print::WriteLeaf;

/// A dynamic dimension of a program, by position in [`crate::dag::Dag::dims`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimId(pub u32);

/// A loop variable: unique within a compute (in `dag`), or within a nest (from step 4 on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

/// A factor of a term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A dynamic dimension, known at launch.
    Dim(DimId),
    /// A loop variable, known in each iteration.
    Var(VarId),
    /// `floor(.0 / .1)`.
    Div(Box<Poly>, Box<Poly>),
    /// `.0 - .1 * floor(.0 / .1)`.
    Mod(Box<Poly>, Box<Poly>),
    /// The smaller of two.
    Min(Box<Poly>, Box<Poly>),
    /// The larger of two.
    Max(Box<Poly>, Box<Poly>),
}

/// A symbolic integer in normal form. See the [module documentation](self).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Poly {
    /// Products of atoms (sorted) with their coefficients, sorted by product.
    terms: Vec<(Vec<Atom>, i64)>,
}

impl Poly {
    /// The polynomial `value`.
    pub fn constant(value: i64) -> Self {
        if value == 0 { Self::default() } else { Self { terms: vec![(Vec::new(), value)] } }
    }

    /// The polynomial that is one atom.
    pub fn atom(atom: Atom) -> Self {
        Self { terms: vec![(vec![atom], 1)] }
    }

    /// The polynomial that is one dimension.
    pub fn dim(dim: DimId) -> Self {
        Self::atom(Atom::Dim(dim))
    }

    /// The polynomial that is one loop variable.
    pub fn var(var: VarId) -> Self {
        Self::atom(Atom::Var(var))
    }

    /// The products of atoms with their coefficients; the constant is the one with no atoms.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        self.terms.iter().map(|(atoms, coefficient)| (atoms.as_slice(), *coefficient))
    }

    /// The value, if it does not depend on anything.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(atoms, value)] if atoms.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// The atom, if that is all there is.
    pub fn as_atom(&self) -> Option<&Atom> {
        match self.terms.as_slice() {
            [(atoms, 1)] => match atoms.as_slice() {
                [atom] => Some(atom),
                _ => None,
            },
            _ => None,
        }
    }

    /// The variable, if that is all there is.
    pub fn as_var(&self) -> Option<VarId> {
        match self.terms.as_slice() {
            [(atoms, 1)] => match atoms.as_slice() {
                [Atom::Var(var)] => Some(*var),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the value is 0 for certain.
    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// The constant term.
    pub fn constant_term(&self) -> i64 {
        self.terms.first().filter(|(atoms, _)| atoms.is_empty()).map_or(0, |(_, value)| *value)
    }

    fn from_map(map: BTreeMap<Vec<Atom>, i64>) -> Self {
        Self { terms: map.into_iter().filter(|(_, coefficient)| *coefficient != 0).collect() }
    }

    /// The value under an assignment of dimensions and variables.
    ///
    /// # Panics
    ///
    /// If a divisor evaluates to something below 1, or a value does not fit 64 bits.
    pub fn eval(&self, dim: &dyn Fn(DimId) -> i64, var: &dyn Fn(VarId) -> i64) -> i64 {
        self.terms.iter().fold(0, |sum, (atoms, coefficient)| {
            let value = |product, atom: &Atom| exact_product(product, atom.eval(dim, var));
            exact_sum(sum, atoms.iter().fold(*coefficient, value))
        })
    }

    /// The value under an assignment of dimensions, by position, of a polynomial without variables.
    ///
    /// # Panics
    ///
    /// If a variable occurs.
    pub fn eval_dims(&self, dims: &[i64]) -> i64 {
        self.eval(&|it| dims[it.0 as usize], &|it| unreachable!("variable {it:?} has no value"))
    }

    /// Replaces variables, dimensions and other atoms, everywhere, also below divisions, and simplifies.
    pub fn substitute(&self, replace: &dyn Fn(&Atom) -> Option<Poly>, facts: &Facts) -> Poly {
        let mut sum = Poly::default();
        for (atoms, coefficient) in &self.terms {
            let mut product = Poly::constant(*coefficient);
            for atom in atoms {
                product = product * atom.substitute(replace, facts);
            }
            sum += product;
        }
        sum
    }

    /// Replaces variables for which `replacement` gives a polynomial.
    pub fn substitute_vars(
        &self,
        replacement: &dyn Fn(VarId) -> Option<Poly>,
        facts: &Facts,
    ) -> Poly {
        let replace = |atom: &Atom| match atom {
            Atom::Var(var) => replacement(*var),
            _ => None,
        };
        self.substitute(&replace, facts)
    }

    /// Calls `visit` for each variable and dimension, also below divisions, repeats included.
    pub fn for_each_leaf(&self, visit: &mut dyn FnMut(&Atom)) {
        for atom in self.terms.iter().flat_map(|(atoms, _)| atoms) {
            match atom {
                Atom::Dim(_) | Atom::Var(_) => visit(atom),
                Atom::Div(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.for_each_leaf(visit);
                    b.for_each_leaf(visit);
                }
            }
        }
    }

    /// Returns whether `var` occurs, also below a division.
    pub fn mentions(&self, var: VarId) -> bool {
        self.terms.iter().flat_map(|(atoms, _)| atoms).any(|it| it.mentions(var))
    }

    /// Returns whether any loop variable occurs.
    pub fn has_vars(&self) -> bool {
        self.terms.iter().flat_map(|(atoms, _)| atoms).any(Atom::has_vars)
    }

    /// Returns whether loop variables are multiplied with each other, also below a division.
    pub fn multiplies_vars(&self) -> bool {
        self.terms.iter().any(|(atoms, _)| {
            atoms.iter().filter(|it| it.has_vars()).count() > 1
                || atoms.iter().any(Atom::multiplies_vars)
        })
    }

    /// The difference that an increment of `var` makes; `None` if it is not constant.
    pub fn step(&self, var: VarId) -> Option<i64> {
        let mut step = 0;
        for (atoms, coefficient) in &self.terms {
            match atoms.as_slice() {
                [Atom::Var(it)] if *it == var => step = exact_sum(step, *coefficient),
                atoms if atoms.iter().any(|it| it.mentions(var)) => return None,
                _ => {}
            }
        }
        Some(step)
    }

    /// `(coefficient, rest)` with `self = coefficient * var + rest`, neither mentioning `var`;
    /// `None` if `self` is not linear in `var`.
    pub fn split_linear(&self, var: VarId) -> Option<(Poly, Poly)> {
        let target = Atom::Var(var);
        let (mut coefficient, mut rest) = (Self::default(), Self::default());
        for (atoms, value) in &self.terms {
            match without(atoms, std::slice::from_ref(&target)) {
                Some(others) => coefficient.terms.push((others, *value)),
                None => rest.terms.push((atoms.clone(), *value)),
            }
        }
        // Different products are different without what they share, but perhaps in another order.
        coefficient.terms.sort_unstable();
        let linear = !coefficient.mentions(var) && !rest.mentions(var);
        linear.then_some((coefficient, rest))
    }
}

impl Atom {
    fn mentions(&self, var: VarId) -> bool {
        match self {
            Atom::Dim(_) => false,
            Atom::Var(it) => *it == var,
            Atom::Div(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                a.mentions(var) || b.mentions(var)
            }
        }
    }

    fn has_vars(&self) -> bool {
        match self {
            Atom::Dim(_) => false,
            Atom::Var(_) => true,
            Atom::Div(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                a.has_vars() || b.has_vars()
            }
        }
    }

    fn multiplies_vars(&self) -> bool {
        match self {
            Atom::Dim(_) | Atom::Var(_) => false,
            Atom::Div(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                a.multiplies_vars() || b.multiplies_vars()
            }
        }
    }

    fn eval(&self, dim: &dyn Fn(DimId) -> i64, var: &dyn Fn(VarId) -> i64) -> i64 {
        match self {
            Atom::Dim(it) => dim(*it),
            Atom::Var(it) => var(*it),
            Atom::Div(a, b) => a.eval(dim, var).div_euclid(positive(b.eval(dim, var))),
            Atom::Mod(a, b) => a.eval(dim, var).rem_euclid(positive(b.eval(dim, var))),
            Atom::Min(a, b) => a.eval(dim, var).min(b.eval(dim, var)),
            Atom::Max(a, b) => a.eval(dim, var).max(b.eval(dim, var)),
        }
    }

    fn substitute(&self, replace: &dyn Fn(&Atom) -> Option<Poly>, facts: &Facts) -> Poly {
        if let Some(replaced) = replace(self) {
            return replaced;
        }
        let inner = |it: &Poly| it.substitute(replace, facts);
        match self {
            Atom::Dim(_) | Atom::Var(_) => Poly::atom(self.clone()),
            Atom::Div(a, b) => inner(a).div(&inner(b), facts),
            Atom::Mod(a, b) => inner(a).modulo(&inner(b), facts),
            Atom::Min(a, b) => inner(a).lesser(&inner(b), facts),
            Atom::Max(a, b) => inner(a).greater(&inner(b), facts),
        }
    }
}

fn positive(divisor: i64) -> i64 {
    assert!(divisor > 0, "a divisor must be positive");
    divisor
}

/// Divides the sorted product `atoms` by the sorted product `part`, if it is a factor.
fn without(atoms: &[Atom], part: &[Atom]) -> Option<Vec<Atom>> {
    let mut left = Vec::with_capacity(atoms.len());
    let mut wanted = part.iter().peekable();
    for atom in atoms {
        if wanted.peek() == Some(&atom) {
            wanted.next();
        } else {
            left.push(atom.clone());
        }
    }
    wanted.peek().is_none().then_some(left)
}
