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
//! Vector code of CPUs reduces lanes in this order: for it, a vectorized loop stays, which adds the result to
//! the identity. A sum of products, which may be -0.0, is added to it here as well. Spatial loops inside that
//! of the partial results are put around each statement: their lanes are results, and none is crossed.

use super::lower::{Instance, Lowering};
use super::{Buffer, Scope, Stmt};
use crate::{Attach, AxisId, LoopKind, ReductionOrder};
use tvmtune_ir::dag::{Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

/// The most partial results that vector code of every CPU reduces as the lanes of one loop: eight vectors of
/// AVX2.
const MAX_LANES: i64 = 64;

/// Partial results that one expression combines: more are combined in vectors first.
const MAX_IN_EXPRESSION: i64 = 8;

/// The partial results of a stage that combines them.
#[derive(Clone, Copy)]
struct PartialResults {
    reducer: Reducer,
    /// The axis of the stage that counts them, and its loop.
    axis: AxisId,
    depth: usize,
    /// The buffer of halves, once there are some.
    halves: Option<TensorId>,
}

impl PartialResults {
    /// The partial result at a position; the loops inside are open.
    fn read(self, lowering: &Lowering<'_>, instance: &Instance<'_>, at: Poly) -> Expr {
        if let Some(halves) = self.halves {
            return Expr::read(halves, self.index(instance, at));
        }
        let mut values = lowering.values(instance);
        values[self.axis.0 as usize] = at;
        let body = &instance.stage.compute.body;
        lowering.addressing.lower_expr(body, &values, &lowering.facts)
    }

    /// The index of the buffer of halves: the position, then the loops inside.
    fn index(self, instance: &Instance<'_>, at: Poly) -> Vec<Poly> {
        let inside = instance.stage.order[self.depth + 1..].iter();
        let inside = inside.map(|it| instance.loops[it.0 as usize].clone());
        std::iter::once(at).chain(inside).collect()
    }

    fn combined(self, lower: Expr, upper: Expr) -> Expr {
        lower.binary(self.reducer.op(), upper)
    }
}

impl<'a> Lowering<'a> {
    /// Lowers the reduction of a stage by halves; the loops before number `depth`, which counts the partial
    /// results, are open. Spatial loops inside it are those of each statement.
    pub(super) fn by_halves(&mut self, instance: &mut Instance<'a>, depth: usize) -> Vec<Stmt> {
        let compute = &instance.stage.compute;
        let Some(reducer) = compute.reducer else { return Vec::new() };
        let axis = instance.stage.order[depth];
        let is_innermost = instance.stage.order.len() == depth + 1;
        // Lanes of another layout are no vector.
        let has_layout = |it| self.schedule.tensor(it).layout.is_some();
        let mut is_packed = false;
        compute.body.for_each_read(&mut |it, _| is_packed |= has_layout(it));
        let mut count = instance.extents.get(axis).as_constant().unwrap_or(1);
        let is_loop = is_innermost && !is_packed && count <= MAX_LANES;
        if self.reduces_lanes_by_halves && is_loop {
            return self.by_lanes(instance);
        }
        let mut partial = PartialResults { reducer, axis, depth, halves: None };

        let mut stmts = Vec::new();
        while count > MAX_IN_EXPRESSION {
            let lower = count.unsigned_abs().next_power_of_two() as i64 / 2;
            let buffer = partial.halves.unwrap_or_else(|| self.add_halves(instance, depth, lower));
            let n_pairs = count - lower;
            stmts.push(self.half(instance, partial, buffer, (0, n_pairs), Some(lower)));
            // Partial results without a partner are copied; only the first level can have some.
            if n_pairs < lower {
                let rest = (n_pairs, lower - n_pairs);
                stmts.push(self.half(instance, partial, buffer, rest, None));
            }
            (partial.halves, count) = (Some(buffer), lower);
        }
        stmts.extend(self.for_each_element(instance, depth, |lowering, instance, values| {
            let at = |it| partial.read(lowering, instance, Poly::constant(it));
            let mut terms: Vec<Expr> = (0..count.max(1)).map(at).collect();
            while terms.len() > 1 {
                let upper = terms.split_off(terms.len().next_power_of_two() / 2);
                for (lower, upper) in terms.iter_mut().zip(upper) {
                    *lower = partial.combined(lower.clone(), upper);
                }
            }
            let tensor = instance.stage.tensor();
            let mut value = terms.remove(0);
            if matches!(instance.stage.reduction, ReductionOrder::Halves { adds_zero: true }) {
                let dtype = lowering.schedule.tensor(tensor).tensor.dtype;
                let identity = Expr::Const(partial.reducer.identity(dtype), dtype);
                value = partial.combined(value, identity);
            }
            let index = lowering.written_index(instance, values);
            Stmt::Store { tensor, index, value }
        }));
        stmts
    }

    /// Lowers a loop that writes `n` elements of `buffer` from `first` on: each is a partial result, combined
    /// with its partner at distance `partner`, if it has one.
    fn half(
        &mut self,
        instance: &Instance<'a>,
        partial: PartialResults,
        buffer: TensorId,
        (first, n): (i64, i64),
        partner: Option<i64>,
    ) -> Stmt {
        let var = self.loop_var(n);
        let at = |more: i64| Poly::var(var) + Poly::constant(first + more);
        let body = self.for_each_element(instance, partial.depth, |lowering, instance, _| {
            let own = partial.read(lowering, instance, at(0));
            let value = match partner {
                Some(distance) => {
                    partial.combined(own, partial.read(lowering, instance, at(distance)))
                }
                None => own,
            };
            Stmt::Store { tensor: buffer, index: partial.index(instance, at(0)), value }
        });
        let is_innermost = instance.stage.order.len() == partial.depth + 1;
        let kind = if is_innermost { LoopKind::Vectorized } else { LoopKind::Serial };
        Stmt::For { var, name: "half".to_owned(), extent: Poly::constant(n), kind, body }
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
        // The guard is about the element alone. Inside the loop, it would have vectors reduced one by one.
        match self.statement(instance) {
            Stmt::If { guards, body } => {
                let loop_ = Stmt::For { var, name, extent, kind, body };
                stmts.push(Stmt::If { guards, body: vec![loop_] });
            }
            update => stmts.push(Stmt::For { var, name, extent, kind, body: vec![update] }),
        }
        stmts
    }

    /// Adds a buffer for the first half of partial results, for each iteration of the loops inside.
    fn add_halves(&mut self, instance: &Instance<'a>, depth: usize, n: i64) -> TensorId {
        let stage = instance.stage;
        let tensor = &self.schedule.tensor(stage.tensor()).tensor;
        let inside = stage.order[depth + 1..].iter().map(|it| instance.extents.get(*it).clone());
        // Without any loop around them, these statements are phases of their own.
        let is_alone = stage.attach == Attach::Root && depth == 0;
        let id = TensorId((self.schedule.tensors.len() + self.added.len()) as u32);
        self.added.push(Buffer {
            name: format!("{}_halves", tensor.name),
            dtype: tensor.dtype,
            shape: std::iter::once(Poly::constant(n)).chain(inside).collect(),
            scope: if is_alone { Scope::Workspace } else { Scope::Local },
            layout: None,
            is_partial: false,
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
