//! Minima and maxima by cases: each is one of its operands.

use super::{Atom, Facts, Poly};

/// Minima and maxima in which a proof distinguishes cases: there are two to the power of it at most.
const MAX_CASES: usize = 4;

impl Poly {
    /// Returns a minimum or maximum, wherever it occurs, whose operands contain none.
    pub fn innermost_choice(&self) -> Option<Atom> {
        self.terms.iter().flat_map(|(atoms, _)| atoms).find_map(|atom| match atom {
            Atom::Dim(_) | Atom::Var(_) => None,
            Atom::Div(a, b) | Atom::Mod(a, b) => {
                a.innermost_choice().or_else(|| b.innermost_choice())
            }
            Atom::Min(a, b) | Atom::Max(a, b) => {
                a.innermost_choice().or_else(|| b.innermost_choice()).or_else(|| Some(atom.clone()))
            }
        })
    }

    /// Proves `self >= 0` from the operands of minima and maxima: `m <= max(m, n)`.
    pub(super) fn is_nonnegative_by_cases(&self, facts: &Facts) -> bool {
        self.cases(facts, MAX_CASES)
    }

    fn cases(&self, facts: &Facts, left: usize) -> bool {
        let choice = |(atoms, times): &(Vec<Atom>, i64)| match atoms.as_slice() {
            [Atom::Min(a, b)] => Some((a.clone(), b.clone(), *times, *times < 0)),
            [Atom::Max(a, b)] => Some((a.clone(), b.clone(), *times, *times > 0)),
            _ => None,
        };
        let Some((at, found)) = (0..).zip(&self.terms).find_map(|(n, it)| Some((n, choice(it)?)))
        else {
            return false;
        };
        let Some(left) = left.checked_sub(1) else { return false };
        let (a, b, times, is_either) = found;
        let mut rest = self.clone();
        rest.terms.remove(at);
        let with = |operand: &Poly| {
            let it = rest.clone() + operand.clone() * times;
            it.is_proven_nonnegative(facts) || it.cases(facts, left)
        };
        // A subtracted minimum takes no more away than either operand does; of an added one, both operands count.
        if is_either { with(&a) || with(&b) } else { with(&a) && with(&b) }
    }
}
