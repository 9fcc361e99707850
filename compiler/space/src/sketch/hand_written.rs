//! The sketch of a program with a kernel template: its decisions are the knobs.
//!
//! A GPU runs such a program by the kernels that its author brought, and by nothing else: what the
//! definition would make of itself is no rival worth measuring, and the author said what to run. CPUs
//! have no use for the template.
//!
//! Each knob is a decision of its own, so that search moves along knobs and settings transfer by them.
//! Constraints relate several: search asks [`Sketch::allows`] of a point, and [`Sketch::may_allow`] of a
//! point that is decided in part only.

use std::sync::Arc;

use super::types::{Decision, DecisionId, DecisionKind, Sketch, Step, TemplateKind};
use tvmtune_ir::dag::kernel_template::{Constraint, Knob, LaunchExpr, LaunchOp};
use tvmtune_ir::dag::{CompareOp, Dag, KernelTemplate};
use tvmtune_ir::poly::Facts;
use tvmtune_ir::target::Target;

/// The knobs of hand-written kernels, and the settings that the kernels have.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    /// Their decisions, in order of the knobs.
    pub(super) decisions: Vec<DecisionId>,
    template: KernelTemplate,
    facts: Facts,
}

/// Returns the sketch of a program's template; `None` without one, and on CPUs.
pub(super) fn sketch(dag: &Dag, target: &Target) -> Option<Sketch> {
    let template = match target {
        Target::Gpu(_) => dag.kernel_template.as_ref()?,
        Target::Cpu(_) => return None,
    };
    let (mut decisions, mut default) = (Vec::new(), Vec::new());
    for (n, Knob { name, values }) in template.knobs.iter().enumerate() {
        let mut options = values.clone();
        options.sort_unstable();
        let first = values.first().and_then(|it| options.iter().position(|option| option == it));
        default.push(first.unwrap_or_default() as u16);
        let kind = DecisionKind::Outer;
        decisions.push(Decision { name: name.clone(), kind, options, group: n as u32 });
    }
    let knobs = Knobs {
        decisions: (0..decisions.len() as u16).map(DecisionId).collect(),
        template: template.clone(),
        facts: dag.facts(),
    };
    let name = TemplateKind::HandWritten.label();
    let sketch = Sketch::new(name, decisions, default, vec![Step::SetKnobs(Arc::new(knobs))]);
    Some(Sketch { templates: vec![TemplateKind::HandWritten], ..sketch })
}

impl Sketch {
    /// Returns whether the constraints of hand-written kernels hold at a point, and it has launches; true
    /// of all points of other sketches.
    pub fn allows(&self, choices: &[u16]) -> bool {
        self.knobs().is_none_or(|knobs| {
            let value = |it: &DecisionId| {
                let n = usize::from(it.0);
                self.decisions[n].options[usize::from(choices[n])]
            };
            let values: Vec<u64> = knobs.decisions.iter().map(value).collect();
            let Knobs { template, facts, .. } = knobs;
            template.allows(&values) && template.launches(&values, facts).is_some()
        })
    }

    /// Returns false if no point has these choices and is allowed, as far as the ranges of both sides of
    /// each constraint tell: a decision without a choice may have any of its options.
    pub fn may_allow(&self, choices: &[Option<u16>]) -> bool {
        self.knobs().is_none_or(|knobs| {
            let range = |it: &DecisionId| {
                let n = usize::from(it.0);
                let options = &self.decisions[n].options;
                let (least, most) = match choices[n] {
                    Some(choice) => (options[usize::from(choice)], options[usize::from(choice)]),
                    None => (options[0], options[options.len() - 1]),
                };
                (i128::from(least), i128::from(most))
            };
            let ranges: Vec<Range> = knobs.decisions.iter().map(range).collect();
            knobs.template.constraints.iter().all(|it| may_hold(it, &ranges))
        })
    }

    fn knobs(&self) -> Option<&Knobs> {
        self.steps.iter().find_map(|it| match it {
            Step::SetKnobs(knobs) => Some(&**knobs),
            _ => None,
        })
    }
}

/// The least and the greatest value.
type Range = (i128, i128);

/// Returns false if a constraint holds for no values in these ranges of the knobs.
fn may_hold(constraint: &Constraint, knobs: &[Range]) -> bool {
    let sides = range(&constraint.left, knobs).zip(range(&constraint.right, knobs));
    let Some((left, right)) = sides else { return true };
    match constraint.op {
        CompareOp::Lt => left.0 < right.1,
        CompareOp::Le => left.0 <= right.1,
        CompareOp::Eq => left.0 <= right.1 && right.0 <= left.1,
        CompareOp::Ne => left.0 != left.1 || left != right,
        CompareOp::Ge => left.1 >= right.0,
        CompareOp::Gt => left.1 > right.0,
    }
}

/// Returns the range of an expression by interval arithmetic; `None` where it tells nothing.
fn range(expression: &LaunchExpr, knobs: &[Range]) -> Option<Range> {
    let (op, left, right) = match expression {
        LaunchExpr::Int(value) => return Some((i128::from(*value), i128::from(*value))),
        LaunchExpr::Knob(knob) => return knobs.get(*knob as usize).copied(),
        LaunchExpr::Dim(_) => return None,
        LaunchExpr::Binary(op, left, right) => (op, range(left, knobs)?, range(right, knobs)?),
    };
    // A divisor that is not positive has no quotient: the point is refused once it is complete.
    let divisor = (right.0.max(1), right.1.max(1));
    Some(match op {
        LaunchOp::Add => (left.0.checked_add(right.0)?, left.1.checked_add(right.1)?),
        LaunchOp::Sub => (left.0.checked_sub(right.1)?, left.1.checked_sub(right.0)?),
        LaunchOp::Mul => hull(left, right, i128::checked_mul)?,
        LaunchOp::Div => hull(left, divisor, i128::checked_div_euclid)?,
        LaunchOp::Rem if left.0 == left.1 && divisor.0 == divisor.1 => {
            hull(left, divisor, i128::checked_rem_euclid)?
        }
        LaunchOp::Rem => (0, divisor.1 - 1),
        LaunchOp::Min => (left.0.min(right.0), left.1.min(right.1)),
        LaunchOp::Max => (left.0.max(right.0), left.1.max(right.1)),
    })
}

/// Returns the range of an operation that is monotonic in each operand: that of its values at the ends.
fn hull(left: Range, right: Range, of: impl Fn(i128, i128) -> Option<i128>) -> Option<Range> {
    let (a, b) = (of(left.0, right.0)?, of(left.0, right.1)?);
    let (c, d) = (of(left.1, right.0)?, of(left.1, right.1)?);
    Some((a.min(b).min(c).min(d), a.max(b).max(c).max(d)))
}
