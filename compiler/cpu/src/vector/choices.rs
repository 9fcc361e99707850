//! Choices by indices: the comparisons on which the values of a loop's statements depend.

use super::Unsupported;
use super::affine::{Affine, Coef};
use super::context::Lowering;
use super::expr::decide;
use super::tree::{Loop, Node, Term, TermKind};
use tvmtune_ir::dag::{BinaryOp, CompareOp};
use tvmtune_ir::poly::Interval;

/// A comparison of a form with 0.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    pub(super) op: CompareOp,
    pub(super) form: Affine,
}

/// Returns the comparison of order that equality with 0 is for numbers from `lo` to `hi`, if 0 is one of the
/// two: it turns once in a loop.
fn ordered(op: CompareOp, lo: i64, hi: i64) -> CompareOp {
    match op {
        CompareOp::Eq if lo == 0 => CompareOp::Le,
        CompareOp::Eq if hi == 0 => CompareOp::Ge,
        CompareOp::Ne if lo == 0 => CompareOp::Gt,
        CompareOp::Ne if hi == 0 => CompareOp::Lt,
        _ => op,
    }
}

impl Lowering<'_> {
    /// Returns the comparisons by which the statements of a loop choose between values, without those that are
    /// decided and those in values that are never chosen. Variables of loops that are not open stay.
    pub(super) fn open_choices(&mut self, loop_: &Loop) -> Result<Vec<Comparison>, Unsupported> {
        let mut values = Vec::new();
        Node::for_each_write(&loop_.body, &mut Vec::new(), &mut |it, _| values.push(&it.value));
        let mut found = Vec::new();
        values.into_iter().try_for_each(|it| self.choices_in(it, &mut found))?;
        Ok(found)
    }

    fn choices_in(&mut self, value: &Term, found: &mut Vec<Comparison>) -> Result<(), Unsupported> {
        if let TermKind::Select(parts) = &value.kind {
            let [condition, then, otherwise] = &**parts;
            match self.outcome(condition)? {
                Some(true) => return self.choices_in(then, found),
                Some(false) => return self.choices_in(otherwise, found),
                None => self.comparisons_in(condition, found)?,
            }
        }
        value.children().into_iter().try_for_each(|it| self.choices_in(it, found))
    }

    fn comparisons_in(
        &mut self,
        condition: &Term,
        found: &mut Vec<Comparison>,
    ) -> Result<(), Unsupported> {
        if let Some(it) = self.comparison(condition)?
            && self.decided(&it).is_none()
        {
            found.push(it);
        }
        condition.children().into_iter().try_for_each(|it| self.comparisons_in(it, found))
    }

    /// Returns the truth value that a condition is known to have.
    fn outcome(&mut self, condition: &Term) -> Result<Option<bool>, Unsupported> {
        if let TermKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) = &condition.kind {
            let absorbing = *op == BinaryOp::Or;
            let both = [self.outcome(a)?, self.outcome(b)?];
            return Ok(match both {
                _ if both.contains(&Some(absorbing)) => Some(absorbing),
                [Some(_), Some(_)] => Some(!absorbing),
                _ => None,
            });
        }
        Ok(self.comparison(condition)?.and_then(|it| self.decided(&it)))
    }

    fn decided(&self, it: &Comparison) -> Option<bool> {
        decide(it.op, self.interval(&it.form))
    }

    /// Returns the comparison of two indices; `None` for other conditions.
    fn comparison(&mut self, condition: &Term) -> Result<Option<Comparison>, Unsupported> {
        let TermKind::Compare(op, a, b) = &condition.kind else { return Ok(None) };
        let (TermKind::Index(a), TermKind::Index(b)) = (&a.kind, &b.kind) else { return Ok(None) };
        let Some(form) = self.difference(a, b)? else { return Ok(None) };
        let Interval { lo, hi } = self.interval(&form);
        Ok(Some(Comparison { op: ordered(*op, lo, hi), form }))
    }

    /// Evaluates a difference of two forms; `None` if it is not linear.
    pub(super) fn difference(
        &mut self,
        a: &Affine,
        b: &Affine,
    ) -> Result<Option<Affine>, Unsupported> {
        let mut linear = |it: &Affine| match self.eval(it) {
            Err(Unsupported::Index) => Ok(None),
            other => other.map(Some),
        };
        let (Some(mut difference), Some(b)) = (linear(a)?, linear(b)?) else { return Ok(None) };
        difference.add_scaled(&b, &Coef::Const(-1));
        Ok(Some(difference))
    }
}
