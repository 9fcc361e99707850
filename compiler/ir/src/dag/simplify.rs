//! Simplification of dags: constant folding, copy forwarding, dead-code and common-subexpression
//! elimination.
//!
//! Every rewrite is exact: the values before and after are equal bit for bit, NaNs included.

use std::collections::{BTreeMap, BTreeSet};

use super::bounds::PathFacts;
use super::choices::choose_reads;
use super::fold::fold;
use super::{BinaryOp, Compute, ComputeId, DType, Dag, Expr, Subscript, TensorId, TensorKind};
use crate::poly::{Facts, Interval, Poly, VarId};

/// Simplifies a dag; names of tensors end up unique.
pub(crate) fn simplify(dag: &mut Dag) {
    fold_bodies(dag);
    forward_copies(dag);
    // Forwarded computes are dead, and must not be found equal to their copies.
    eliminate_dead(dag);
    eliminate_common(dag);
    eliminate_dead(dag);
    make_names_unique(dag);
}

impl Dag {
    /// Specializes the program to the extents in `ranges`, one for each dynamic dimension, as for a
    /// bucket. Conditions that always hold there are folded.
    ///
    /// # Panics
    ///
    /// If there is not a range for each dimension.
    #[must_use]
    pub fn specialize(&self, ranges: &[Interval]) -> Dag {
        assert_eq!(ranges.len(), self.dims.len(), "a range for each dynamic dimension");
        let mut dag = self.clone();
        for (dim, range) in dag.dims.iter_mut().zip(ranges) {
            dim.range = *range;
        }
        fold_bodies(&mut dag);
        for (before, after) in self.computes.iter().zip(&mut dag.computes) {
            if self.order(before).is_some() {
                keep_contraction(before, after);
            }
        }
        dag
    }
}

/// Restores the contraction of a sum that folding changed: a bucket contracts exactly the products that the
/// whole range contracts, so that both give the same bits.
fn keep_contraction(before: &Compute, after: &mut Compute) {
    let is_product = |it: &Compute| matches!(it.body, Expr::Binary(BinaryOp::Mul, ..));
    match (is_product(before), is_product(after)) {
        (true, false) => after.body = before.body.clone(),
        (false, true) => after.body = Expr::Cast(DType::F32, Box::new(after.body.clone())),
        _ => {}
    }
}

impl Compute {
    /// Returns the facts about dimensions and, by the extents of its axes, about its variables.
    pub fn facts(&self, dims: &Facts) -> Facts {
        let mut facts = dims.clone();
        for (n, axis) in self.axes.iter().enumerate() {
            facts.bound_var(VarId(n as u32), axis.extent.clone());
        }
        facts
    }

    /// Returns the tensor that this copies elementwise.
    fn copied(&self) -> Option<TensorId> {
        let Expr::Read { tensor, index } = &self.body else { return None };
        let same_place = index.len() == self.n_spatial
            && index.iter().zip(self.spatial_vars()).all(|(subscript, var)| match subscript {
                Subscript::Affine(poly) => poly.as_var() == Some(var),
                Subscript::Value(_) => false,
            });
        (same_place && self.reducer.is_none()).then_some(*tensor)
    }
}

fn fold_bodies(dag: &mut Dag) {
    let dims = dag.facts();
    for n in 0..dag.computes.len() {
        let known = PathFacts::new(dag.computes[n].facts(&dims));
        let folded = |it: &Expr| fold(it, &known, dag);
        let body = folded(&dag.computes[n].body);
        let is_recurrent = dag.computes[n].is_recurrent();
        let chosen = if is_recurrent { None } else { choose_reads(&body, &known, dag) };
        dag.computes[n].body = chosen.map_or(body, |it| folded(&it));
    }
}

/// Copy forwarding: a copy of a compute without other readers takes over its definition.
fn forward_copies(dag: &mut Dag) {
    for id in dag.compute_ids() {
        let compute = dag.compute(id);
        let Some(source) = compute.copied() else { continue };
        let Some(producer) = dag.producer(source) else { continue };
        let (from, to) = (dag.tensor(source), dag.tensor(compute.tensor));
        let is_replaced = |new: TensorId| dag.producer(new).is_none_or(|it| it <= id);
        // The elements that it reads are replaced before the copy runs.
        let reads_replaced =
            dag.in_place().any(|(old, new)| dag.compute(producer).reads(old) && is_replaced(new));
        let alike = from.dtype == to.dtype && from.shape == to.shape && !reads_replaced;
        if !alike || dag.consumers(source).len() > 1 || dag.outputs.contains(&source) {
            continue;
        }
        let mut definition = dag.compute(producer).clone();
        definition.tensor = compute.tensor;
        // A recurrence reads its own tensor.
        definition.body = rename_tensor(&definition.body, source, compute.tensor);
        for (axis, named) in definition.axes.iter_mut().zip(&compute.axes) {
            axis.name.clone_from(&named.name);
        }
        dag.computes[id.0 as usize] = definition;
    }
}

/// Common-subexpression elimination: the first of equal definitions serves all readers.
fn eliminate_common(dag: &mut Dag) {
    let mut first: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    for n in 0..dag.computes.len() {
        dag.computes[n].body =
            map_tensors(&dag.computes[n].body, &|it| first.get(&it).copied().unwrap_or(it));
        let (before, compute) = (&dag.computes[..n], &dag.computes[n]);
        let is_recurrent = compute.is_recurrent();
        let same_body = |it: &Compute| match is_recurrent {
            false => it.body == compute.body,
            true => it.body == rename_tensor(&compute.body, compute.tensor, it.tensor),
        };
        let equal = before.iter().find(|it| {
            let extents = |it: &Compute| -> Vec<Poly> {
                it.axes.iter().map(|axis| axis.extent.clone()).collect()
            };
            it.reducer == compute.reducer
                && it.n_spatial == compute.n_spatial
                && dag.tensor(it.tensor).dtype == dag.tensor(compute.tensor).dtype
                && same_body(it)
                && extents(it) == extents(compute)
        });
        if let Some(equal) = equal {
            first.insert(compute.tensor, equal.tensor);
        }
    }
}

/// Dead-code elimination: drops computes that no result needs, and renumbers the rest.
fn eliminate_dead(dag: &mut Dag) {
    let mut live: BTreeSet<TensorId> = dag.outputs.iter().copied().collect();
    for compute in dag.computes.iter().rev() {
        if live.contains(&compute.tensor) {
            compute.body.for_each_read(&mut |tensor, _| {
                live.insert(tensor);
            });
        }
    }
    let n_params = dag.params().count();
    let mut renumbered: BTreeMap<TensorId, TensorId> = dag.params().map(|it| (it, it)).collect();
    let (mut tensors, mut computes) = (dag.tensors[..n_params].to_vec(), Vec::new());
    for compute in dag.computes.iter().filter(|it| live.contains(&it.tensor)) {
        let id = TensorId(tensors.len() as u32);
        let mut tensor = dag.tensor(compute.tensor).clone();
        tensor.kind = TensorKind::Computed(ComputeId(computes.len() as u32));
        renumbered.insert(compute.tensor, id);
        let body = map_tensors(&compute.body, &|it| renumbered[&it]);
        tensors.push(tensor);
        computes.push(Compute { tensor: id, body, ..compute.clone() });
    }
    dag.outputs = dag.outputs.iter().map(|it| renumbered[it]).collect();
    (dag.tensors, dag.computes) = (tensors, computes);
}

pub(crate) fn map_tensors(expr: &Expr, renamed: &dyn Fn(TensorId) -> TensorId) -> Expr {
    match expr.map_children(&mut |it| map_tensors(it, renamed)) {
        Expr::Read { tensor, index } => Expr::Read { tensor: renamed(tensor), index },
        other => other,
    }
}

fn rename_tensor(expr: &Expr, from: TensorId, to: TensorId) -> Expr {
    map_tensors(expr, &|it| if it == from { to } else { it })
}

fn make_names_unique(dag: &mut Dag) {
    let mut taken = BTreeSet::new();
    for tensor in &mut dag.tensors {
        let base = tensor.name.clone();
        let mut n = 1;
        while !taken.insert(tensor.name.clone()) {
            n += 1;
            tensor.name = format!("{base}_{n}");
        }
    }
}
