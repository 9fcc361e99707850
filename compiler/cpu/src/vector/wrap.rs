//! Indices that wrap around: `x[(i + 3) % n]`.
//!
//! ```text
//! x[(i + 3) % n]   =>   if i + 3 < n { x[i + 3] } else { x[i + 3 - n] }
//! ```
//!
//! A remainder is not linear in the lane, but the dividend is. Where the quotient is one of two numbers, there
//! are two cases, and each is one run of memory.

use tvmtune_ir::dag::{CompareOp, Expr, Subscript};
use tvmtune_ir::poly::{Atom, Facts, Poly};
use tvmtune_schedule::nest::Guard;

/// A division whose quotient is a number or the next one.
struct Division {
    dividend: Poly,
    divisor: Poly,
    quotient: i64,
}

/// Splits an index, or a read at one, by the first quotient or remainder in it that has two cases.
/// `guards` hold there, and `facts` have the extents of loops.
pub(super) fn by_cases(expr: &Expr, facts: &Facts, guards: &[Guard]) -> Option<Expr> {
    let division = match expr {
        Expr::Index(poly) => in_poly(poly, facts, guards),
        Expr::Read { index, .. } => index.iter().find_map(|it| match it {
            Subscript::Affine(poly) => in_poly(poly, facts, guards),
            Subscript::Value(_) => None,
        }),
        _ => None,
    }?;
    let index = |it: Poly| Box::new(Expr::Index(it));
    let Division { dividend, divisor, quotient } = &division;
    let end = index(divisor.clone() * (quotient + 1));
    Some(Expr::Select {
        condition: Box::new(Expr::Compare(CompareOp::Lt, index(dividend.clone()), end)),
        then: Box::new(in_case(expr, &division, *quotient)),
        otherwise: Box::new(in_case(expr, &division, quotient + 1)),
    })
}

fn in_poly(poly: &Poly, facts: &Facts, guards: &[Guard]) -> Option<Division> {
    let is_less = |a: &Poly, b: &Poly| {
        // A guard `x < n` says that `x + c` is at most `n - 1 + c`.
        let most = |it: &Guard| a.clone() - it.value.clone() + it.bound.clone() - Poly::constant(1);
        let is_above = |most: Poly| (b.clone() - most).is_positive(facts);
        is_above(a.clone()) || guards.iter().any(|it| is_above(most(it)))
    };
    let is_in = |a: &Poly, b: &Poly, quotient: i64| {
        let first = a.clone() - b.clone() * quotient;
        first.is_nonnegative(facts) && is_less(a, &(b.clone() * (quotient + 2)))
    };
    poly.terms().flat_map(|(atoms, _)| atoms).find_map(|atom| match atom {
        Atom::Div(a, b) | Atom::Mod(a, b) if a.has_vars() => {
            let quotient = [0, -1].into_iter().find(|it| is_in(a, b, *it))?;
            Some(Division { dividend: (**a).clone(), divisor: (**b).clone(), quotient })
        }
        _ => None,
    })
}

/// Returns an index, or a read at one, where a quotient has a value.
fn in_case(expr: &Expr, division: &Division, quotient: i64) -> Expr {
    let replaced = |poly: &Poly| {
        let mut out = Poly::default();
        for (atoms, value) in poly.terms() {
            let product = atoms.iter().map(|it| atom_in_case(it, division, quotient));
            out += product.fold(Poly::constant(value), |product, it| product * it);
        }
        out
    };
    match expr {
        Expr::Index(poly) => Expr::Index(replaced(poly)),
        Expr::Read { tensor, index } => {
            let index = index.iter().map(|it| match it {
                Subscript::Affine(poly) => Subscript::Affine(replaced(poly)),
                Subscript::Value(_) => it.clone(),
            });
            Expr::Read { tensor: *tensor, index: index.collect() }
        }
        _ => expr.clone(),
    }
}

fn atom_in_case(atom: &Atom, division: &Division, quotient: i64) -> Poly {
    let Division { dividend, divisor, .. } = division;
    match atom {
        Atom::Div(a, b) if **a == *dividend && **b == *divisor => Poly::constant(quotient),
        Atom::Mod(a, b) if **a == *dividend && **b == *divisor => {
            dividend.clone() - divisor.clone() * quotient
        }
        _ => Poly::atom(atom.clone()),
    }
}
