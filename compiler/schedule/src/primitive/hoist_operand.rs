//! Costly operands of reductions, which are used again for each value of some axis.

use super::InvariantPart;
use super::hoist_invariant::{axes_of, replaced};
use crate::Schedule;
use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Compute, ComputeAxis, DType, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

/// Operands of no more work than this stay in the reduction.
const CHEAP: u64 = 1;

impl Schedule {
    /// Finds the first costly `f32` part of a reduction's body that varies along some axes only, in one of two
    /// forms:
    ///
    /// - by axes, where each subscript in it is an axis or constant: `if k <= i { a[i, k] } else { 0 }`;
    /// - by elements of tensors that it reads at one index: `tanh(x[c, y + r, p + s])`.
    pub(super) fn costly_operand(&self, compute: &Compute) -> Option<InvariantPart> {
        self.operand_in(compute, &compute.body, true)
    }

    /// Returns the first such part of a value; `is_defined` if the value is for all values of the axes.
    fn operand_in(
        &self,
        compute: &Compute,
        value: &Expr,
        is_defined: bool,
    ) -> Option<InvariantPart> {
        let along = axes_of(value, compute.axes.len());
        let is_part = value.dtype(self) == DType::F32
            && work(value) > CHEAP
            && (1..compute.axes.len()).contains(&along.len());
        if is_part {
            let by_axes = || is_defined.then(|| self.by_axes(compute, value, &along)).flatten();
            if let Some(found) = by_axes().or_else(|| self.by_elements(compute, value, &along)) {
                return Some(found);
            }
        }
        match value {
            // A branch may be undefined where its condition does not hold.
            Expr::Select { condition, then, otherwise } => {
                let of_branch = |it: &Expr| self.operand_in(compute, it, false);
                let of_condition = self.operand_in(compute, condition, is_defined);
                of_condition.or_else(|| of_branch(then)).or_else(|| of_branch(otherwise))
            }
            Expr::Read { .. } => None,
            _ => {
                value.children().into_iter().find_map(|it| self.operand_in(compute, it, is_defined))
            }
        }
    }

    fn by_axes(&self, compute: &Compute, value: &Expr, along: &[usize]) -> Option<InvariantPart> {
        let mut is_plain = true;
        value.for_each_read(&mut |tensor, index| {
            let own = |it: &Subscript| {
                it.affine().is_some_and(|it| it.as_var().is_some() || !it.has_vars())
            };
            is_plain &= tensor != compute.tensor && index.iter().all(own);
        });
        if !is_plain {
            return None;
        }
        let vars: Vec<Poly> = along.iter().map(|it| Poly::var(VarId(*it as u32))).collect();
        let axes = along.iter().map(|it| compute.axes[*it].clone()).collect();
        let position = |var: VarId| along.iter().position(|it| *it == var.0 as usize);
        let renamed = |var: VarId| position(var).map(|it| Poly::var(VarId(it as u32)));
        let own = value.substitute_vars(&renamed, &self.dag.facts());
        Some(self.part(compute, value, (axes, own), vars, along))
    }

    fn by_elements(
        &self,
        compute: &Compute,
        value: &Expr,
        along: &[usize],
    ) -> Option<InvariantPart> {
        let mut reads: Vec<(TensorId, Vec<Poly>)> = Vec::new();
        let mut is_affine = true;
        value.for_each_read(&mut |tensor, index| match affine(index) {
            Some(index) => reads.push((tensor, index)),
            None => is_affine = false,
        });
        let (first, index) = reads.first()?.clone();
        let shape = &self.tensor(first).tensor.shape;
        let is_same = |(tensor, at): &(TensorId, Vec<Poly>)| {
            *at == index && self.tensor(*tensor).tensor.shape == *shape && *tensor != compute.tensor
        };
        let is_by_elements =
            is_affine && reads.iter().all(is_same) && !has_indices(value) && always_reads(value);
        if !is_by_elements || index.is_empty() {
            return None;
        }
        let axes = shape
            .iter()
            .enumerate()
            .map(|(n, extent)| ComputeAxis { name: format!("x{n}"), extent: extent.clone() });
        let own = value.replace_reads(&mut |tensor, _| {
            Some(Expr::read(tensor, (0..shape.len() as u32).map(|it| Poly::var(VarId(it)))))
        });
        Some(self.part(compute, value, (axes.collect(), own), index, along))
    }

    /// Makes a part of its own axes and value by them, and of the index at which the body reads it.
    fn part(
        &self,
        compute: &Compute,
        value: &Expr,
        (axes, own): (Vec<ComputeAxis>, Expr),
        index: Vec<Poly>,
        along: &[usize],
    ) -> InvariantPart {
        let (_, tensor) = self.next_ids();
        let read = Expr::read(tensor, index);
        let body = replaced(&compute.body, &|it| (it == value).then(|| read.clone()));
        InvariantPart { axes, along: along.to_vec(), value: own, body }
    }
}

/// Returns whether evaluating a value reads an element whatever its conditions are, so that one is there.
fn always_reads(value: &Expr) -> bool {
    match value {
        Expr::Read { .. } => true,
        Expr::Select { condition, .. } => always_reads(condition),
        Expr::Binary(BinaryOp::And | BinaryOp::Or, first, _) => always_reads(first),
        _ => value.children().into_iter().any(always_reads),
    }
}

/// Returns whether a value uses indices as numbers.
fn has_indices(value: &Expr) -> bool {
    value.any(&mut |it| matches!(it, Expr::Index(poly) if poly.has_vars()))
}
