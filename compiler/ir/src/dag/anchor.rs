//! The anchor of a dag: the compute with most of the work, and its elementwise epilogue.
//!
//! # Source
//!
//! The anchor block of TVM's `MetaSchedule`.

use super::access::work;
use super::{ComputeId, Dag, Subscript};
use crate::poly::{Poly, VarId};

/// The compute with most of the work, and its epilogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The reduction with most of the work; where nothing is reduced, the compute with most of it.
    pub compute: ComputeId,
    /// The epilogue: the chain of computes each of which reads the one before elementwise, and is
    /// its only reader.
    pub after: Vec<ComputeId>,
}

impl Anchor {
    /// The anchor of a dag; `None` if the dag computes nothing.
    pub fn of(dag: &Dag) -> Option<Self> {
        let facts = dag.facts();
        let reduces = dag.computes.iter().any(|it| it.reducer.is_some());
        let mut best: Option<(u64, ComputeId)> = None;
        for id in dag.compute_ids() {
            let compute = dag.compute(id);
            if reduces && compute.reducer.is_none() {
                continue;
            }
            let extents = compute.axes.iter().map(|it| it.extent.interval(&facts).hi.max(1) as u64);
            let n_iterations = extents.fold(1, u64::saturating_mul);
            let total_work = n_iterations.saturating_mul(work(&compute.body) + 1);
            if best.is_none_or(|(most, _)| total_work > most) {
                best = Some((total_work, id));
            }
        }
        let (_, compute) = best?;
        let mut after = Vec::new();
        while let Some(next) = elementwise_reader(dag, after.last().copied().unwrap_or(compute)) {
            after.push(next);
        }
        Some(Self { compute, after })
    }

    /// The compute that stores the result: the last one of the epilogue.
    pub fn root(&self) -> ComputeId {
        self.after.last().copied().unwrap_or(self.compute)
    }
}

fn elementwise_reader(dag: &Dag, id: ComputeId) -> Option<ComputeId> {
    let compute = dag.compute(id);
    let consumers = dag.consumers(compute.tensor);
    let [next] = consumers.as_slice() else { return None };
    let reader = dag.compute(*next);
    let is_axis = |(n, it): (u32, &Subscript)| it.affine().and_then(Poly::as_var) == Some(VarId(n));
    let mut same = true;
    reader.body.for_each_read(&mut |tensor, index| {
        same &= tensor != compute.tensor || (0..).zip(index).all(is_axis);
    });
    let alike = reader.reducer.is_none() && reader.n_spatial == compute.n_spatial;
    (same && alike && !dag.outputs.contains(&compute.tensor)).then_some(*next)
}
