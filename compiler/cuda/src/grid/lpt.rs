//! LPT order: blocks with most work start first.
//!
//! In causal attention the trip count of a loop grows with the variable of a loop over blocks: blocks
//! that start in order leave the longest for the end, when most multiprocessors are idle. Such a
//! loop over blocks is reversed and, of a grid of few waves, becomes the outermost, so that the longest
//! blocks of all heads start first. An H200 took 135 microseconds for 512 blocks in the order of heads,
//! of which multiprocessors were idle for 30 (`docs/results/h200.md`).
//!
//! # Source
//!
//! List scheduling by longest processing time (Graham, 1969).

use super::{BlockVar, Kernel, Statement, Stmt};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// The most blocks of which the longest of all start first. With more of them the last wave matters less
/// than that neighbors read the same rows.
const FEW: i64 = 1024;

/// Lets loops over blocks or tiles count down with whose variables only the work grows.
pub(super) fn lpt_order(kernel: &mut Kernel, facts: &Facts) {
    let mut extents = Vec::new();
    for stmt in kernel.statements() {
        stmt.walk(&mut |it| {
            if let Stmt::For { extent, .. } = it
                && extent.has_vars()
            {
                extents.push(extent.clone());
            }
        });
    }
    let is_longest_last = |var: VarId| {
        let mut depend = extents.iter().filter(|it| it.mentions(var)).peekable();
        depend.peek().is_some() && depend.all(|it| grows(it, var, facts))
    };
    let tiles = kernel.tiles.iter_mut().map(|it| &mut it.vars);
    for vars in std::iter::once(&mut kernel.blocks).chain(tiles) {
        for it in vars.iter_mut() {
            // Blocks of a cluster start at the same time.
            it.is_reversed = !it.in_cluster && is_longest_last(it.var);
        }
        let most = |it: &BlockVar| it.extent.interval(facts).hi.max(1);
        if vars.iter().map(most).fold(1, i64::saturating_mul) <= FEW {
            vars.sort_by_key(|it| !it.is_reversed);
        }
    }
}

/// Returns whether a polynomial does not fall as a variable grows.
fn grows(poly: &Poly, var: VarId, facts: &Facts) -> bool {
    poly.terms().all(|(atoms, coefficient)| {
        let mut depend = atoms.iter().filter(|it| Poly::atom((*it).clone()).mentions(var));
        match (depend.next(), depend.next()) {
            (None, _) => true,
            (Some(it), None) => {
                let others = atoms.iter().filter(|other| *other != it);
                let times = others
                    .fold(Poly::constant(coefficient), |all, it| all * Poly::atom(it.clone()));
                times.is_nonnegative(facts) && atom_grows(it, var, facts)
            }
            _ => false,
        }
    })
}

fn atom_grows(atom: &Atom, var: VarId, facts: &Facts) -> bool {
    match atom {
        Atom::Dim(_) | Atom::Var(_) => true,
        Atom::Div(a, b) => !b.mentions(var) && grows(a, var, facts),
        Atom::Min(a, b) | Atom::Max(a, b) => grows(a, var, facts) && grows(b, var, facts),
        Atom::Mod(..) => false,
    }
}
