//! Minima and maxima by cases: each is one of its operands.

use super::{Atom, Facts, Interval, Poly};

/// Minima and maxima in which a proof distinguishes cases: there are two to the power of it at most.
const MAX_CASES: usize = 4;

/// A sum with a multiple of a minimum or maximum.
struct Choice<'a> {
    /// The other terms.
    rest: Poly,
    operands: [&'a Poly; 2],
    times: i64,
    /// False of a maximum.
    is_minimum: bool,
}

impl Poly {
    /// Returns a minimum or maximum that depends on a variable, wherever it occurs, whose operands contain no
    /// such one. Others are one number in a launch.
    pub fn innermost_choice(&self) -> Option<Atom> {
        self.terms.iter().flat_map(|(atoms, _)| atoms).find_map(|atom| match atom {
            Atom::Dim(_) | Atom::Var(_) => None,
            Atom::Div(a, b) | Atom::Mod(a, b) => {
                a.innermost_choice().or_else(|| b.innermost_choice())
            }
            Atom::Min(a, b) | Atom::Max(a, b) => {
                let depends = a.has_vars() || b.has_vars();
                let inner = || a.innermost_choice().or_else(|| b.innermost_choice());
                depends.then(|| inner().unwrap_or_else(|| atom.clone()))
            }
        })
    }

    /// Returns the range of a sum with minima or maxima, of which it distinguishes the first: `n - max(n - 5, 0)`
    /// is at most 5, whatever `n` is.
    pub(super) fn interval_by_cases(&self, facts: &Facts) -> Option<Interval> {
        if self.terms.len() < 2 {
            return None;
        }
        let Choice { rest, operands, times, is_minimum } = self.first_choice()?;
        let with = |it: &Poly| (rest.clone() + it.clone() * times).interval_of_terms(facts);
        let [a, b] = operands.map(with);
        Some(if is_minimum == (times > 0) { a.lesser(b) } else { a.greater(b) })
    }

    /// Returns the first term that is a multiple of a minimum or maximum.
    fn first_choice(&self) -> Option<Choice<'_>> {
        let (at, (operands, times, is_minimum)) =
            self.terms.iter().enumerate().find_map(|(at, (atoms, times))| {
                let (a, b, is_minimum) = match atoms.as_slice() {
                    [Atom::Min(a, b)] => (a, b, true),
                    [Atom::Max(a, b)] => (a, b, false),
                    _ => return None,
                };
                Some((at, ([&**a, &**b], *times, is_minimum)))
            })?;
        let mut rest = self.clone();
        rest.terms.remove(at);
        Some(Choice { rest, operands, times, is_minimum })
    }

    /// Proves `self >= 0` from the operands of minima and maxima: `m <= max(m, n)`.
    pub(super) fn is_nonnegative_by_cases(&self, facts: &Facts) -> bool {
        self.cases(facts, MAX_CASES)
    }

    fn cases(&self, facts: &Facts, left: usize) -> bool {
        let Some(Choice { rest, operands: [a, b], times, is_minimum }) = self.first_choice() else {
            return false;
        };
        let Some(left) = left.checked_sub(1) else { return false };
        let is_either = is_minimum == (times < 0);
        let with = |operand: &Poly| {
            let it = rest.clone() + operand.clone() * times;
            it.is_proven_nonnegative(facts) || it.cases(facts, left)
        };
        // A subtracted minimum takes no more away than either operand does; of an added one, both operands count.
        if is_either { with(a) || with(b) } else { with(a) && with(b) }
    }
}
