//! Loops of which data choose the one iteration that counts.
//!
//! ```text
//! for s { acc[s] += if segment[e] == s { x[e] } else { 0 } }   =>   s = segment[e]; acc[s] += x[e]
//! ```
//!
//! In all other iterations the reducer's identity is added.

use super::{Guard, Nest, Stmt};
use tvmtune_ir::dag::chosen::{Chosen, chosen};
use tvmtune_ir::dag::limits::MAX_INDEX;
use tvmtune_ir::dag::{Expr, Numerics};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// The iteration of a loop that counts.
#[derive(Clone, Debug)]
pub struct ChosenIteration {
    /// The integer that chooses, which no statement of the body changes.
    pub chosen: Chosen,
    /// Guards without which no iteration counts: they keep the integer in bounds.
    pub guards: Vec<Guard>,
    /// The body for that iteration, without these guards.
    pub body: Vec<Stmt>,
}

impl ChosenIteration {
    /// Returns that of a loop over a body, if data choose it.
    pub fn of<S, T>(nest: &Nest<S, T>, var: VarId, body: &[Stmt]) -> Option<Self> {
        let only = OnlyUpdate::of(var, body)?;
        let Stmt::Update { tensor, reducer, value, .. } = only.update else { return None };
        let dtype = nest.buffer(*tensor).dtype;
        let identity = Expr::Const(reducer.identity(dtype), dtype);
        let is_inside = |var: &VarId| only.loops.contains(var);
        let (masks, value) = masks(value, &identity, &|it| is_inside(it), &nest.facts());
        let chosen = chosen(value, &identity, var, &|it| is_inside(&it), nest)?;
        let all = only.guards.into_iter().chain(&masks);
        let (within, guards): (Vec<&Guard>, Vec<&Guard>) =
            all.partition(|it| variables(it).iter().any(is_inside));
        // Guards inside the loop are tested after the integer was read.
        let is_guarded = |it: &&Guard| variables(it).iter().any(|it| chosen.data.mentions(*it));
        if within.iter().any(is_guarded) || chosen.data.reads(*tensor) {
            return None;
        }
        let guards: Vec<Guard> = guards.into_iter().cloned().collect();
        let term = chosen.term.clone();
        // A product under a condition is none that a sum contracts, where bits are fixed.
        let term = if nest.numerics == Numerics::Fixed { term.rounded(dtype) } else { term };
        let body = with_value(body, &term, &guards);
        Some(Self { chosen, guards, body })
    }
}

/// Returns the conditions of indices of loops outside of a term which leave it out, and the term without them.
fn masks<'e>(
    mut term: &'e Expr,
    identity: &Expr,
    is_inside: &dyn Fn(&VarId) -> bool,
    facts: &Facts,
) -> (Vec<Guard>, &'e Expr) {
    let mut found = Vec::new();
    // Variables of loops are never negative, wherever these are.
    let is_natural = |guard: &Guard| {
        let mut facts = facts.clone();
        let vars = variables(guard).into_iter();
        vars.for_each(|it| facts.bound_var(it, Poly::constant(MAX_INDEX)));
        guard.value.is_nonnegative(&facts)
    };
    while let Expr::Select { condition, then, otherwise } = term
        && **otherwise == *identity
        && let Some(guards) = Guard::all_of(condition)
        && guards.iter().all(is_natural)
        && !guards.iter().any(|it| variables(it).iter().any(is_inside))
    {
        found.extend(guards);
        term = then;
    }
    (found, term)
}

fn variables(guard: &Guard) -> Vec<VarId> {
    let mut found = Vec::new();
    for poly in [&guard.value, &guard.bound] {
        poly.for_each_leaf(&mut |atom| {
            if let Atom::Var(var) = atom {
                found.push(*var);
            }
        });
    }
    found
}

/// The only statement of a loop, an update, and all that stands around it, the loop included.
struct OnlyUpdate<'n> {
    loops: Vec<VarId>,
    guards: Vec<&'n Guard>,
    update: &'n Stmt,
}

impl<'n> OnlyUpdate<'n> {
    fn of(var: VarId, mut body: &'n [Stmt]) -> Option<Self> {
        let (mut loops, mut guards) = (vec![var], Vec::new());
        loop {
            let [stmt] = body else { return None };
            match stmt {
                Stmt::For { var, body: inner, .. } => {
                    loops.push(*var);
                    body = inner;
                }
                Stmt::If { guards: own, body: inner } => {
                    guards.extend(own);
                    body = inner;
                }
                Stmt::Update { .. } => return Some(Self { loops, guards, update: stmt }),
                Stmt::Store { .. } => return None,
            }
        }
    }
}

/// Replaces the value of the only statement, and removes guards.
fn with_value(body: &[Stmt], term: &Expr, without: &[Guard]) -> Vec<Stmt> {
    let replace = |stmt: &Stmt| match stmt.clone() {
        Stmt::For { var, name, extent, kind, body } => {
            vec![Stmt::For { var, name, extent, kind, body: with_value(&body, term, without) }]
        }
        Stmt::If { mut guards, body } => {
            guards.retain(|it| !without.contains(it));
            let body = with_value(&body, term, without);
            if guards.is_empty() { body } else { vec![Stmt::If { guards, body }] }
        }
        Stmt::Update { tensor, index, reducer, .. } => {
            vec![Stmt::Update { tensor, index, reducer, value: term.clone() }]
        }
        store @ Stmt::Store { .. } => vec![store],
    };
    body.iter().flat_map(replace).collect()
}
