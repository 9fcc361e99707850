//! Staging through copies: of a tensor that a stage reads, and of the result of a reduction.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Attach, Instruction, Schedule, Stage, StageId};
use tvmtune_ir::dag::{Compute, ComputeAxis, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

impl Schedule {
    /// Makes `reader` read a copy of a tensor; returns the stage that copies. Computed at a loop of
    /// the reader, the copy holds just the region that is read there, contiguously.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = f(a[i])               =>   a_copy[i] = a[i]
    ///                                   c[i] = f(a_copy[i])
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotRead`] if the stage does not read the tensor.
    /// - [`ErrorKind::NotRoot`] if the tensor is computed inside another stage, [`ErrorKind::Recurrent`] if
    ///   the reader itself computes it.
    ///
    /// # Source
    ///
    /// TVM's `cache_read`.
    pub fn cache_read(
        &mut self,
        tensor: TensorId,
        reader: StageId,
    ) -> Result<StageId, ScheduleError> {
        self.with_rollback(|it| it.copy_for(tensor, reader))
    }

    fn copy_for(&mut self, tensor: TensorId, reader: StageId) -> Result<StageId, ScheduleError> {
        self.check_cacheable(tensor, reader)?;

        let (stage, copy) = self.next_ids();
        let origin = self.tensor(tensor).tensor.clone();
        let index = (0..origin.shape.len() as u32).map(|it| Poly::var(VarId(it)));
        let compute = Compute {
            tensor: copy,
            axes: axes_of(&self.read_extents(tensor, reader)),
            n_spatial: origin.shape.len(),
            reducer: None,
            body: Expr::read(tensor, index),
        };
        self.add_stage_before(reader, compute, &origin, "copy");
        redirect(&mut self.stage_mut(reader).compute.body, tensor, copy);
        self.trace.push(Instruction::CacheRead { tensor, reader });
        Ok(stage)
    }

    /// The extents of a tensor as far as a stage reads it: where it has room for more than is used,
    /// zeros are in the copy beyond that, as for a tensor without room.
    fn read_extents(&self, tensor: TensorId, reader: StageId) -> Vec<Poly> {
        let mut extents = self.tensor(tensor).tensor.shape.clone();
        if self.dag.dims.iter().all(|it| it.lower_end.is_none()) {
            return extents;
        }
        let (facts, compute) = (self.dag.facts(), &self.stage(reader).compute);
        for (n, extent) in extents.iter_mut().enumerate() {
            let mut read = Vec::new();
            compute.body.for_each_read(&mut |it, index| {
                if it == tensor {
                    let var = index.get(n).and_then(|it| match it {
                        Subscript::Affine(poly) => poly.as_var(),
                        Subscript::Value(_) => None,
                    });
                    read.push(var.map(|it| &compute.axes[it.0 as usize].extent));
                }
            });
            if let [Some(first), rest @ ..] = read.as_slice()
                && rest.iter().all(|it| *it == Some(*first))
                && (extent.clone() - (*first).clone()).is_nonnegative(&facts)
            {
                *extent = (*first).clone();
            }
        }
        extents
    }

    /// Splits a reduction from the write-back of its result; returns the stage that reduces. The
    /// original stage then copies, can be tiled, and the reduction computed in each tile: its
    /// accumulators live in registers.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = sum(k, a[i, k])       =>   c_acc[i] = sum(k, a[i, k])
    ///                                   c[i] = c_acc[i]
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotReduction`] if the stage does not reduce.
    /// - [`ErrorKind::AlreadyScheduled`] if its loops were changed, [`ErrorKind::HasAttached`] if a
    ///   stage runs in it, [`ErrorKind::NotRoot`] if it reads what runs in another stage.
    ///
    /// # Source
    ///
    /// TVM's `cache_write`, for reductions.
    pub fn cache_write(&mut self, stage: StageId) -> Result<StageId, ScheduleError> {
        let found = self.live_stage(stage)?;
        refuse_if(found.compute.reducer.is_none(), ErrorKind::NotReduction.of_stage(stage))?;
        self.check_untouched(stage)?;
        self.check_reads_roots(stage)?;

        let (reduction, partial) = self.next_ids();
        let Stage { compute, attach, reduction: order, .. } = found.clone();
        let origin = self.tensor(compute.tensor).tensor.clone();
        let copy = Compute {
            axes: compute.axes[..compute.n_spatial].to_vec(),
            reducer: None,
            body: spatial_read(partial, &compute),
            ..compute
        };
        let reduce = Compute { tensor: partial, ..compute };
        self.add_stage_before(stage, reduce, &origin, "acc");
        self.stage_mut(reduction).reduction = order;
        *self.stage_mut(stage) = Stage { attach, ..Stage::new(copy) };
        self.trace.push(Instruction::CacheWrite { stage });
        Ok(reduction)
    }

    /// Refuses unless `reader` reads `tensor`, and a copy can be made anywhere before it.
    pub(super) fn check_cacheable(
        &self,
        tensor: TensorId,
        reader: StageId,
    ) -> Result<(), ScheduleError> {
        self.known_tensor(tensor)?;
        if !self.live_stage(reader)?.compute.reads(tensor) {
            return Err(ErrorKind::NotRead.of_stage(reader));
        }
        let producer = self.tensor(tensor).stage;
        refuse_if(producer == Some(reader), ErrorKind::Recurrent.of_stage(reader))?;
        if producer.is_some_and(|it| self.stage(it).attach != Attach::Root) {
            return Err(ErrorKind::NotRoot.of_tensor(tensor));
        }
        Ok(())
    }
}

/// Returns one axis for each dimension of a shape.
pub(super) fn axes_of(shape: &[Poly]) -> Vec<ComputeAxis> {
    let axis =
        |(n, extent): (usize, &Poly)| ComputeAxis { name: format!("x{n}"), extent: extent.clone() };
    shape.iter().enumerate().map(axis).collect()
}

/// Reads the element of a tensor whose dimensions are the spatial axes of a compute.
pub(super) fn spatial_read(tensor: TensorId, compute: &Compute) -> Expr {
    Expr::read(tensor, compute.spatial_vars().map(Poly::var))
}

/// Redirects every read of one tensor to the other, at the same index.
fn redirect(body: &mut Expr, from: TensorId, to: TensorId) {
    fn redirected(expr: &Expr, from: TensorId, to: TensorId) -> Expr {
        match expr.map_children(&mut |child| redirected(child, from, to)) {
            Expr::Read { tensor, index } if tensor == from => Expr::Read { tensor: to, index },
            other => other,
        }
    }
    *body = redirected(body, from, to);
}
