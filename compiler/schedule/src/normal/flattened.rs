//! Axes of which quotients and remainders are taken: several axes that a program has flattened into one.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{Edit, may_reorder, may_reshape, n_divisions, replace_subscripts};
use tvmtune_ir::dag::{Compute, ComputeAxis, ComputeId, Dag, Expr, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// Elements of the last axis of a result that is split, at least: those of a vector.
const MIN_LAST: i64 = 16;

/// Returns a program with the first flattened axis of its reductions as several; `None` if there is none.
pub(super) fn without(dag: &Dag) -> Option<Dag> {
    let facts = dag.facts();
    dag.compute_ids().filter(|it| dag.compute(*it).reducer.is_some()).find_map(|id| {
        let compute = dag.compute(id);
        (0..compute.axes.len())
            .find_map(|axis| split(dag, id, axis, &divisors(compute, axis, &facts)?))
    })
}

/// Returns the numbers by which an axis is divided, each a divisor of the next and the last of the extent;
/// `None` if none. Where only remainders are taken of it, it is one axis, of which elements repeat; so it is where
/// only quotients are, unless these are indices of their own and the axis itself is one, too, as channels of several
/// heads are, and the digits are no fewer than a vector has elements if the axis is the last one.
fn divisors(compute: &Compute, axis: usize, dims: &Facts) -> Option<Vec<i64>> {
    let (var, extent) = (VarId(axis as u32), &compute.axes[axis].extent);
    let (mut found, mut is_constant) = (BTreeSet::new(), true);
    let (mut has_quotients, mut has_remainders) = (false, false);
    let (mut is_index, mut are_indices) = (false, true);
    compute.body.for_each_poly(&mut |poly| {
        let atoms = || poly.terms().flat_map(|(atoms, _)| atoms);
        is_index |= atoms().any(|it| matches!(it, Atom::Var(it) if *it == var));
        let mut is_divided = false;
        poly.for_each_division(&mut |value, _| is_divided |= value.mentions(var));
        are_indices &= !is_divided || matches!(poly.as_atom(), Some(Atom::Div(..)));
        has_quotients |= atoms().any(|it| matches!(it, Atom::Div(a, _) if a.mentions(var)));
        has_remainders |= atoms().any(|it| matches!(it, Atom::Mod(a, _) if a.mentions(var)));
        poly.for_each_division(&mut |value, by| {
            // Other divisions with it, as `(y + t / 3) / 2` is `(3 * y + t) / 6`, are those of a digit or not.
            if let Some(step) = step_of(value, var) {
                let divided = by.as_constant().map(|by| step * by);
                is_constant &= divided.is_some();
                found.extend(divided.filter(|it| extent.as_constant().is_none_or(|to| *it < to)));
            }
        });
    });
    let found: Vec<i64> = found.into_iter().collect();
    let are_nested = found.windows(2).all(|it| it[1] % it[0] == 0)
        && extent.modulo(&Poly::constant(*found.last()?), dims).is_zero();
    let is_last = axis + 1 == compute.n_spatial;
    let is_of_heads = is_index
        && are_indices
        && axis < compute.n_spatial
        && (!is_last || found.first().is_some_and(|it| *it >= MIN_LAST));
    (has_quotients && (has_remainders || is_of_heads) && is_constant && are_nested).then_some(found)
}

/// Returns how many iterations of an axis a step of a value takes: of `v`, `v % 9` and `v / 3`, 1, 1 and 3.
fn step_of(value: &Poly, var: VarId) -> Option<i64> {
    let mut terms = value.terms();
    let (Some(([atom], 1)), None) = (terms.next(), terms.next()) else { return None };
    match atom {
        Atom::Var(it) if *it == var => Some(1),
        Atom::Div(a, by) => Some(step_of(a, var)? * by.as_constant()?),
        Atom::Mod(a, _) => step_of(a, var),
        _ => None,
    }
}

/// Splits an axis of a compute, and those that read its tensor along it; `None` if something is still divided
/// after that.
fn split(dag: &Dag, id: ComputeId, at: usize, divisors: &[i64]) -> Option<Dag> {
    let compute = dag.compute(id);
    let is_spatial = at < compute.n_spatial;
    let is_allowed = if is_spatial { may_reshape(dag, compute) } else { may_reorder(dag) };
    // An axis that reads a part of the tensor may end within a digit.
    let rest = compute.axes[at].extent.modulo(&Poly::constant(*divisors.last()?), &dag.facts());
    if !is_allowed || !rest.is_zero() {
        return None;
    }
    let edit = Edit::into_digits(compute, at, divisors, &dag.facts());
    let mut dag = dag.clone();
    edit.apply_to(&mut dag, id);
    if is_open(dag.compute(id), at..at + edit.new.len()) {
        return None;
    }
    if is_spatial {
        let tensor = dag.compute(id).tensor;
        for reader in dag.consumers(tensor) {
            dag = split_reads(dag, reader, tensor, at, divisors)?;
        }
    }
    Some(dag)
}

impl Edit {
    /// Replaces an axis by those of its digits, of which the slowest comes first, so that iterations keep
    /// their order.
    fn into_digits(compute: &Compute, at: usize, divisors: &[i64], dims: &Facts) -> Self {
        let axis = &compute.axes[at];
        let steps: Vec<i64> = [1].iter().chain(divisors).copied().collect();
        let (mut new, mut value) = (Vec::new(), Poly::default());
        for (n, step) in steps.iter().enumerate().rev() {
            let extent = match steps.get(n + 1) {
                Some(next) => Poly::constant(next / step),
                None => axis.extent.div(&Poly::constant(*step), dims),
            };
            value += Poly::var(VarId((at + new.len()) as u32)) * *step;
            new.push(ComputeAxis { name: format!("{}_{}", axis.name, new.len()), extent });
        }
        Self { at, n_old: 1, new, values: vec![value] }
    }
}

/// Returns whether digits of an axis are still divided. One may be divided with other axes, as it would be if
/// it had been an axis of the program; digits together may not.
fn is_open(compute: &Compute, digits: Range<usize>) -> bool {
    let mut is_open = false;
    compute.body.for_each_poly(&mut |poly| {
        poly.for_each_division(&mut |value, _| {
            let axes = 0..compute.axes.len();
            let mentioned = axes.filter(|it| value.mentions(VarId(*it as u32)));
            let (own, others): (Vec<_>, Vec<_>) = mentioned.partition(|it| digits.contains(it));
            is_open |= own.len() > 1 || own.len() == 1 && others.is_empty();
        });
    });
    is_open
}

/// Replaces the reads of a tensor whose axis has been split. An axis of the reader that runs along it is split
/// as well.
fn split_reads(
    mut dag: Dag,
    reader: ComputeId,
    tensor: TensorId,
    at: usize,
    divisors: &[i64],
) -> Option<Dag> {
    let compute = dag.compute(reader);
    let facts = compute.facts(&dag.facts());
    let digits = |index: &[Poly]| {
        let mut rest = index[0].clone();
        let mut digits = Vec::new();
        for step in divisors.iter().rev() {
            let (digit, below) = rest.div_mod(&Poly::constant(*step), &facts);
            digits.push(digit);
            rest = below;
        }
        digits.push(rest);
        digits
    };
    let body = replace_subscripts(&compute.body, tensor, at..at + 1, &digits)?;
    let is_divided = n_divisions(&body) > n_divisions(&compute.body);
    let along = axis_along(&compute.body, tensor, at);
    dag.computes[reader.0 as usize].body = body;
    if is_divided { split(&dag, reader, along?, divisors) } else { Some(dag) }
}

/// Returns the axis by which alone a dimension of a tensor is read somewhere.
fn axis_along(value: &Expr, tensor: TensorId, dimension: usize) -> Option<usize> {
    let mut along = None;
    value.for_each_read(&mut |read, index| {
        if read == tensor {
            along = along.or_else(|| Some(index[dimension].affine()?.as_var()?.0 as usize));
        }
    });
    along
}
