//! Loops that must be written out: registers have no addresses, so what indexes them is a constant.
//!
//! ```text
//! for i in 0..n: r[i] = x[i]     =>     unrolled i in 0..8: if i < n: r[i] = x[i]      -- n <= 8
//! ```

use std::collections::BTreeSet;

use super::{Kernel, LoopKind, Stmt};
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};
use tvmtune_schedule::nest::Guard;

/// Longer loops stay: what they index then has addresses after all, and is slow.
const MAX_UNROLLED: i64 = 128;

/// Writes out the loops on whose variables registers depend.
pub(super) fn loops(kernel: &mut Kernel, in_registers: &dyn Fn(TensorId) -> bool, facts: &Facts) {
    let mut vars = BTreeSet::new();
    for stmt in &kernel.body {
        stmt.walk(&mut |it| collect(it, in_registers, &mut vars));
    }
    rewrite(&mut kernel.body, &vars, facts);
}

fn collect(stmt: &Stmt, in_registers: &dyn Fn(TensorId) -> bool, vars: &mut BTreeSet<VarId>) {
    let mut note = |poly: &Poly| {
        poly.for_each_leaf(&mut |leaf| {
            if let Atom::Var(var) = leaf {
                vars.insert(*var);
            }
        });
    };
    match stmt {
        Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } => {
            if in_registers(*tensor) {
                index.iter().for_each(&mut note);
            }
            value.walk(&mut |it| {
                if let Expr::Read { tensor, index } = it
                    && in_registers(*tensor)
                {
                    for subscript in index {
                        if let Subscript::Affine(poly) = subscript {
                            note(poly);
                        }
                    }
                }
            });
        }
        Stmt::AllReduce { index, .. } => index.iter().for_each(note),
        _ => {}
    }
}

fn rewrite(body: &mut [Stmt], vars: &BTreeSet<VarId>, facts: &Facts) {
    for stmt in body {
        if let Stmt::For { var, extent, kind, body, .. } = stmt
            && vars.contains(var)
            && extent.interval(facts).hi <= MAX_UNROLLED
        {
            if *kind == LoopKind::Serial {
                *kind = LoopKind::Unrolled;
            }
            if extent.as_constant().is_none() {
                let most = extent.interval(facts).hi.max(0);
                let bound = std::mem::replace(extent, Poly::constant(most));
                let guards = vec![Guard { value: Poly::var(*var), bound }];
                *body = vec![Stmt::If { guards, body: std::mem::take(body) }];
            }
        }
        if let Some(body) = stmt.body_mut() {
            rewrite(body, vars, facts);
        }
    }
}
