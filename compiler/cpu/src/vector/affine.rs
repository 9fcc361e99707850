//! Affine forms: polynomials that are linear in variables, with coefficients in the dimensions.
//!
//! A [`Poly`] is a normal form for proofs; lowering evaluates the same index hundreds of times,
//! once for each copy of an unrolled body. An [`Affine`] is the same integer as a constant, a part
//! known at launch, and a list of variables with strides. Forms of [`super::tree`] are over the
//! variables of the nest; [`super::context`] evaluates them to forms over the variables of the
//! vector code and [`LANE`].

use tvmtune_ir::poly::{Atom, Facts, Interval, Poly, VarId, exact_product, exact_sum, gcd};

/// The lane index as a variable: 0, 1, ... in the lanes of one vector.
pub(super) const LANE: VarId = VarId(u32::MAX);

/// A variable's coefficient; never 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Coef {
    Const(i64),
    /// A polynomial in the dimensions that is no constant.
    Dims(Poly),
}

/// `constant + dims + sum of var * coefficient`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Affine {
    pub(super) constant: i64,
    /// A polynomial in the dimensions, with no constant term.
    pub(super) dims: Poly,
    /// Sorted by variable, each once.
    pub(super) terms: Vec<(VarId, Coef)>,
}

impl Coef {
    pub(super) fn from_poly(poly: Poly) -> Self {
        poly.as_constant().map_or(Coef::Dims(poly), Coef::Const)
    }

    pub(super) fn to_poly(&self) -> Poly {
        match self {
            Coef::Const(value) => Poly::constant(*value),
            Coef::Dims(poly) => poly.clone(),
        }
    }

    fn times(&self, other: &Coef) -> Coef {
        match (self, other) {
            (Coef::Const(a), Coef::Const(b)) => Coef::Const(exact_product(*a, *b)),
            (Coef::Const(a), Coef::Dims(b)) | (Coef::Dims(b), Coef::Const(a)) => {
                Self::from_poly(b.clone() * *a)
            }
            (Coef::Dims(a), Coef::Dims(b)) => Self::from_poly(a.clone() * b.clone()),
        }
    }

    fn plus(&self, other: &Coef) -> Coef {
        match (self, other) {
            (Coef::Const(a), Coef::Const(b)) => Coef::Const(exact_sum(*a, *b)),
            _ => Self::from_poly(self.to_poly() + other.to_poly()),
        }
    }

    fn is_zero(&self) -> bool {
        *self == Coef::Const(0)
    }

    pub(super) fn interval(&self, facts: &Facts) -> Interval {
        match self {
            Coef::Const(value) => Interval::point(*value),
            Coef::Dims(poly) => poly.interval(facts),
        }
    }

    /// Returns the greatest constant known to divide the coefficient.
    pub(super) fn divisor(&self) -> i64 {
        match self {
            Coef::Const(value) => *value,
            Coef::Dims(poly) => poly_divisor(poly),
        }
    }

    /// Divides by a constant that must divide exactly.
    pub(super) fn exact_div(&self, by: i64) -> Coef {
        match self {
            Coef::Const(value) => Coef::Const(value / by),
            Coef::Dims(poly) => Coef::Dims(exact_div(poly, by)),
        }
    }
}

impl Affine {
    pub(super) fn constant(constant: i64) -> Self {
        Self { constant, ..Self::default() }
    }

    pub(super) fn var(var: VarId) -> Self {
        Self { terms: vec![(var, Coef::Const(1))], ..Self::default() }
    }

    /// Makes a form of a polynomial without variables.
    pub(super) fn dims(poly: Poly) -> Self {
        let constant = poly.constant_term();
        Self { constant, dims: poly - Poly::constant(constant), terms: Vec::new() }
    }

    pub(super) fn as_constant(&self) -> Option<i64> {
        (self.terms.is_empty() && self.dims.is_zero()).then_some(self.constant)
    }

    /// Returns the value as a polynomial, if no variable occurs.
    pub(super) fn as_dims(&self) -> Option<Poly> {
        self.terms.is_empty().then(|| self.dims.clone() + Poly::constant(self.constant))
    }

    pub(super) fn coefficient(&self, var: VarId) -> Option<&Coef> {
        self.terms.iter().find(|(it, _)| *it == var).map(|(_, coefficient)| coefficient)
    }

    /// Removes the term of a variable and returns its coefficient.
    pub(super) fn take(&mut self, var: VarId) -> Option<Coef> {
        let at = self.terms.iter().position(|(it, _)| *it == var)?;
        Some(self.terms.remove(at).1)
    }

    pub(super) fn add_term(&mut self, var: VarId, coefficient: Coef) {
        match self.terms.binary_search_by_key(&var, |(it, _)| *it) {
            Err(at) if !coefficient.is_zero() => self.terms.insert(at, (var, coefficient)),
            Err(_) => {}
            Ok(at) => {
                let sum = self.terms[at].1.plus(&coefficient);
                if sum.is_zero() {
                    self.terms.remove(at);
                } else {
                    self.terms[at].1 = sum;
                }
            }
        }
    }

    pub(super) fn add_dims(&mut self, poly: Poly) {
        let constant = poly.constant_term();
        self.constant = exact_sum(self.constant, constant);
        self.dims += poly - Poly::constant(constant);
    }

    pub(super) fn add_scaled(&mut self, other: &Affine, coefficient: &Coef) {
        match coefficient {
            Coef::Const(0) => return,
            Coef::Const(factor) => {
                let more = exact_product(other.constant, *factor);
                self.constant = exact_sum(self.constant, more);
                if !other.dims.is_zero() {
                    self.dims += other.dims.clone() * *factor;
                }
            }
            Coef::Dims(poly) => {
                self.add_dims((other.dims.clone() + other.constant.into()) * poly.clone());
            }
        }
        for (var, stride) in &other.terms {
            self.add_term(*var, stride.times(coefficient));
        }
    }

    pub(super) fn scaled(&self, factor: i64) -> Affine {
        let mut out = Affine::default();
        out.add_scaled(self, &Coef::Const(factor));
        out
    }

    /// Bounds the value, given the ranges of the variables.
    pub(super) fn interval(&self, facts: &Facts, range: &dyn Fn(VarId) -> Interval) -> Interval {
        let mut sum = Interval::point(self.constant);
        if !self.dims.is_zero() {
            sum = sum.plus(self.dims.interval(facts));
        }
        for (var, coefficient) in &self.terms {
            sum = sum.plus(coefficient.interval(facts).times(range(*var)));
        }
        sum
    }
}

/// Returns the greatest constant known to divide a polynomial.
pub(super) fn poly_divisor(poly: &Poly) -> i64 {
    poly.terms().fold(0, |divisor, (_, value)| gcd(divisor, value))
}

/// Divides every term by a constant that must divide exactly.
pub(super) fn exact_div(poly: &Poly, by: i64) -> Poly {
    let mut out = Poly::default();
    for (atoms, value) in poly.terms() {
        out += product(atoms) * (value / by);
    }
    out
}

fn product(atoms: &[Atom]) -> Poly {
    atoms.iter().fold(Poly::constant(1), |sum, it| sum * Poly::atom(it.clone()))
}

/// Canonicalizes divisions, so that interval analysis is exact for remainders of tiling:
/// `c * floor(a / c)` becomes `a - a % c`, and `floor(floor(a / b) / c)` becomes `floor(a / (b * c))`.
pub(super) fn simplify(poly: Poly, facts: &Facts) -> Poly {
    let is_composite = |atom: &Atom| !matches!(atom, Atom::Dim(_) | Atom::Var(_));
    if !poly.terms().any(|(atoms, _)| atoms.iter().any(is_composite)) {
        return poly;
    }
    let mut out = Poly::default();
    for (atoms, value) in poly.terms() {
        let product = atoms
            .iter()
            .fold(Poly::constant(1), |product, atom| product * simplify_atom(atom, facts));
        out += match as_floor_multiple(&product, value) {
            Some((a, c)) => (a.clone() - remainder(&a, c, facts)) * (value / c),
            None => product * value,
        };
    }
    out
}

/// Matches `k * c * floor(a / c)` and returns `a` and `c`.
fn as_floor_multiple(product: &Poly, value: i64) -> Option<(Poly, i64)> {
    let mut terms = product.terms();
    match (terms.next(), terms.next()) {
        (Some(([Atom::Div(a, c)], 1)), None) => {
            c.as_constant().filter(|c| value % c == 0).map(|c| ((**a).clone(), c))
        }
        _ => None,
    }
}

fn simplify_atom(atom: &Atom, facts: &Facts) -> Poly {
    let inner = |it: &Poly| simplify(it.clone(), facts);
    match atom {
        Atom::Dim(_) | Atom::Var(_) => Poly::atom(atom.clone()),
        Atom::Div(a, b) => {
            let (a, b) = (inner(a), inner(b));
            match quotient_of_quotient(&a).zip(b.as_constant()) {
                Some(((whole, c, more), b)) => {
                    (whole + Poly::constant(more * c)).div(&Poly::constant(b * c), facts)
                }
                None => a.div(&b, facts),
            }
        }
        Atom::Mod(a, b) => match b.as_constant() {
            Some(c) if c > 0 => remainder(&inner(a), c, facts),
            _ => inner(a).modulo(&inner(b), facts),
        },
        Atom::Min(a, b) => inner(a).lesser(&inner(b), facts),
        Atom::Max(a, b) => inner(a).greater(&inner(b), facts),
    }
}

/// Matches `floor(a / c) + k` and returns `a`, `c` and `k`.
fn quotient_of_quotient(poly: &Poly) -> Option<(Poly, i64, i64)> {
    let rest = poly.clone() - Poly::constant(poly.constant_term());
    let (whole, c) = as_floor_multiple(&rest, 0)?;
    Some((whole, c, poly.constant_term()))
}

/// Returns `a % c`, with `(x % (k * c)) % c` simplified to `x % c`.
fn remainder(a: &Poly, c: i64, facts: &Facts) -> Poly {
    let whole = |atom: &Atom| match atom {
        Atom::Mod(whole, by) => {
            by.as_constant().filter(|by| by % c == 0).map(|_| (**whole).clone())
        }
        _ => None,
    };
    let mut out = Poly::default();
    for (atoms, value) in a.terms() {
        let found = if let [atom] = atoms { whole(atom) } else { None };
        out += found.unwrap_or_else(|| product(atoms)) * value;
    }
    out.modulo(&Poly::constant(c), facts)
}

/// Counts the atoms of a polynomial, nested ones included.
pub(super) fn n_atoms(poly: &Poly) -> usize {
    let of_atom = |atom: &Atom| match atom {
        Atom::Dim(_) | Atom::Var(_) => 1,
        Atom::Div(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
            1 + n_atoms(a) + n_atoms(b)
        }
    };
    poly.terms().map(|(atoms, _)| atoms.iter().map(of_atom).sum::<usize>()).sum()
}
