//! Which compute is the reason for the others: the one with most of the work, and what follows it
//! element by element.

use super::access::work;
use super::{ComputeId, Dag, Expr, Subscript};
use crate::poly::VarId;

/// The compute with most of the work, and what becomes of its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The reduction with most of the work; where nothing is reduced, the compute with most of it.
    pub compute: ComputeId,
    /// What is computed of its elements one by one, and of nothing else's, in order.
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
            let all = n_iterations.saturating_mul(work(&compute.body) + 1);
            if best.is_none_or(|(most, _)| all > most) {
                best = Some((all, id));
            }
        }
        let (_, compute) = best?;
        let mut after = Vec::new();
        while let Some(next) = follower(dag, after.last().copied().unwrap_or(compute)) {
            after.push(next);
        }
        Some(Self { compute, after })
    }

    /// The compute that stores what the anchor comes to.
    pub fn root(&self) -> ComputeId {
        self.after.last().copied().unwrap_or(self.compute)
    }
}

/// The only compute that reads what this one defines, if it does so element by element.
fn follower(dag: &Dag, id: ComputeId) -> Option<ComputeId> {
    let compute = dag.compute(id);
    let consumers = dag.consumers(compute.tensor);
    let [next] = consumers.as_slice() else { return None };
    let reader = dag.compute(*next);
    let mut same = true;
    reader.body.walk(&mut |it| {
        if let Expr::Read { tensor, index } = it
            && *tensor == compute.tensor
        {
            let is_axis = |(n, it): (u32, &Subscript)| {
                matches!(it, Subscript::Affine(poly) if poly.as_var() == Some(VarId(n)))
            };
            same &= (0..).zip(index).all(is_axis);
        }
    });
    let alike = reader.reducer.is_none() && reader.n_spatial == compute.n_spatial;
    (same && alike && !dag.outputs.contains(&compute.tensor)).then_some(*next)
}
