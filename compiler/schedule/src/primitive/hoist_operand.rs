//! Costly operands of reductions, which are used again for each value of some axis.

use super::InvariantPart;
use super::hoist_invariant::{axes_of, replaced};
use crate::Schedule;
use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Compute, ComputeAxis, DType, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

/// Operands of no more work than this stay in the reduction. Loads after the first are work.
const CHEAP: u64 = 1;

impl Schedule {
    /// Finds the first costly `f32` part of a reduction's body that varies along some axes only, in one of two
    /// forms:
    ///
    /// - by axes, where each subscript in it is an axis or constant: `if k <= i { a[i, k] } else { 0 }`;
    /// - by elements of a tensor that it reads at one index, and of others at parts of that index:
    ///   `tanh(x[c, y + r, p + s] - m[c])`.
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
            && self.is_costly(compute, value)
            && (1..compute.axes.len()).contains(&along.len());
        if is_part {
            let forms: &[Form] = if is_defined { &[by_axes, by_elements] } else { &[by_elements] };
            if let Some(found) = forms.iter().find_map(|it| self.part(compute, value, *it)) {
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

    fn is_costly(&self, compute: &Compute, value: &Expr) -> bool {
        let work = work(value);
        // A scan, as which a prefix sum runs, loads each element a few times only.
        let is_loaded_often =
            || work + n_reads(value).saturating_sub(1) > CHEAP && self.prefix(compute).is_none();
        work > CHEAP || is_loaded_often()
    }

    /// Makes a part of an operand in a form, and of all others of the body that are the same function of
    /// other axes or elements: of `(x[k, i] - m[i]) * (x[k, j] - m[j])`, one part.
    fn part(&self, compute: &Compute, value: &Expr, form: Form) -> Option<InvariantPart> {
        let operand = form(self, compute, value)?;
        let (_, tensor) = self.next_ids();
        let extents = |it: &Operand| it.axes.iter().map(|it| it.extent.clone()).collect::<Vec<_>>();
        let (of_value, own_extents) = (work(value), extents(&operand));
        let body = replaced(&compute.body, &|it| {
            let is_like = work(it) == of_value && it.dtype(self) == DType::F32;
            let other = is_like.then(|| form(self, compute, it)).flatten()?;
            let is_same = other.value == operand.value && extents(&other) == own_extents;
            is_same.then(|| Expr::read(tensor, other.index))
        });
        let along = axes_of(value, compute.axes.len());
        Some(InvariantPart { axes: operand.axes, along, value: operand.value, body })
    }
}

/// An operand as a function of axes of its own, and the index at which the body uses it.
struct Operand {
    axes: Vec<ComputeAxis>,
    value: Expr,
    index: Vec<Poly>,
}

/// A form of operands; nothing where a value has another.
type Form = fn(&Schedule, &Compute, &Expr) -> Option<Operand>;

fn by_axes(schedule: &Schedule, compute: &Compute, value: &Expr) -> Option<Operand> {
    let mut is_plain = true;
    let mut largest: &[Subscript] = &[];
    value.for_each_read(&mut |tensor, index| {
        let own =
            |it: &Subscript| it.affine().is_some_and(|it| it.as_var().is_some() || !it.has_vars());
        is_plain &= tensor != compute.tensor && index.iter().all(own);
        if index.len() > largest.len() {
            largest = index;
        }
    });
    if !is_plain {
        return None;
    }
    // The elements lie as those that they are made of.
    let mut along = axes_of(value, compute.axes.len());
    let var_of = |at: &Subscript| at.affine().and_then(Poly::as_var);
    along.sort_by_key(|it| largest.iter().position(|at| var_of(at) == Some(VarId(*it as u32))));
    let index = along.iter().map(|it| Poly::var(VarId(*it as u32))).collect();
    let axes = along.iter().map(|it| compute.axes[*it].clone()).collect();
    let position = |var: VarId| along.iter().position(|it| *it == var.0 as usize);
    let renamed = |var: VarId| position(var).map(|it| Poly::var(VarId(it as u32)));
    let value = value.substitute_vars(&renamed, &schedule.dag.facts());
    Some(Operand { axes, value, index })
}

fn by_elements(schedule: &Schedule, compute: &Compute, value: &Expr) -> Option<Operand> {
    let mut reads: Vec<(TensorId, Vec<Poly>)> = Vec::new();
    let mut is_affine = true;
    value.for_each_read(&mut |tensor, index| match affine(index) {
        Some(index) => reads.push((tensor, index)),
        None => is_affine = false,
    });
    // The first of those with most subscripts: its elements are those of the new tensor.
    let (first, index) = reads.iter().rev().max_by_key(|it| it.1.len())?.clone();
    let shape = &schedule.tensor(first).tensor.shape;
    let dims = |tensor: TensorId, at: &[Poly]| {
        let extents = &schedule.tensor(tensor).tensor.shape;
        let dim = |(own, extent): (&Poly, &Poly)| {
            (0..index.len()).find(|it| index[*it] == *own && shape[*it] == *extent)
        };
        at.iter().zip(extents).map(dim).collect::<Option<Vec<usize>>>()
    };
    let are_of_elements =
        reads.iter().all(|(tensor, at)| *tensor != compute.tensor && dims(*tensor, at).is_some());
    let is_by_elements =
        is_affine && are_of_elements && !has_indices(value) && always_reads(value, first);
    if !is_by_elements || index.is_empty() {
        return None;
    }
    let axes = shape
        .iter()
        .enumerate()
        .map(|(n, extent)| ComputeAxis { name: format!("x{n}"), extent: extent.clone() });
    let value = value.replace_reads(&mut |tensor, at| {
        let dims = dims(tensor, &affine(at)?)?;
        Some(Expr::read(tensor, dims.into_iter().map(|it| Poly::var(VarId(it as u32)))))
    });
    Some(Operand { axes: axes.collect(), value, index })
}

/// Returns whether evaluating a value reads an element of a tensor whatever its conditions are, so that one
/// is there.
fn always_reads(value: &Expr, tensor: TensorId) -> bool {
    match value {
        Expr::Read { tensor: read, .. } => *read == tensor,
        Expr::Select { condition, .. } => always_reads(condition, tensor),
        Expr::Binary(BinaryOp::And | BinaryOp::Or, first, _) => always_reads(first, tensor),
        _ => value.children().into_iter().any(|it| always_reads(it, tensor)),
    }
}

/// Counts the elements that a value reads, each once.
fn n_reads(value: &Expr) -> u64 {
    let mut reads: Vec<(TensorId, Vec<Subscript>)> = Vec::new();
    value.for_each_read(&mut |tensor, index| {
        if !reads.iter().any(|it| it.0 == tensor && it.1 == index) {
            reads.push((tensor, index.to_vec()));
        }
    });
    reads.len() as u64
}

/// Returns whether a value uses indices as numbers.
fn has_indices(value: &Expr) -> bool {
    value.any(&mut |it| matches!(it, Expr::Index(poly) if poly.has_vars()))
}
