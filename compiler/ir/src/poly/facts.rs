//! Facts about dimensions and variables, and proofs from them.

use std::collections::BTreeMap;

use super::{Atom, DimId, Poly, VarId};

/// The values an integer may take, both ends included.
///
/// The least and the greatest `i64` as ends stand for values beyond them, too: arithmetic keeps such
/// an end, so that no proof rests on a number that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The least value.
    pub lo: i64,
    /// The greatest value.
    pub hi: i64,
}

impl Interval {
    /// The interval of which nothing is known.
    pub(crate) const ANY: Self = Self { lo: i64::MIN, hi: i64::MAX };

    /// The interval that holds one value.
    pub fn point(value: i64) -> Self {
        Self { lo: value, hi: value }
    }

    /// The integers from 0 on that are less than a number that is at most `hi`.
    fn below(hi: i64) -> Self {
        Self { lo: 0, hi: if hi == i64::MAX { hi } else { (hi - 1).max(0) } }
    }

    fn hull(values: impl IntoIterator<Item = i128>) -> Self {
        let (mut lo, mut hi) = (i128::MAX, i128::MIN);
        for it in values {
            (lo, hi) = (lo.min(it), hi.max(it));
        }
        Self { lo: saturate(lo), hi: saturate(hi) }
    }

    /// The ends, those that stand for values beyond `i64` as 2^63 and its negative.
    fn ends(self) -> [i128; 2] {
        [self.lo.into(), if self.hi == i64::MAX { BEYOND } else { self.hi.into() }]
    }

    /// Returns whether a value is in the interval.
    pub fn contains(self, value: i64) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// Returns whether all of another interval is in this one.
    pub fn includes(self, other: Self) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    /// The least interval that has the values of both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// The minima of a value of each.
    #[must_use]
    pub fn lesser(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.min(other.hi) }
    }

    /// The maxima of a value of each.
    #[must_use]
    pub fn greater(self, other: Self) -> Self {
        Self { lo: self.lo.max(other.lo), hi: self.hi.max(other.hi) }
    }

    /// The sums of a value of each.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: i64, b: i64, beyond: i64| {
            if a == beyond || b == beyond { beyond } else { a.saturating_add(b) }
        };
        Self { lo: sum(self.lo, other.lo, i64::MIN), hi: sum(self.hi, other.hi, i64::MAX) }
    }

    /// The products of a value of each.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.ends(), other.ends());
        Self::hull([product(a, c), product(a, d), product(b, c), product(b, d)])
    }

    /// The quotients, rounded down, of a value of each; divisors are at least 1.
    fn divided_by(self, other: Self) -> Self {
        let (least, most) = (other.lo.max(1), other.hi.max(1));
        let quotient = |x: i64, y: i64| i128::from(x.div_euclid(y));
        let found = Self::hull([
            quotient(self.lo, least),
            quotient(self.lo, most),
            quotient(self.hi, least),
            quotient(self.hi, most),
        ]);
        Self {
            lo: if self.lo == i64::MIN { i64::MIN } else { found.lo },
            hi: if self.hi == i64::MAX { i64::MAX } else { found.hi },
        }
    }
}

/// The magnitude of ends that stand for values beyond `i64`.
const BEYOND: i128 = 1 << 63;

/// The product of two ends; that with an end that stands for more stands for more.
fn product(a: i128, b: i128) -> i128 {
    let exact = a * b;
    let is_beyond = a.abs() >= BEYOND || b.abs() >= BEYOND;
    if is_beyond { exact.signum() * BEYOND } else { exact }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Ranges of dimensions and extents of loop variables, from which facts about a [`Poly`] are proven.
///
/// A variable's bound may mention dimensions and other variables; looking it up must terminate,
/// so a bound mentions only variables of loops further out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    dims: BTreeMap<DimId, Interval>,
    /// The lower bound of a dimension, as a polynomial in others.
    pub(super) lower_ends: BTreeMap<DimId, Poly>,
    vars: BTreeMap<VarId, Poly>,
}

impl Facts {
    /// The facts about dimensions of those ranges, in order.
    pub fn of_dims(ranges: impl IntoIterator<Item = Interval>) -> Self {
        let dims = (0..).map(DimId).zip(ranges).collect();
        Self { dims, ..Self::default() }
    }

    /// States that `dim` lies in `range` at every launch.
    pub fn bound_dim(&mut self, dim: DimId, range: Interval) {
        self.dims.insert(dim, range);
    }

    /// States that `0 <= var < extent` in every iteration. Of a minimum, the operand
    /// that depends on no other variable counts: proofs go through sums and products.
    pub fn bound_var(&mut self, var: VarId, extent: Poly) {
        let independent = match extent.terms.as_slice() {
            [(atoms, 1)] => match atoms.as_slice() {
                [Atom::Min(a, b)] if a.has_vars() && !b.has_vars() => Some(Poly::clone(b)),
                [Atom::Min(a, b)] if b.has_vars() && !a.has_vars() => Some(Poly::clone(a)),
                _ => None,
            },
            _ => None,
        };
        self.vars.insert(var, independent.unwrap_or(extent));
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
    /// Every value this may take under the facts; unknown atoms make it unbounded.
    pub fn interval(&self, facts: &Facts) -> Interval {
        let range = self.interval_of_terms(facts);
        match self.interval_by_cases(facts) {
            Some(by_cases) => {
                Interval { lo: range.lo.max(by_cases.lo), hi: range.hi.min(by_cases.hi) }
            }
            None => range,
        }
    }

    /// The sum of the ranges of the terms.
    pub(super) fn interval_of_terms(&self, facts: &Facts) -> Interval {
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

    /// Returns whether `self >= 0` can be proven.
    pub fn is_nonnegative(&self, facts: &Facts) -> bool {
        self.is_proven_nonnegative(facts) || self.is_nonnegative_by_cases(facts)
    }

    pub(super) fn is_proven_nonnegative(&self, facts: &Facts) -> bool {
        if self.interval(facts).lo >= 0 {
            return true;
        }
        let proves = |least: Poly| {
            least.interval(facts).lo >= 0
                || least.shifted_is_nonnegative(facts)
                || least.is_nonnegative_above_lower_ends(facts)
        };
        proves(self.least(facts))
            || self.with_multiples_of_quotients().is_some_and(|it| proves(it.least(facts)))
    }

    /// A lower bound in which multiples of a divisor times its quotient became the dividend, up to
    /// the remainder: `8 * ((p + 7) / 8) >= p`. `None` if there are none.
    fn with_multiples_of_quotients(&self) -> Option<Poly> {
        let mut bound = Poly::default();
        let mut found = false;
        for (atoms, value) in &self.terms {
            let multiple = match atoms.as_slice() {
                [Atom::Div(inner, divisor)] => {
                    let divisor = divisor.as_constant().filter(|it| value % it == 0);
                    divisor.map(|it| (inner, value / it, it - 1))
                }
                _ => None,
            };
            found |= multiple.is_some();
            bound += match multiple {
                Some((inner, times, rest)) if times > 0 => {
                    ((**inner).clone() - Poly::constant(rest)) * times
                }
                Some((inner, times, _)) => (**inner).clone() * times,
                None => Poly { terms: vec![(atoms.clone(), *value)] },
            };
        }
        found.then_some(bound)
    }

    /// Returns whether `self >= 1` can be proven.
    pub fn is_positive(&self, facts: &Facts) -> bool {
        self.interval(facts).lo >= 1 || (self.clone() - Poly::constant(1)).is_nonnegative(facts)
    }

    /// A lower bound in which each variable, innermost first, took its worst value.
    fn least(&self, facts: &Facts) -> Poly {
        let mut bound = self.without_divisions(facts);
        let mut below = VarId(u32::MAX);
        while let Some(var) = bound.last_var_before(below) {
            below = var;
            let Some(extent) = facts.vars.get(&var) else { continue };
            let Some((coefficient, rest)) = bound.split_linear(var) else { continue };
            let range = coefficient.interval(facts);
            if range.lo >= 0 {
                bound = rest;
            } else if range.hi <= 0 {
                bound = coefficient * (extent.clone() - Poly::constant(1)) + rest;
            }
        }
        bound
    }

    /// A lower bound in which quotients and remainders took their worst value.
    fn without_divisions(&self, facts: &Facts) -> Poly {
        let mut bound = Poly::default();
        for (atoms, value) in &self.terms {
            let place = atoms.iter().position(|it| matches!(it, Atom::Div(..) | Atom::Mod(..)));
            let worst = place.and_then(|place| {
                let mut factor = Poly::constant(*value);
                for (n, atom) in atoms.iter().enumerate() {
                    if n != place {
                        factor = factor * Poly::atom(atom.clone());
                    }
                }
                let range = factor.interval(facts);
                let side = if range.lo >= 0 { Side::Lower } else { Side::Upper };
                let worst = atoms[place].bound(side, facts)?;
                (range.lo >= 0 || range.hi <= 0).then(|| factor * worst)
            });
            bound += worst.unwrap_or_else(|| Poly { terms: vec![(atoms.clone(), *value)] });
        }
        bound
    }

    /// The innermost variable below `limit` that is a factor of a term.
    fn last_var_before(&self, limit: VarId) -> Option<VarId> {
        let vars = self.terms.iter().flat_map(|(atoms, _)| atoms).filter_map(|it| match it {
            Atom::Var(var) if *var < limit => Some(*var),
            _ => None,
        });
        vars.max()
    }

    /// Returns whether this is nonnegative because dimensions are at least their lower ends.
    fn is_nonnegative_above_lower_ends(&self, facts: &Facts) -> bool {
        self.above_lower_ends(facts).is_some_and(|it| {
            let rounded = it.with_multiples_of_quotients();
            it.shifted_is_nonnegative(facts)
                || rounded.is_some_and(|it| it.shifted_is_nonnegative(facts))
        })
    }

    /// Returns whether every coefficient is nonnegative once dimensions count from their lower bound.
    fn shifted_is_nonnegative(&self, facts: &Facts) -> bool {
        // Dimensions nested in other atoms stay: the facts bound those atoms.
        let shift = |atom: &Atom| match atom {
            Atom::Dim(dim) => {
                let lo = facts.dims.get(dim).map_or(0, |it| it.lo);
                Poly::dim(*dim) + Poly::constant(lo)
            }
            other => Poly::atom(other.clone()),
        };
        let mut shifted = Poly::default();
        for (atoms, value) in &self.terms {
            let product = atoms.iter().map(shift).fold(Poly::constant(*value), |a, b| a * b);
            shifted += product;
        }
        let nonnegative = |atom: &Atom| match atom {
            Atom::Dim(dim) => facts.dims.contains_key(dim) || Facts::is_difference(*dim),
            other => other.interval(facts).lo >= 0,
        };
        shifted.terms.iter().all(|(atoms, value)| *value >= 0 && atoms.iter().all(nonnegative))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Lower,
    Upper,
}

impl Atom {
    /// A bound of a quotient or remainder without variables.
    fn bound(&self, side: Side, facts: &Facts) -> Option<Poly> {
        let (Atom::Div(value, divisor) | Atom::Mod(value, divisor)) = self else { return None };
        if divisor.has_vars() || divisor.interval(facts).lo < 1 {
            return None;
        }
        let bound = match self {
            Atom::Div(..) if side == Side::Lower => value.least(facts).div(divisor, facts),
            Atom::Div(..) => {
                let most = -Poly::least(&-(**value).clone(), facts);
                most.div(divisor, facts)
            }
            _ if side == Side::Lower => Poly::default(),
            _ => (**divisor).clone() - Poly::constant(1),
        };
        (!bound.has_vars()).then_some(bound)
    }

    fn interval(&self, facts: &Facts) -> Interval {
        match self {
            Atom::Dim(dim) => facts.dims.get(dim).copied().unwrap_or(Interval::ANY),
            Atom::Var(var) => facts
                .vars
                .get(var)
                .map_or(Interval::ANY, |extent| Interval::below(extent.interval(facts).hi)),
            Atom::Div(a, b) => a.interval(facts).divided_by(b.interval(facts)),
            Atom::Mod(_, b) => Interval::below(b.interval(facts).hi),
            Atom::Min(a, b) => a.interval(facts).lesser(b.interval(facts)),
            Atom::Max(a, b) => a.interval(facts).greater(b.interval(facts)),
        }
    }
}
