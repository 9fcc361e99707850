//! `scan(0..=t, first, |h, s| ..)`: a first-order recurrence along an axis.
//!
//! The state starts as `first`; at each index of the range, the closure makes the next state of the state
//! before and the index. The value is the last state. States become a tensor of their own, with an axis for
//! the range: ranges that end at an axis share its steps.

use syn::punctuated::Punctuated;
use syn::{Expr as Syntax, Token};

use super::elaborate::{Binding, Elaborator};
use super::errors::{Location, count};
use super::reduce::{Axes, Range};
use super::signature::plain_ident;
use super::value::{Kind, Value};
use crate::dag::recurrence::state_before;
use crate::dag::{CompareOp, DType, Expr, TensorId};
use crate::poly::{Poly, VarId};

/// A step of a recurrence.
pub(super) struct Step<N = Expr> {
    pub(super) axis: VarId,
    /// The placeholder of the state before.
    pub(super) state: TensorId,
    /// The next state.
    pub(super) next: N,
}

impl Elaborator {
    /// Elaborates a scan, and reads the last state of its range.
    pub(super) fn scan(
        &mut self,
        args: &Punctuated<Syntax, Token![,]>,
        location: Location,
    ) -> Option<Value> {
        let (Some(range), Some(first), Some(Syntax::Closure(closure)), 3) =
            (args.get(0), args.get(1), args.get(2), args.len())
        else {
            let message = "`scan` takes a range, the state before it, and a closure of state and \
                           index: `scan(0..=t, 0.0, |h, s| ..)`";
            return self.errors.at_location(location, message);
        };
        if closure.inputs.len() != 2 {
            let given = count(closure.inputs.len(), "name", "names");
            let message = format!(
                "this closure takes {given}, not the state and the index: write `|h, s| ..`"
            );
            return self.errors.at(&closure.inputs, message);
        }
        // States are computed for every point, so no branch condition holds: not for the first one either.
        let known = self.known.clone();
        self.known = known.without_conditions();
        let (known_range, before) = (self.range(range), self.expr(first));
        self.known.restore_conditions(known);
        if known_range.as_ref().is_some_and(Range::starts_at_axis) {
            let message = "a `scan` starts at the same index everywhere, as in `0..=t`";
            return self.errors.at(range, message);
        }
        let typed = before.as_ref().and_then(|it| it.widened(&mut self.errors));
        let step = self.step(known_range.as_ref(), before.as_ref().zip(typed.as_ref()), closure);
        let (range, before, (first, dtype), step) = (known_range?, before?, typed?, step?);
        let Step { axis, state, next: ref of_closure } = step;
        let next = of_closure.operand(dtype, &mut self.errors)?;
        let parts = [&before, of_closure];
        let of_step = Step { axis, state, next };
        let last = self.last_state(&range, of_step, first, dtype, location)?;
        Value::of_parts(Kind::Typed(last, dtype), location, &parts, &mut self.errors)
    }

    /// Elaborates the closure with its axis and the state in scope.
    fn step(
        &mut self,
        range: Option<&Range>,
        first: Option<(&Value, &(Expr, DType))>,
        closure: &syn::ExprClosure,
    ) -> Option<Step<Value>> {
        let known = self.known.clone();
        self.known = known.without_conditions();
        let depth = self.around.len();
        let found = self.scoped(|this| {
            let state = this.bind_state(&closure.inputs[0], first);
            let axis = this.closure_axis(&closure.inputs[1], range.map(|it| (&it.lo, &it.extent)));
            this.check_closure(closure);
            let next = this.expr(&closure.body);
            Some(Step { axis: axis?, state: state?, next: next? })
        });
        self.around.truncate(depth);
        self.known.restore_conditions(known);
        found
    }

    /// Binds the name of the state; returns its placeholder.
    fn bind_state(
        &mut self,
        pat: &syn::Pat,
        first: Option<(&Value, &(Expr, DType))>,
    ) -> Option<TensorId> {
        let ident = match (pat, plain_ident(pat)) {
            (syn::Pat::Wild(_), _) => None,
            (_, Some(ident)) => Some(ident),
            _ => return self.errors.at(pat, "a state has a plain name, as in `|h, s|`"),
        };
        let Some((before, (_, dtype))) = first else {
            ident.into_iter().for_each(|it| self.bind(it.to_string(), Binding::Poisoned));
            return None;
        };
        let state = self.symbols.new_state(*dtype);
        if let Some(ident) = ident {
            let read = Kind::Typed(Expr::read(state, []), *dtype);
            let value = Value::of_parts(read, Location::of(ident), &[before], &mut self.errors)?;
            self.bind(ident.to_string(), Binding::Value(value));
        }
        Some(state)
    }

    /// Defines the tensor of all states, and reads the last one of the range.
    pub(super) fn last_state(
        &mut self,
        range: &Range,
        step: Step,
        first: Expr,
        dtype: DType,
        location: Location,
    ) -> Option<Expr> {
        let used = self.enclosing_axes_of([&first, &step.next]);
        let end = range.end();
        let place = |it: &VarId| self.around.iter().position(|around| around == it);
        let of_end = self.around.iter().filter(|it| end.mentions(**it)).filter_map(place).max();
        let mut axes = used.clone();
        let at = match of_end {
            Some(end) => used.iter().filter(|it| place(it) <= Some(end)).count(),
            // Along the last axis, elements are neighbors: vectors of them make a step at once.
            None => used.len().saturating_sub(1),
        };
        axes.insert(at, step.axis);

        let states = TensorId(self.symbols.tensors.len() as u32);
        let index = |back: Poly| {
            let of = |it: &VarId| {
                if *it == step.axis { back.clone() } else { Poly::var(*it) }
            };
            Expr::read(states, axes.iter().map(of).collect::<Vec<_>>())
        };
        let previous = index(Poly::var(step.axis) - Poly::constant(1));
        let state = state_before(step.axis, previous, first.clone());
        let body = replace_read(&step.next, step.state, &state);
        if self.symbols.reads_state(&body) {
            return self.errors.at_location(location, STATE_ELSEWHERE);
        }
        let name = format!("{}_states", self.current);
        self.define(name, Axes { spatial: &axes, reduce: &[] }, None, &body, dtype);
        let n_steps = end - range.lo.clone();
        let last = index(n_steps.clone() - Poly::constant(1));
        if range.count.is_positive(&self.known.facts) {
            return Some(last);
        }
        let is_some = Expr::Index(n_steps).compare(CompareOp::Ge, Expr::Index(Poly::constant(1)));
        Some(is_some.select(last, first))
    }
}

/// The message for a state that something else than its own scan reads.
pub(super) const STATE_ELSEWHERE: &str = "the state of a `scan` is one number of one step: reductions and other scans do not see it; \
     reduce the states after the scan";

/// Replaces the reads of a placeholder.
fn replace_read(expr: &Expr, placeholder: TensorId, value: &Expr) -> Expr {
    match expr {
        Expr::Read { tensor, .. } if *tensor == placeholder => value.clone(),
        other => other.map_children(&mut |it| replace_read(it, placeholder, value)),
    }
}
