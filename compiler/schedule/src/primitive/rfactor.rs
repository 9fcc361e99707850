//! Factored reductions: a reduce loop becomes an axis of a tensor of partial results.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::relation::Extents;
use crate::{
    Axis, AxisId, AxisRole, Instruction, LoopKind, ReductionOrder, Schedule, Stage, StageId,
};
use tvmtune_ir::dag::{CompareOp, Compute, ComputeAxis, Expr, Reducer};
use tvmtune_ir::poly::{Poly, VarId};

impl Schedule {
    /// Reduces in two steps: a new stage reduces for each iteration of `axis` on its own, into a
    /// tensor with `axis` as its last dimension; the stage then reduces over that dimension.
    /// Returns the new stage. Its axes are the spatial ones, `axis`, and the other reduce loops.
    ///
    /// Iterations of `axis` become independent: they can be parallel, or lanes.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = sum(k_0, k_1, a[i, k_0 * f + k_1])
    /// =>
    /// c_part[i, k_1] = sum(k_0, a[i, k_0 * f + k_1])      -- 0 where the guard of a tail fails
    /// c[i] = sum(k_1, c_part[i, k_1])
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotReduction`], [`ErrorKind::WrongRole`] if the axis does not reduce.
    /// - [`ErrorKind::AlreadyScheduled`] if a spatial loop was split or fused, or a loop annotated.
    /// - [`ErrorKind::HasAttached`] if a stage runs in this one.
    /// - [`ErrorKind::NotRoot`] if it reads what runs in another stage.
    /// - [`ErrorKind::FixedNumerics`] if the program fixes the order of the reduction.
    /// - [`ErrorKind::TooLarge`] if there could be more than 2^53 partial results.
    ///
    /// # Source
    ///
    /// TVM's `rfactor`.
    pub fn rfactor(&mut self, stage: StageId, axis: AxisId) -> Result<StageId, ScheduleError> {
        self.free_position(stage, axis)?;
        self.check_factorable(stage, axis)?;

        let (part, partial) = self.next_ids();
        let found = self.stage(stage).clone();
        let Some(reducer) = found.compute.reducer else {
            return Err(ErrorKind::NotReduction.of_stage(stage));
        };
        let origin = self.tensor(found.tensor()).tensor.clone();
        let partials = self.partial_compute(&found, axis, reducer);
        self.check_stage_size(stage, &partials)?;
        let n_spatial = found.compute.n_spatial;
        let mut axes = found.compute.axes[..n_spatial].to_vec();
        axes.push(partials.axes[n_spatial].clone());
        let body = Expr::read(partial, (0..=n_spatial as u32).map(|it| Poly::var(VarId(it))));
        let compute =
            Compute { tensor: found.tensor(), axes, n_spatial, reducer: Some(reducer), body };

        self.add_stage_before(stage, Compute { tensor: partial, ..partials }, &origin, "part");
        *self.stage_mut(stage) = Stage { attach: found.attach, ..Stage::new(compute) };
        self.trace.push(Instruction::Rfactor { stage, axis });
        Ok(part)
    }

    fn check_factorable(&self, stage: StageId, axis: AxisId) -> Result<(), ScheduleError> {
        let found = self.stage(stage);
        refuse_if(found.compute.reducer.is_none(), ErrorKind::NotReduction.of_stage(stage))?;
        let is_ordered = found.reduction != ReductionOrder::Any;
        refuse_if(is_ordered, ErrorKind::FixedNumerics.of_stage(stage))?;
        if found.axis(axis).role != AxisRole::Reduce {
            return Err(ErrorKind::WrongRole(found.axis(axis).role).of_axis(stage, axis));
        }
        refuse_if(self.has_attached(stage), ErrorKind::HasAttached.of_stage(stage))?;
        self.check_reads_roots(stage)?;
        let spatial_live = (0..found.compute.n_spatial as u32).all(|it| found.is_live(AxisId(it)));
        let serial = found.axes.iter().all(|it| it.kind == LoopKind::Serial && !it.tightened);
        if !spatial_live || !serial || found.online {
            return Err(ErrorKind::AlreadyScheduled.of_stage(stage));
        }
        Ok(())
    }

    /// The compute of the partial results: the stage's own, over its loops.
    fn partial_compute(&self, stage: &Stage, axis: AxisId, reducer: Reducer) -> Compute {
        let n_spatial = stage.compute.n_spatial;
        let others = stage.order.iter().copied();
        let others = others.filter(|it| *it != axis && stage.axis(*it).role == AxisRole::Reduce);
        let loops = (0..n_spatial as u32).map(AxisId).chain([axis]).chain(others);

        let mut facts = self.dag.facts();
        let mut values = vec![Poly::default(); stage.axes.len()];
        let mut axes = Vec::new();
        for (n, it) in loops.enumerate() {
            let Axis { name, extent, .. } = stage.axis(it).clone();
            let var = VarId(n as u32);
            facts.bound_var(var, extent.clone());
            values[it.0 as usize] = Poly::var(var);
            axes.push(ComputeAxis { name, extent });
        }
        let declared = stage.compute.axes.iter().map(|it| it.extent.clone()).collect();
        let extents = Extents::derive(stage, declared, &facts);
        let values = extents.values(stage, values, &facts);

        let dtype = self.tensor(stage.tensor()).tensor.dtype;
        let replace = |var: VarId| Some(values[var.0 as usize].clone());
        let mut body = stage.compute.body.substitute_vars(&replace, &facts);
        for tail in extents.tails(stage) {
            let value = Expr::Index(values[tail.0 as usize].clone());
            let bound = Expr::Index(extents.get(tail).clone());
            let identity = Expr::Const(reducer.identity(dtype), dtype);
            body = value.compare(CompareOp::Lt, bound).select(body, identity);
        }
        let reducer = (axes.len() > n_spatial + 1).then_some(reducer);
        Compute { tensor: stage.tensor(), axes, n_spatial: n_spatial + 1, reducer, body }
    }
}
