//! Verifier of vector code (definition before use), and its register pressure.

use std::collections::BTreeSet;

use super::{Mask, Reg, Stmt, Value, VectorCode};

/// A register that is read, or assigned under a mask, before it is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UseBeforeDef(pub Reg);

/// Finds the registers that some path reads before assigning them.
pub fn verify(kernel: &VectorCode) -> Vec<UseBeforeDef> {
    let mut unset = BTreeSet::new();
    for phase in &kernel.phases {
        check_block(&phase.body, &mut BTreeSet::new(), &mut unset);
    }
    unset.into_iter().map(UseBeforeDef).collect()
}

/// Returns the maximal number of registers that are live at once, over all phases.
pub fn pressure(kernel: &VectorCode) -> usize {
    let mut most = 0;
    for phase in &kernel.phases {
        live_block(&phase.body, &mut BTreeSet::new(), &mut most);
    }
    most
}

fn check_block(stmts: &[Stmt], set: &mut BTreeSet<Reg>, unset: &mut BTreeSet<Reg>) {
    for stmt in stmts {
        for_each_read(stmt, &mut |reg| {
            if !set.contains(&reg) {
                unset.insert(reg);
            }
        });
        match stmt {
            Stmt::Set { reg, .. } => {
                set.insert(*reg);
            }
            // A loop may run zero times.
            Stmt::Loop { body, .. } => check_block(body, &mut set.clone(), unset),
            Stmt::If { then, otherwise, .. } => {
                let (mut a, mut b) = (set.clone(), set.clone());
                check_block(then, &mut a, unset);
                check_block(otherwise, &mut b, unset);
                *set = a.intersection(&b).copied().collect();
            }
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Prefetch { .. } => {}
        }
    }
}

/// Backward liveness analysis; `live` is live-out of the block, and becomes its live-in.
fn live_block(stmts: &[Stmt], live: &mut BTreeSet<Reg>, most: &mut usize) {
    for stmt in stmts.iter().rev() {
        match stmt {
            Stmt::Loop { body, .. } => {
                // Loop-carried registers are live throughout: a second pass is the fixed point.
                let mut around = live.clone();
                live_block(body, &mut around, &mut 0);
                live.extend(around);
                let mut inside = live.clone();
                live_block(body, &mut inside, most);
                live.extend(inside);
            }
            Stmt::If { then, otherwise, .. } => {
                let mut other = live.clone();
                live_block(then, live, most);
                live_block(otherwise, &mut other, most);
                live.extend(other);
            }
            Stmt::Set { reg, mask: None, .. } => {
                live.remove(reg);
            }
            _ => {}
        }
        for_each_read(stmt, &mut |reg| {
            live.insert(reg);
        });
        *most = live.len().max(*most);
    }
}

/// Calls `visit` for each register that a statement reads; an assignment under a mask reads its
/// target.
fn for_each_read(stmt: &Stmt, visit: &mut dyn FnMut(Reg)) {
    match stmt {
        Stmt::Set { reg, value, mask } => {
            value_reads(value, visit);
            if mask.is_some() {
                visit(*reg);
            }
            mask_reads(mask, visit);
        }
        Stmt::Store { value, mask, .. } => {
            value_reads(value, visit);
            mask_reads(mask, visit);
        }
        Stmt::Loop { .. } | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Prefetch { .. } => {}
    }
}

fn mask_reads(mask: &Option<Mask>, visit: &mut dyn FnMut(Reg)) {
    if let Some(Mask::Where(value)) = mask {
        value_reads(value, visit);
    }
}

fn value_reads(value: &Value, visit: &mut dyn FnMut(Reg)) {
    match value {
        Value::Splat(_) | Value::Scalar(_) | Value::Index { .. } => {}
        Value::Reg(reg) => visit(*reg),
        Value::Load { mask, .. } => mask_reads(mask, visit),
        Value::Gather { index, mask, .. } => {
            value_reads(index, visit);
            mask_reads(mask, visit);
        }
        Value::Unary(_, a) | Value::Reduce(_, a) => value_reads(a, visit),
        Value::Binary(_, a, b) | Value::Compare(_, a, b) => {
            value_reads(a, visit);
            value_reads(b, visit);
        }
        Value::Fma(a, b, c) | Value::Select { condition: a, then: b, otherwise: c } => {
            [a, b, c].into_iter().for_each(|it| value_reads(it, visit));
        }
    }
}
