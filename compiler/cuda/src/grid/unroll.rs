//! Unrolling of loops that index registers: registers have no addresses, so their indices must be
//! constants.
//!
//! ```text
//! for i in 0..n: r[i] = x[i]     =>     unrolled i in 0..8: if i < n: r[i] = x[i]      -- n <= 8
//! ```

use std::collections::BTreeSet;

use super::unbound::{Kernel, Stmt};
use super::{LoopKind, Statement};
use tvmtune_ir::dag::{Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};
use tvmtune_schedule::nest::{Access, Guard};

/// Longer loops stay: what they index then has addresses after all, and is slow.
const MAX_UNROLLED: i64 = 128;

/// Writes out the loops on whose variables registers depend.
pub(super) fn loops(kernel: &mut Kernel, in_registers: &dyn Fn(TensorId) -> bool, facts: &Facts) {
    let mut vars = BTreeSet::new();
    for stmt in &kernel.body {
        stmt.walk(&mut |it| collect(it, in_registers, &mut vars));
    }
    kernel.body.iter_mut().for_each(|it| it.for_each_mut(&mut |it| unroll(it, &vars, facts)));
}

fn collect(stmt: &Stmt, in_registers: &dyn Fn(TensorId) -> bool, vars: &mut BTreeSet<VarId>) {
    let mut note = |poly: &Poly| {
        poly.for_each_leaf(&mut |leaf| {
            if let Atom::Var(var) = leaf {
                vars.insert(*var);
            }
        });
    };
    if let Stmt::AllReduce { index, .. } = stmt {
        index.iter().for_each(&mut note);
    }
    stmt.own_accesses(&mut |it| match it {
        _ if !in_registers(it.tensor()) => {}
        Access::Write(_, index) => index.iter().for_each(&mut note),
        Access::Read(_, index) => index.iter().filter_map(Subscript::affine).for_each(&mut note),
    });
}

fn unroll(stmt: &mut Stmt, vars: &BTreeSet<VarId>, facts: &Facts) {
    let Stmt::For { var, extent, kind, body, .. } = stmt else { return };
    if !vars.contains(var) || extent.interval(facts).hi > MAX_UNROLLED {
        return;
    }
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
