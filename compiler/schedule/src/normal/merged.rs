//! Axes that only make up one index together: one axis that a program has split into two.

use super::{Edit, may_reorder, may_reshape, n_divisions, replace_subscripts};
use tvmtune_ir::dag::{Compute, ComputeAxis, ComputeId, Dag};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// Returns a program with the first two such axes of its reductions as one; `None` if there are none.
pub(super) fn without(dag: &Dag) -> Option<Dag> {
    dag.compute_ids().filter(|it| dag.compute(*it).reducer.is_some()).find_map(|id| {
        (1..dag.compute(id).axes.len()).find_map(|second| merge(dag, id, second - 1))
    })
}

/// Merges an axis of a compute and the next.
fn merge(dag: &Dag, id: ComputeId, at: usize) -> Option<Dag> {
    let compute = dag.compute(id);
    let is_spatial = at + 1 < compute.n_spatial;
    let is_allowed = match is_spatial {
        true => may_reshape(dag, compute),
        false => at >= compute.n_spatial && may_reorder(dag),
    };
    if !is_allowed || !are_digits(compute, at) {
        return None;
    }
    let edit = Edit::into_one(compute, at, &dag.facts())?;
    let inner = compute.axes[at + 1].extent.clone();
    let n_divided = n_divisions(&compute.body);
    let mut dag = dag.clone();
    edit.apply_to(&mut dag, id);
    let merged = dag.compute(id);
    if n_divisions(&merged.body) > n_divided {
        return None;
    }
    if is_spatial {
        let tensor = merged.tensor;
        let one = |index: &[Poly]| vec![index[0].clone() * inner.clone() + index[1].clone()];
        for reader in dag.consumers(tensor) {
            let body = &dag.compute(reader).body;
            dag.computes[reader.0 as usize].body =
                replace_subscripts(body, tensor, at..at + 2, &one)?;
        }
    }
    Some(dag)
}

/// Returns whether an axis and the next are digits of one index wherever the body has them: `8 * a + b` where
/// `b` ends at 8.
fn are_digits(compute: &Compute, at: usize) -> bool {
    let [outer, inner] = [at, at + 1].map(|it| VarId(it as u32));
    let Some(extent) = compute.axes[at + 1].extent.as_constant() else { return false };
    let (mut are_digits, mut n) = (true, 0);
    compute.body.for_each_poly(&mut |poly| {
        if poly.mentions(outer) || poly.mentions(inner) {
            n += 1;
            // Quotients of both are judged by what is left of them in the end.
            if let (Some(outer), Some(inner)) = (poly.step(outer), poly.step(inner)) {
                are_digits &= outer == inner * extent;
            }
        }
    });
    are_digits && n > 0
}

impl Edit {
    /// Replaces two axes by one; `None` if the extent of the second is not constant.
    fn into_one(compute: &Compute, at: usize, dims: &Facts) -> Option<Self> {
        let [outer, inner] = [&compute.axes[at], &compute.axes[at + 1]];
        inner.extent.as_constant()?;
        let axis = ComputeAxis {
            name: format!("{}_{}", outer.name, inner.name),
            extent: outer.extent.clone() * inner.extent.clone(),
        };
        let mut facts = dims.clone();
        let var = VarId(at as u32);
        facts.bound_var(var, axis.extent.clone());
        let (quotient, remainder) = Poly::var(var).div_mod(&inner.extent, &facts);
        Some(Self { at, n_old: 2, new: vec![axis], values: vec![quotient, remainder] })
    }
}
