//! Indices that are linear in each phase of a vectorized loop: `x[i / 2]`.
//!
//! ```text
//! vectorized i in 0..64 { y[i] = x[i / 2] }
//!     =>   vectorized q in 0..32 { y[2*q] = x[q]; y[2*q + 1] = x[q] }
//! ```
//!
//! The quotient takes one step in two iterations; in every other iteration, it takes one in each. Stores
//! of phases side by side are interleaved, see [`super::transpose`].

use std::collections::BTreeSet;

use super::Unsupported;
use super::affine::{Affine, Coef, exact_div, poly_divisor};
use super::build::{TreeBuilder, is_serial};
use super::tree::{
    Derived, DerivedOp, GuardId, Loop, LoopMode, Node, for_each_form, for_each_index,
};
use tvmtune_ir::poly::{Poly, VarId, gcd};
use tvmtune_schedule::nest::Stmt;

/// The most phases of a loop: each is code of its own, and strides of that many words make a cache line
/// for two lanes; chosen by judgement.
pub const MAX_PHASES: i64 = 8;

impl TreeBuilder<'_> {
    /// Builds a loop of `n` iterations with the phases of its variable as statements side by side; `None` if
    /// no number of phases makes all indices linear, or they would change an order that the program fixes.
    /// The variable `var` is that of a loop of the nest, or of a part of it; `serial` is the body without
    /// phases.
    pub(super) fn by_phases(
        &mut self,
        (of_nest, var): (VarId, VarId),
        n: i64,
        body: &[Stmt],
        (guards, serial): (&[GuardId], &Node),
    ) -> Option<Node> {
        if self.is_ordered {
            return None;
        }
        let whole = self.substituted[of_nest.0 as usize].clone();
        let n_guards = self.enclosing_guards.len();
        for n_phases in self.periods(serial, var) {
            let n_lanes = (n + n_phases - 1) / n_phases;
            let lane = self.tree.new_var(Poly::constant(n_lanes));
            self.lane = Some((lane, n_lanes));
            self.divides = true;
            let mut nodes = Vec::new();
            for phase in 0..n_phases {
                let mut index = Affine::var(lane).scaled(n_phases);
                index.constant += phase;
                let mut of_loop = whole.clone().unwrap_or_else(|| Affine::var(of_nest));
                replace(&mut of_loop, var, &index);
                self.substituted[of_nest.0 as usize] = Some(of_loop);
                let body = self.nodes(body, false);
                let ids = self.guards_of_phase((var, &index), n, guards);
                nodes.push(body.map(|it| Node::guarded(ids, it)));
            }
            self.divides = false;
            self.substituted[of_nest.0 as usize] = whole.clone();
            // One that is left to portable code runs serially instead, where it was built.
            self.enclosing_guards.truncate(n_guards);
            let nodes: Result<Vec<Vec<Node>>, Unsupported> = nodes.into_iter().collect();
            let Ok(nodes) = nodes else { continue };
            let node = self.loop_over_lanes(lane, n_lanes, nodes.concat());
            if !is_serial(&node) {
                return Some(node);
            }
        }
        None
    }

    /// Returns whether a loop of `n` iterations has phases that fill less than half of a vector.
    pub(super) fn phases_are_short(&self, serial: &Node, lane: VarId, n: i64) -> bool {
        let lanes = self.tree.simd.lanes();
        self.periods(serial, lane).first().is_none_or(|it| n / it < lanes / 2)
    }

    /// Returns the numbers of iterations after which some quotient or remainder takes a whole step.
    fn periods(&self, node: &Node, lane: VarId) -> BTreeSet<i64> {
        let mut found = BTreeSet::new();
        for_each_form(std::slice::from_ref(node), &self.tree, &mut |form| {
            for (var, _) in &form.terms {
                if let Some(Derived { op: DerivedOp::Div | DerivedOp::Mod, a, b }) =
                    &self.tree.var(*var).derived
                    && let (Some(by), Some(Coef::Const(step))) =
                        (b.as_constant(), a.coefficient(lane))
                {
                    found.insert(by / gcd(by, *step));
                }
            }
        });
        found.retain(|it| (2..=MAX_PHASES).contains(it));
        found
    }

    /// Returns the guards of a loop in a phase, and that of the last iterations where phases are not equally
    /// long.
    fn guards_of_phase(
        &mut self,
        (var, index): (VarId, &Affine),
        n: i64,
        guards: &[GuardId],
    ) -> Vec<GuardId> {
        let mut forms: Vec<Affine> =
            guards.iter().map(|id| self.tree.guards[*id].clone()).collect();
        forms.iter_mut().for_each(|it| replace(it, var, index));
        if self.tree.interval(index).hi >= n {
            let mut form = index.clone();
            form.constant -= n;
            forms.push(form);
        }
        let first = self.tree.guards.len();
        self.tree.guards.extend(forms);
        (first..self.tree.guards.len()).collect()
    }

    pub(super) fn loop_over_lanes(&self, var: VarId, n: i64, body: Vec<Node>) -> Node {
        let mut linear = true;
        let mut check = |form: &Affine| linear &= self.is_lane_linear(form, var, n);
        for_each_form(&body, &self.tree, &mut check);
        let kind = if linear { LoopMode::Vectorized(n) } else { LoopMode::Serial };
        Node::Loop(Loop { var, kind, body })
    }

    /// Vectorizes a serial loop whose indices of memory are affine in the lane: indices as values are computed in
    /// each lane, see [`super::nonlinear`]. `None` where there are others.
    pub(super) fn of_lane_values(&self, serial: &Node, n: i64) -> Option<Node> {
        let Node::Loop(Loop { var, body, .. }) = serial else { return None };
        let mut are_values = true;
        let mut check = |of_memory: bool, form: &Affine| {
            are_values &=
                self.is_lane_linear(form, *var, n) || !of_memory && self.tree.is_lane_value(form);
        };
        for_each_index(body, &self.tree, &mut check);
        let kind = LoopMode::Vectorized(n);
        are_values.then(|| Node::Loop(Loop { var: *var, kind, body: body.clone() }))
    }

    /// Returns whether a form is affine in the lane: its quotients are uniform over lanes, and their
    /// remainders grow by a constant.
    fn is_lane_linear(&self, form: &Affine, lane: VarId, n: i64) -> bool {
        form.terms.iter().all(|(var, _)| {
            let Some(derived) = &self.tree.var(*var).derived else { return true };
            if !self.tree.mentions(&derived.a, lane) && !self.tree.mentions(&derived.b, lane) {
                return true;
            }
            let (Some(by), Some(Coef::Const(step))) =
                (derived.b.as_constant(), derived.a.coefficient(lane))
            else {
                return false;
            };
            let others = derived.a.terms.iter().filter(|(it, _)| *it != lane);
            let grain = others.fold(by, |grain, (_, it)| gcd(grain, it.divisor()));
            let grain = gcd(grain, poly_divisor(&derived.a.dims));
            let first = derived.a.constant.rem_euclid(grain);
            let quotient = matches!(derived.op, DerivedOp::Div | DerivedOp::Mod);
            let others_vary = derived.a.terms.iter().any(|(it, _)| {
                *it != lane
                    && self.tree.var(*it).derived.is_some()
                    && self.tree.mentions(&Affine::var(*it), lane)
            });
            quotient && !others_vary && *step > 0 && first + step * (n - 1) < grain
        })
    }

    /// Computes a quotient or remainder whose dividend is a multiple of the divisor and a rest that is less.
    pub(super) fn divided(&self, derived: &Derived) -> Option<Affine> {
        let by = derived.b.as_constant().filter(|it| *it > 0)?;
        let Derived { op, a, .. } = derived;
        let mut rest = Affine::constant(a.constant.rem_euclid(by));
        let mut quotient = Affine::constant(a.constant.div_euclid(by));
        match poly_divisor(&a.dims) % by {
            0 => quotient.add_dims(exact_div(&a.dims, by)),
            _ => rest.add_dims(a.dims.clone()),
        }
        for (var, step) in &a.terms {
            match step.divisor() % by {
                0 => quotient.add_term(*var, step.exact_div(by)),
                _ => rest.add_term(*var, step.clone()),
            }
        }
        let range = self.tree.interval(&rest);
        match op {
            _ if range.lo < 0 || range.hi >= by => None,
            DerivedOp::Div => Some(quotient),
            DerivedOp::Mod => Some(rest),
            DerivedOp::Min | DerivedOp::Max => None,
        }
    }
}

/// Replaces a variable in a form.
fn replace(form: &mut Affine, var: VarId, by: &Affine) {
    if let Some(step) = form.take(var) {
        form.add_scaled(by, &step);
    }
}
