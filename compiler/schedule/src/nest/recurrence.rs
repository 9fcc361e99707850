//! Lowers recurrences: the state is kept in a local buffer while the steps run.
//!
//! ```text
//! for i: for s: h[s, i] = if s >= 1 { h[s - 1, i] } else { first } * a + x[s, i]
//!     =>   for i: state[i] = first
//!          for s:
//!            for i: state[i] = state[i] * a + x[s, i]
//!            for i: h[s, i] = state[i]
//! ```
//!
//! Vector code and threads keep such a buffer in registers, so no step waits for memory. Where a recurrence
//! has another form, or its states are too many, it reads what it stored.

use super::lower::{Instance, Lowering};
use super::{Buffer, Scope, Stmt};
use crate::{AxisId, StageId};
use tvmtune_ir::dag::recurrence::State;
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::Poly;

/// The most states of a buffer: those of a few vectors; chosen by judgement.
const MAX_STATES: i64 = 1024;

/// The local state of a recurrence whose steps are being lowered.
pub(super) struct LocalState {
    /// The recurrence; other stages may run in its steps.
    stage: StageId,
    buffer: TensorId,
    /// The loops inside of the outermost one of steps that run no steps: the dimensions of the buffer.
    inside: Vec<AxisId>,
    /// The number of loops around the element of a step.
    depth: usize,
    state: State,
}

impl LocalState {
    fn read(&self, instance: &Instance<'_>) -> Expr {
        Expr::read(self.buffer, self.index(instance))
    }

    fn index(&self, instance: &Instance<'_>) -> Vec<Poly> {
        self.inside.iter().map(|it| instance.loops[it.0 as usize].clone()).collect()
    }
}

impl<'a> Lowering<'a> {
    /// Lowers the loops of a recurrence from number `depth` on, if that is the outermost loop of steps, with
    /// the states in a local buffer; `None` if it is another loop, or the states are not local.
    pub(super) fn with_local_state(
        &mut self,
        instance: &mut Instance<'a>,
        depth: usize,
    ) -> Option<Vec<Stmt>> {
        // A loop around it makes the buffer one of a task.
        if depth == 0 || self.local_state.is_some() {
            return None;
        }
        let steps = instance.stage.recurrent_loops();
        if steps.first() != instance.stage.order.get(depth) {
            return None;
        }
        let state = instance.stage.compute.state()?;
        let local = self.local_state(instance, depth, &steps, state)?;
        let mut initial = self.for_each(instance, &local.inside, |lowering, instance, values| {
            let value = lowering.addressing.lower_expr(&local.state.first, values, &lowering.facts);
            Stmt::Store { tensor: local.buffer, index: local.index(instance), value }
        });
        self.local_state = Some(local);
        initial.extend(self.loops(instance, depth));
        self.local_state = None;
        Some(initial)
    }

    /// Lowers a step, all of whose loops are open but for those inside: the next states, then their copies in
    /// the tensor. `None` if the loop at `depth` is another one, or the states are not local.
    pub(super) fn step(&mut self, instance: &Instance<'a>, depth: usize) -> Option<Vec<Stmt>> {
        let is_here = |it: &mut LocalState| it.stage == instance.id && it.depth == depth;
        let local = self.local_state.take_if(is_here)?;
        let inside: Vec<AxisId> = instance.stage.order[depth..].to_vec();
        let mut stmts = self.for_each(instance, &inside, |lowering, instance, values| {
            let mut addressing = lowering.addressing.clone();
            addressing.local = Some((local.state.read.clone(), local.read(instance)));
            let body = &instance.stage.compute.body;
            let value = addressing.lower_expr(body, values, &lowering.facts);
            Stmt::Store { tensor: local.buffer, index: local.index(instance), value }
        });
        stmts.extend(self.for_each(instance, &inside, |lowering, instance, values| Stmt::Store {
            tensor: instance.stage.tensor(),
            index: lowering.written_index(instance, values),
            value: local.read(instance),
        }));
        self.local_state = Some(local);
        Some(stmts)
    }

    /// Adds the buffer of states; `None` if there are too many, or their number is not known.
    fn local_state(
        &mut self,
        instance: &Instance<'a>,
        depth: usize,
        steps: &[AxisId],
        state: State,
    ) -> Option<LocalState> {
        let stage = instance.stage;
        if stage.fuses_steps() {
            return None;
        }
        let order = &stage.order;
        let inside: Vec<AxisId> =
            order[depth..].iter().copied().filter(|it| !steps.contains(it)).collect();
        let extents: Vec<&Poly> = inside.iter().map(|it| instance.extents.get(*it)).collect();
        let n_states = extents.iter().try_fold(1_i64, |n, it| n.checked_mul(it.as_constant()?))?;
        let last = order.iter().rposition(|it| steps.contains(it))?;
        let is_host =
            order[last + 1..].iter().any(|it| self.schedule.has_attached_at(instance.id, *it));
        if n_states > MAX_STATES || is_host {
            return None;
        }
        let tensor = &self.schedule.tensor(stage.tensor()).tensor;
        let buffer = TensorId((self.schedule.tensors.len() + self.added.len()) as u32);
        self.added.push(Buffer {
            name: format!("{}_state", tensor.name),
            dtype: tensor.dtype,
            shape: extents.into_iter().cloned().collect(),
            scope: Scope::Local,
            layout: None,
            is_partial: false,
        });
        Some(LocalState { stage: instance.id, buffer, inside, depth: last + 1, state })
    }
}
