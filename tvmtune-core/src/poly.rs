//! Symbolic integers: extents, strides and indices, in a normal form.
//!
//! A [`Poly`] is a sum of products of [`Atom`]s with integer coefficients, such as
//! `8*v0 + v1` or `384*d0`. Atoms are the dynamic dimensions of a program, loop variables, and
//! floor divisions or minima that could not be simplified away. Two polynomials that are equal
//! term by term are the same value, so equality here is equality of text, and hashes are stable.
//!
//! Every step of the walk uses this type: extents in `dag`, indices in `nest`, launch parameters
//! in `kernel`.
//!
//! # Invariants
//!
//! - Terms are sorted, no coefficient is 0, and the constant is the term with no atoms.
//! - Divisors are positive, and division rounds down, so `a = b * (a / b) + a % b`, `0 <= a % b`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

/// A dynamic dimension of a program, by position in [`crate::dag::Dag::dims`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimId(pub u32);

/// A loop variable: unique within a compute (in `dag`), or within a nest (from step 4 on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

/// What a term multiplies.
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

/// The values an integer may take, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The least value.
    pub lo: i64,
    /// The greatest value.
    pub hi: i64,
}

impl Interval {
    /// The interval that holds one value.
    pub fn point(value: i64) -> Self {
        Self { lo: value, hi: value }
    }

    fn hull(values: impl IntoIterator<Item = i128>) -> Self {
        let (mut lo, mut hi) = (i128::MAX, i128::MIN);
        for it in values {
            (lo, hi) = (lo.min(it), hi.max(it));
        }
        Self { lo: saturate(lo), hi: saturate(hi) }
    }

    fn plus(self, other: Self) -> Self {
        Self { lo: self.lo.saturating_add(other.lo), hi: self.hi.saturating_add(other.hi) }
    }

    fn times(self, other: Self) -> Self {
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        Self::hull([
            product(self.lo, other.lo),
            product(self.lo, other.hi),
            product(self.hi, other.lo),
            product(self.hi, other.hi),
        ])
    }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// What is known about dimensions and loop variables while something is proven about a [`Poly`].
///
/// A variable's bound may mention dimensions and other variables; looking it up must terminate,
/// so a bound mentions only variables of loops further out.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    dims: BTreeMap<DimId, Interval>,
    vars: BTreeMap<VarId, Poly>,
}

impl Facts {
    /// States that `dim` lies in `range` at every launch.
    pub fn bound_dim(&mut self, dim: DimId, range: Interval) {
        self.dims.insert(dim, range);
    }

    /// States that `0 <= var < extent` in every iteration.
    pub fn bound_var(&mut self, var: VarId, extent: Poly) {
        self.vars.insert(var, extent);
    }

    /// The extent that bounds `var`, if one was stated.
    pub fn extent(&self, var: VarId) -> Option<&Poly> {
        self.vars.get(&var)
    }

    /// The range of `dim`, if one was stated.
    pub fn range(&self, dim: DimId) -> Option<Interval> {
        self.dims.get(&dim).copied()
    }
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

    /// Whether the value is 0 for certain.
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

    /// Quotient and remainder: multiples of the divisor come out, the rest is divided by range.
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
        let (rest_box, divisor_box) = (Box::new(rest), Box::new(divisor.clone()));
        let floor = Poly::atom(Atom::Div(rest_box.clone(), divisor_box.clone()));
        (quotient + floor, Poly::atom(Atom::Mod(rest_box, divisor_box)))
    }

    /// Writes `self` as `quotient * divisor + rest`, with every term that is a multiple taken out.
    fn extract_multiples(&self, divisor: &Poly) -> (Poly, Poly) {
        let [(divisor_atoms, divisor_value)] = divisor.terms.as_slice() else {
            return (Poly::default(), self.clone());
        };
        let (mut quotient, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (atoms, value) in &self.terms {
            let multiple = value.div_euclid(*divisor_value);
            match without(atoms, divisor_atoms) {
                Some(remaining) if multiple != 0 => {
                    *quotient.entry(remaining).or_insert(0) += multiple;
                    let left = value.rem_euclid(*divisor_value);
                    *rest.entry(atoms.clone()).or_insert(0) += left;
                }
                _ => *rest.entry(atoms.clone()).or_insert(0) += value,
            }
        }
        (Poly::from_map(quotient), Poly::from_map(rest))
    }

    /// The smaller of two; decided where the facts allow.
    pub fn lesser(&self, other: &Poly, facts: &Facts) -> Poly {
        if (other.clone() - self.clone()).is_nonnegative(facts) {
            return self.clone();
        }
        if (self.clone() - other.clone()).is_nonnegative(facts) {
            return other.clone();
        }
        Poly::atom(Atom::Min(Box::new(self.clone()), Box::new(other.clone())))
    }

    /// The larger of two; decided where the facts allow.
    pub fn greater(&self, other: &Poly, facts: &Facts) -> Poly {
        if (other.clone() - self.clone()).is_nonnegative(facts) {
            return other.clone();
        }
        if (self.clone() - other.clone()).is_nonnegative(facts) {
            return self.clone();
        }
        Poly::atom(Atom::Max(Box::new(self.clone()), Box::new(other.clone())))
    }

    /// `ceil(self / divisor)`.
    ///
    /// # Panics
    ///
    /// If `divisor` is below 1.
    pub fn ceil_div(&self, divisor: i64, facts: &Facts) -> Poly {
        (self.clone() + Poly::constant(divisor - 1)).div(&Poly::constant(divisor), facts)
    }

    /// The value under an assignment of dimensions and variables.
    ///
    /// # Panics
    ///
    /// If a divisor evaluates to something below 1.
    pub fn eval(&self, dim: &dyn Fn(DimId) -> i64, var: &dyn Fn(VarId) -> i64) -> i64 {
        let product = |atoms: &[Atom]| atoms.iter().map(|it| it.eval(dim, var)).product::<i64>();
        self.terms.iter().map(|(atoms, coefficient)| coefficient * product(atoms)).sum()
    }

    /// The value under an assignment of dimensions, by position; for what depends on no variable.
    ///
    /// # Panics
    ///
    /// If a variable occurs.
    pub fn eval_dims(&self, dims: &[i64]) -> i64 {
        self.eval(&|it| dims[it.0 as usize], &|it| unreachable!("variable {it:?} has no value"))
    }

    /// Replaces variables and dimensions, everywhere, also below divisions, and simplifies.
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

    /// Replaces variables by what `of` gives for them.
    pub fn substitute_vars(&self, of: &dyn Fn(VarId) -> Option<Poly>, facts: &Facts) -> Poly {
        let replace = |atom: &Atom| match atom {
            Atom::Var(var) => of(*var),
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

    /// Whether `var` occurs, also below a division.
    pub fn mentions(&self, var: VarId) -> bool {
        let mut found = false;
        self.for_each_leaf(&mut |atom| found |= *atom == Atom::Var(var));
        found
    }

    /// Whether any loop variable occurs.
    pub fn has_vars(&self) -> bool {
        let mut found = false;
        self.for_each_leaf(&mut |atom| found |= matches!(atom, Atom::Var(_)));
        found
    }

    /// `(coefficient, rest)` with `self = coefficient * var + rest`, neither mentioning `var`;
    /// `None` if `self` is not linear in `var`.
    pub fn split_linear(&self, var: VarId) -> Option<(Poly, Poly)> {
        let target = Atom::Var(var);
        let (mut coefficient, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (atoms, value) in &self.terms {
            match without(atoms, std::slice::from_ref(&target)) {
                Some(others) => coefficient.insert(others, *value),
                None => rest.insert(atoms.clone(), *value),
            };
        }
        let (coefficient, rest) = (Self::from_map(coefficient), Self::from_map(rest));
        let linear = !coefficient.mentions(var) && !rest.mentions(var);
        linear.then_some((coefficient, rest))
    }

    /// Every value this may take under the facts; unknown atoms make it unbounded.
    pub fn interval(&self, facts: &Facts) -> Interval {
        let mut sum = Interval::point(0);
        for (atoms, coefficient) in &self.terms {
            let mut product = Interval::point(*coefficient);
            for atom in atoms {
                product = product.times(atom.interval(facts));
            }
            sum = sum.plus(product);
        }
        sum
    }

    /// Whether `self >= 0` can be proven.
    pub fn is_nonnegative(&self, facts: &Facts) -> bool {
        if self.interval(facts).lo >= 0 {
            return true;
        }
        let minimized = self.eliminate_vars(facts);
        minimized.interval(facts).lo >= 0 || minimized.shifted_is_nonnegative(facts)
    }

    /// Whether `self >= 1` can be proven.
    pub fn is_positive(&self, facts: &Facts) -> bool {
        (self.clone() - Poly::constant(1)).is_nonnegative(facts)
    }

    /// A lower bound in which each variable, innermost first, took its worst value.
    fn eliminate_vars(&self, facts: &Facts) -> Poly {
        let mut bound = self.clone();
        let vars: Vec<VarId> = facts.vars.keys().rev().copied().collect();
        for var in vars {
            let Some((coefficient, rest)) = bound.split_linear(var) else { continue };
            let range = coefficient.interval(facts);
            if range.lo >= 0 {
                bound = rest;
            } else if range.hi <= 0 {
                let last = facts.vars[&var].clone() - Poly::constant(1);
                bound = coefficient * last + rest;
            }
        }
        bound
    }

    /// Whether every coefficient is nonnegative once dimensions count from their lower bound.
    fn shifted_is_nonnegative(&self, facts: &Facts) -> bool {
        let shift = |atom: &Atom| match atom {
            Atom::Dim(dim) => facts.dims.get(dim).map(|it| Poly::dim(*dim) + Poly::constant(it.lo)),
            _ => None,
        };
        let shifted = self.substitute(&shift, &Facts::default());
        let nonnegative = |atom: &Atom| match atom {
            Atom::Dim(dim) => facts.dims.contains_key(dim),
            other => other.interval(facts).lo >= 0,
        };
        shifted.terms.iter().all(|(atoms, value)| *value >= 0 && atoms.iter().all(nonnegative))
    }
}

impl Atom {
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
        let inner = |it: &Poly| it.substitute(replace, facts);
        match self {
            Atom::Dim(_) | Atom::Var(_) => {
                replace(self).unwrap_or_else(|| Poly::atom(self.clone()))
            }
            Atom::Div(a, b) => inner(a).div(&inner(b), facts),
            Atom::Mod(a, b) => inner(a).modulo(&inner(b), facts),
            Atom::Min(a, b) => inner(a).lesser(&inner(b), facts),
            Atom::Max(a, b) => inner(a).greater(&inner(b), facts),
        }
    }

    fn interval(&self, facts: &Facts) -> Interval {
        const ANY: Interval = Interval { lo: i64::MIN, hi: i64::MAX };
        match self {
            Atom::Dim(dim) => facts.dims.get(dim).copied().unwrap_or(ANY),
            Atom::Var(var) => facts.vars.get(var).map_or(ANY, |extent| Interval {
                lo: 0,
                hi: extent.interval(facts).hi.saturating_sub(1).max(0),
            }),
            Atom::Div(a, b) => {
                let (a, b) = (a.interval(facts), b.interval(facts));
                let (b_lo, b_hi) = (b.lo.max(1), b.hi.max(1));
                let quotient = |x: i64, y: i64| i128::from(x.div_euclid(y));
                Interval::hull([
                    quotient(a.lo, b_lo),
                    quotient(a.lo, b_hi),
                    quotient(a.hi, b_lo),
                    quotient(a.hi, b_hi),
                ])
            }
            Atom::Mod(_, b) => {
                Interval { lo: 0, hi: b.interval(facts).hi.saturating_sub(1).max(0) }
            }
            Atom::Min(a, b) => {
                let (a, b) = (a.interval(facts), b.interval(facts));
                Interval { lo: a.lo.min(b.lo), hi: a.hi.min(b.hi) }
            }
            Atom::Max(a, b) => {
                let (a, b) = (a.interval(facts), b.interval(facts));
                Interval { lo: a.lo.max(b.lo), hi: a.hi.max(b.hi) }
            }
        }
    }
}

fn positive(divisor: i64) -> i64 {
    assert!(divisor > 0, "a divisor must be positive");
    divisor
}

/// The sorted product `atoms` with the sorted product `part` taken out, if it is contained.
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

impl AddAssign for Poly {
    fn add_assign(&mut self, other: Poly) {
        if other.terms.is_empty() {
            return;
        }
        let mine = std::mem::take(&mut self.terms);
        let (mut left, mut right) =
            (mine.into_iter().peekable(), other.terms.into_iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.0.cmp(&b.0) {
                Ordering::Less => self.terms.extend(left.next()),
                Ordering::Greater => self.terms.extend(right.next()),
                Ordering::Equal => {
                    let sum = a.1 + b.1;
                    right.next();
                    self.terms
                        .extend(left.next().map(|(atoms, _)| (atoms, sum)).filter(|_| sum != 0));
                }
            }
        }
        self.terms.extend(left);
        self.terms.extend(right);
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

/// Terms joined by ` + `, as in `8*v0 + v1 + 3`; nested atoms as `(..)/(..)`, `min(.., ..)`.
impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_named(f, &|atom, f| match atom {
            Atom::Dim(dim) => write!(f, "d{}", dim.0),
            Atom::Var(var) => write!(f, "v{}", var.0),
            _ => Err(fmt::Error),
        })
    }
}

/// Writes the name of a dimension or a variable.
pub type WriteLeaf<'a> = &'a dyn Fn(&Atom, &mut dyn fmt::Write) -> fmt::Result;

impl Poly {
    /// Writes the text of [`Display`](fmt::Display) with `leaf` naming dimensions and variables.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_named(&self, f: &mut dyn fmt::Write, leaf: WriteLeaf<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // The constant sorts first but reads better last.
        let (constant, others): (Vec<_>, Vec<_>) =
            self.terms.iter().partition(|(atoms, _)| atoms.is_empty());
        for (n, (atoms, coefficient)) in others.into_iter().chain(constant).enumerate() {
            match (n, *coefficient < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let magnitude = coefficient.unsigned_abs();
            if atoms.is_empty() || magnitude != 1 {
                write!(f, "{magnitude}")?;
            }
            for (k, atom) in atoms.iter().enumerate() {
                if k > 0 || magnitude != 1 {
                    f.write_str("*")?;
                }
                atom.write_named(f, leaf)?;
            }
        }
        Ok(())
    }
}

impl Atom {
    fn write_named(&self, f: &mut dyn fmt::Write, leaf: WriteLeaf<'_>) -> fmt::Result {
        let (open, a, between, b) = match self {
            Atom::Dim(_) | Atom::Var(_) => return leaf(self, f),
            Atom::Div(a, b) => ("((", a, ")/(", b),
            Atom::Mod(a, b) => ("((", a, ")%(", b),
            Atom::Min(a, b) => ("(min(", a, ", ", b),
            Atom::Max(a, b) => ("(max(", a, ", ", b),
        };
        f.write_str(open)?;
        a.write_named(f, leaf)?;
        f.write_str(between)?;
        b.write_named(f, leaf)?;
        f.write_str("))")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(n: u32) -> Poly {
        Poly::var(VarId(n))
    }

    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts.bound_dim(DimId(0), Interval { lo: 1, hi: 512 });
        facts.bound_var(VarId(0), Poly::dim(DimId(0)));
        facts.bound_var(VarId(1), Poly::constant(16));
        facts
    }

    #[test]
    fn sums_and_products_are_in_normal_form() {
        let p = (v(1) + 3.into()) * (v(0) + 2.into());
        assert_eq!(p.to_string(), "3*v0 + v0*v1 + 2*v1 + 6");
        assert!((p.clone() - p).is_zero());
    }

    #[test]
    fn a_tile_index_divides_back_into_tile_and_lane() {
        let index = v(0) * 16 + v(1);
        assert_eq!(index.div(&16.into(), &facts()), v(0));
        assert_eq!(index.modulo(&16.into(), &facts()), v(1));
        assert_eq!(
            (index.clone() + 1.into()).div(&16.into(), &facts()).to_string(),
            "v0 + ((v1 + 1)/(16))"
        );
    }

    #[test]
    fn a_symbolic_row_index_divides_by_its_symbolic_width() {
        let width = Poly::dim(DimId(0));
        let index = v(2) * width.clone() + v(0);
        assert_eq!(index.div(&width, &facts()), v(2));
        assert_eq!(index.modulo(&width, &facts()), v(0));
    }

    #[test]
    fn reads_are_in_bounds_for_every_extent_in_the_range() {
        let room = Poly::dim(DimId(0)) - v(0);
        assert!(room.is_positive(&facts()), "v0 < d0");
        assert!(!(room - 1.into()).is_positive(&facts()));
    }

    #[test]
    fn division_rounds_down_below_zero() {
        let value = (v(0) - 1.into()).div(&2.into(), &Facts::default());
        assert_eq!(value.eval(&|_| 0, &|_| 0), -1);
    }
}
