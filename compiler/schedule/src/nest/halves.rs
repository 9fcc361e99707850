//! Lowers reductions by halves: partial results are combined until one is left, in an order that no vector
//! length changes.
//!
//! ```text
//! for l in 0..32: h[l] = part[l] + part[l + 32]
//! for l in 0..16: h[l] = h[l] + h[l + 16]
//! for l in 0..8:  h[l] = h[l] + h[l + 8]
//! c = ((h[0] + h[4]) + (h[2] + h[6])) + ((h[1] + h[5]) + (h[3] + h[7]))
//! ```
//!
//! Vector code of CPUs reduces lanes in this order: for it, a vectorized loop stays.

use super::lower::{Instance, Lowering, guarded};
use super::{Buffer, Guard, Scope, Stmt};
use crate::{Attach, AxisId, AxisRole, LoopKind};
use tvmtune_ir::dag::{Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

/// Partial results that one expression combines: more are combined in vectors first.
const MAX_IN_EXPRESSION: i64 = 8;

/// The partial results of a stage that combines them.
struct PartialResults<'i, 'a> {
    instance: &'i Instance<'a>,
    reducer: Reducer,
    /// The values of the stage's axes, of which that at `place` counts the partial results.
    values: Vec<Poly>,
    place: usize,
    guards: Vec<Guard>,
    /// The buffer of halves, once there are some.
    halves: Option<TensorId>,
}

impl PartialResults<'_, '_> {
    fn read(&mut self, lowering: &Lowering<'_>, at: Poly) -> Expr {
        if let Some(halves) = self.halves {
            return Expr::read(halves, [at]);
        }
        self.values[self.place] = at;
        let body = &self.instance.stage.compute.body;
        lowering.addressing.lower_expr(body, &self.values, &lowering.facts)
    }

    fn combined(&self, lower: Expr, upper: Expr) -> Expr {
        lower.binary(self.reducer.op(), upper)
    }
}

impl<'a> Lowering<'a> {
    /// Lowers the reduction of a stage by halves; all loops but that of the reduction are open.
    pub(super) fn by_halves(&mut self, instance: &mut Instance<'a>) -> Vec<Stmt> {
        let compute = &instance.stage.compute;
        let Some(reducer) = compute.reducer else { return Vec::new() };
        // Lanes of another layout are no vector.
        let has_layout = |it| self.schedule.tensor(it).layout.is_some();
        let mut is_packed = false;
        compute.body.for_each_read(&mut |it, _| is_packed |= has_layout(it));
        if self.reduces_lanes_by_halves && !is_packed {
            return self.by_lanes(instance);
        }
        let axis = instance.stage.order.last().copied().unwrap_or(AxisId(0));
        let mut count = instance.extents.get(axis).as_constant().unwrap_or(1);
        let values = self.values(instance);
        let guards = self.guards(instance, &values, AxisRole::Spatial);
        let place = axis.0 as usize;
        let mut partial = PartialResults { instance, reducer, values, place, guards, halves: None };

        let mut stmts = Vec::new();
        while count > MAX_IN_EXPRESSION {
            let lower = count.unsigned_abs().next_power_of_two() as i64 / 2;
            let buffer = partial.halves.unwrap_or_else(|| self.add_halves(instance, lower));
            let n_pairs = count - lower;
            stmts.push(self.half(&mut partial, buffer, (0, n_pairs), Some(lower)));
            // Partial results without a partner are copied; only the first level can have some.
            if n_pairs < lower {
                stmts.push(self.half(&mut partial, buffer, (n_pairs, lower - n_pairs), None));
            }
            (partial.halves, count) = (Some(buffer), lower);
        }
        let at = |it| Poly::constant(it);
        let mut terms: Vec<Expr> = (0..count).map(|it| partial.read(self, at(it))).collect();
        while terms.len() > 1 {
            let upper = terms.split_off(terms.len().next_power_of_two() / 2);
            for (lower, upper) in terms.iter_mut().zip(upper) {
                *lower = partial.combined(lower.clone(), upper);
            }
        }
        let index = self.written_index(instance, &partial.values);
        let stores = terms.pop().map(|value| Stmt::Store { tensor: compute.tensor, index, value });
        stmts.extend(stores.map(|it| guarded(partial.guards, it)));
        stmts
    }

    /// Lowers a loop that writes `n` elements of `buffer` from `first` on: each is a partial result, combined
    /// with its partner at distance `partner`, if it has one.
    fn half(
        &mut self,
        partial: &mut PartialResults<'_, '_>,
        buffer: TensorId,
        (first, n): (i64, i64),
        partner: Option<i64>,
    ) -> Stmt {
        let var = self.loop_var(n);
        let at = |more: i64| Poly::var(var) + Poly::constant(first + more);
        let own = partial.read(self, at(0));
        let value = match partner {
            Some(distance) => {
                let other = partial.read(self, at(distance));
                partial.combined(own, other)
            }
            None => own,
        };
        let store = Stmt::Store { tensor: buffer, index: vec![at(0)], value };
        let body = vec![guarded(partial.guards.clone(), store)];
        let (name, kind) = ("half".to_owned(), LoopKind::Vectorized);
        Stmt::For { var, name, extent: Poly::constant(n), kind, body }
    }

    /// Lowers the reduction of a stage by halves to a vectorized loop.
    fn by_lanes(&mut self, instance: &mut Instance<'a>) -> Vec<Stmt> {
        let depth = instance.stage.order.len() - 1;
        let mut stmts = self.initialize(instance, depth);
        let axis = instance.stage.order[depth];
        let extent = instance.extents.get(axis).clone();
        let var = self.loop_var(extent.as_constant().unwrap_or(1));
        instance.loops[axis.0 as usize] = Poly::var(var);
        let (name, kind) = ("lane".to_owned(), LoopKind::Vectorized);
        let body = vec![self.statement(instance)];
        stmts.push(Stmt::For { var, name, extent, kind, body });
        stmts
    }

    /// Adds a buffer for the first half of partial results.
    fn add_halves(&mut self, instance: &Instance<'a>, n: i64) -> TensorId {
        let stage = instance.stage;
        let tensor = &self.schedule.tensor(stage.tensor()).tensor;
        // Without any loop around them, these statements are phases of their own.
        let is_alone = stage.attach == Attach::Root && stage.order.len() == 1;
        let id = TensorId((self.schedule.tensors.len() + self.added.len()) as u32);
        self.added.push(Buffer {
            name: format!("{}_halves", tensor.name),
            dtype: tensor.dtype,
            shape: vec![Poly::constant(n)],
            scope: if is_alone { Scope::Workspace } else { Scope::Local },
            layout: None,
        });
        id
    }

    fn loop_var(&mut self, extent: i64) -> VarId {
        let var = VarId(self.n_vars);
        self.n_vars += 1;
        self.facts.bound_var(var, Poly::constant(extent));
        var
    }
}
