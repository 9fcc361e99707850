//! Verifier of vector code: registers are defined before they are used.

use std::collections::BTreeSet;

use super::{Reg, Stmt, VectorCode};

/// A register that is read, or assigned under a mask, before it is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UseBeforeDef(pub Reg);

/// Finds the registers that some path reads before assigning them.
pub fn verify(kernel: &VectorCode) -> Vec<UseBeforeDef> {
    let mut undefined_reads = BTreeSet::new();
    for phase in &kernel.phases {
        check_block(&phase.body, &mut BTreeSet::new(), &mut undefined_reads);
    }
    undefined_reads.into_iter().map(UseBeforeDef).collect()
}

fn check_block(stmts: &[Stmt], defined: &mut BTreeSet<Reg>, undefined_reads: &mut BTreeSet<Reg>) {
    for stmt in stmts {
        for_each_read(stmt, &mut |reg| {
            if !defined.contains(&reg) {
                undefined_reads.insert(reg);
            }
        });
        match stmt {
            Stmt::Set { reg, .. } => {
                defined.insert(*reg);
            }
            // These may run zero times.
            Stmt::Loop { body, .. }
            | Stmt::IfAny { then: body, .. }
            | Stmt::Choose { body, .. }
            | Stmt::Between { body, .. } => {
                check_block(body, &mut defined.clone(), undefined_reads);
            }
            Stmt::If { then, otherwise, .. } => {
                let (mut a, mut b) = (defined.clone(), defined.clone());
                check_block(then, &mut a, undefined_reads);
                check_block(otherwise, &mut b, undefined_reads);
                *defined = a.intersection(&b).copied().collect();
            }
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Prefetch { .. } => {}
        }
    }
}

/// Calls `visit` for each register that a statement reads; an assignment under a mask reads its
/// target.
fn for_each_read(stmt: &Stmt, visit: &mut dyn FnMut(Reg)) {
    if let Stmt::Set { reg, mask: Some(_), .. } = stmt {
        visit(*reg);
    }
    stmt.operands().for_each(|it| it.for_each_read(visit));
}
