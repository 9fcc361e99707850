//! Terms of reductions that conditions leave out.
//!
//! ```text
//! acc += if k <= i && k <= lane { t } else { 0 }   =>   if k <= i { acc += if k <= lane { t } else { 0 } }
//! ```

use tvmtune_ir::dag::{BinaryOp, Expr};
use tvmtune_schedule::nest::Guard;

/// A term of a reduction without which the identity is added unless guards hold.
pub(super) struct GuardedTerm {
    /// Lane-invariant guards, which the term is without.
    pub(super) guards: Vec<Guard>,
    /// Guards of which each lane has its own, which the term still has.
    pub(super) weak: Vec<Guard>,
    pub(super) term: Expr,
}

impl GuardedTerm {
    /// `None` if the term has no guards.
    pub(super) fn of(
        value: &Expr,
        identity: &Expr,
        varies: &dyn Fn(&Guard) -> bool,
    ) -> Option<Self> {
        let Expr::Select { condition, then, otherwise } = value else { return None };
        if **otherwise != *identity {
            return None;
        }
        let inner = Self::of(then, identity, varies);
        let mut found = inner.unwrap_or_else(|| Self {
            guards: Vec::new(),
            weak: Vec::new(),
            term: (**then).clone(),
        });
        let mut open = vec![&**condition];
        while let Some(part) = open.pop() {
            if let Expr::Binary(BinaryOp::And, a, b) = part {
                open.extend([&**a, &**b]);
                continue;
            }
            let guards = Guard::all_of(part).unwrap_or_default();
            if !guards.is_empty() && !guards.iter().any(varies) {
                found.guards.extend(guards);
                continue;
            }
            found.term = match found.term {
                // One choice by two conditions, as those on indices can be evaluated anywhere.
                Expr::Select { condition, then, otherwise }
                    if !guards.is_empty()
                        && Guard::all_of(&condition).is_some()
                        && *otherwise == *identity =>
                {
                    part.clone().binary(BinaryOp::And, *condition).select(*then, *otherwise)
                }
                term => part.clone().select(term, identity.clone()),
            };
            found.weak.extend(guards);
        }
        (!found.guards.is_empty() || !found.weak.is_empty()).then_some(found)
    }
}
