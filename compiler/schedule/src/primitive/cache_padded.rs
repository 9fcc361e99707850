//! Staging of a padded tensor: the copy holds the padding, so the reader needs no bounds checks.

use super::cache::axes_of;
use crate::error::{ErrorKind, ScheduleError};
use crate::{Instruction, Schedule, StageId};
use tvmtune_ir::dag::condition::inequalities;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{CompareOp, Compute, DType, Expr, Literal, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_ir::span::Span;

/// A read of the tensor, as the reader makes it.
struct PaddedRead {
    /// The index, in the reader's variables.
    index: Vec<Poly>,
    /// The value outside of the tensor; `None` if the read is never outside.
    padding: Option<Literal>,
}

impl Schedule {
    /// Makes `reader` read a copy of a tensor that holds the padding too; returns the stage that
    /// copies. The copy covers exactly the indices that the reader forms, strided and dilated ones
    /// included.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = sum(k, if 0 <= i + k - 1 < n { a[i + k - 1] } else { 0 } * w[k])
    /// =>
    /// a_padded[p] = if 0 <= p - 1 < n { a[p - 1] } else { 0 }
    /// c[i] = sum(k, a_padded[i + k] * w[k])
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotRead`] if the stage does not read the tensor, [`ErrorKind::NotRoot`] if
    ///   the tensor is computed inside another stage.
    /// - [`ErrorKind::NotPadded`] if a read is not affine, its condition is not exactly the
    ///   bounds check, paddings differ, or no read is padded.
    /// - [`ErrorKind::TooLarge`] if, padded, the tensor could have more than 2^53 elements.
    ///
    /// # Source
    ///
    /// The padding stage that Ansor's and MetaSchedule's convolutions start from.
    pub fn cache_padded(
        &mut self,
        tensor: TensorId,
        reader: StageId,
    ) -> Result<StageId, ScheduleError> {
        self.with_rollback(|it| it.copy_padded(tensor, reader))
    }

    fn copy_padded(&mut self, tensor: TensorId, reader: StageId) -> Result<StageId, ScheduleError> {
        self.check_cacheable(tensor, reader)?;
        let refused = ErrorKind::NotPadded.of_tensor(tensor);
        let (stage, copy) = self.next_ids();
        let origin = self.tensor(tensor).tensor.clone();
        let compute = &self.stage(reader).compute;
        let facts = compute.facts(&self.dag.facts());
        let mut reads = Vec::new();
        find(&compute.body, tensor, &origin.shape, &facts, &mut reads).ok_or(refused)?;
        let mut paddings = reads.iter().filter_map(|it| it.padding);
        let padding = paddings.next().ok_or(refused)?;
        if paddings.any(|it| it != padding) {
            return Err(refused);
        }
        let padding = Expr::Const(of_type(padding, origin.dtype), origin.dtype);
        let covered = covered(&reads, compute, &facts).ok_or(refused)?;

        let origins: Vec<Poly> = covered.iter().map(|it| it.first.clone()).collect();
        let body = redirect(&compute.body, tensor, copy, &origins);
        let shape: Vec<Poly> = covered.into_iter().map(|it| it.size).collect();
        self.check_indexable(&shape, |it| it.of_tensor(tensor))?;
        let facts = self.dag.facts();
        let compute = Compute {
            tensor: copy,
            axes: axes_of(&shape),
            n_spatial: shape.len(),
            reducer: None,
            body: padded_element(tensor, &origin.shape, &origins, &shape, padding, facts),
        };
        self.add_stage_before(reader, compute, &origin, "padded");
        self.stage_mut(reader).compute.body = body;
        self.trace.push(Instruction::CachePadded { tensor, reader });
        Ok(stage)
    }
}

/// Collects the reads of `tensor`; `None` if one is not affine or its condition is not the bounds
/// check.
fn find(
    expr: &Expr,
    tensor: TensorId,
    shape: &[Poly],
    facts: &Facts,
    reads: &mut Vec<PaddedRead>,
) -> Option<()> {
    if let Some(Padded { index, condition, padding, .. }) = as_padded(expr, tensor) {
        is_bounds_check(condition, &index, shape, facts).then_some(())?;
        reads.push(PaddedRead { index, padding: Some(padding) });
        return Some(());
    }
    if let Expr::Read { tensor: read, index } = expr
        && *read == tensor
    {
        reads.push(PaddedRead { index: affine(index)?, padding: None });
        return Some(());
    }
    expr.children().into_iter().try_for_each(|child| find(child, tensor, shape, facts, reads))
}

/// The parts of `if condition { tensor[index] as T } else { padding }`.
struct Padded<'e> {
    index: Vec<Poly>,
    condition: &'e Expr,
    padding: Literal,
    /// The type that the element is converted to, if any.
    to: Option<DType>,
}

fn as_padded(expr: &Expr, tensor: TensorId) -> Option<Padded<'_>> {
    let Expr::Select { condition, then, otherwise } = expr else { return None };
    let Expr::Const(padding, _) = **otherwise else { return None };
    let (read, to) = match &**then {
        // The padding of the tensor's type that is converted to this one.
        Expr::Cast(to, read) if is_zero(padding) => (&**read, Some(*to)),
        read => (read, None),
    };
    let Expr::Read { tensor: read, index } = read else { return None };
    let index = affine(index)?;
    (*read == tensor).then_some(Padded { index, condition, padding, to })
}

/// The padding as an element of the tensor: it was converted only if it is zero.
fn of_type(padding: Literal, dtype: DType) -> Literal {
    match padding {
        Literal::Int(0) if dtype.is_float() => Literal::Float(0.0),
        it if is_zero(it) && dtype.is_integer() => Literal::Int(0),
        it => it,
    }
}

/// Returns whether a number is a zero that all types have.
fn is_zero(literal: Literal) -> bool {
    match literal {
        Literal::Float(it) => it == 0.0 && it.is_sign_positive(),
        Literal::Int(it) => it == 0,
        Literal::Bool(_) => false,
    }
}

/// Returns whether the condition holds exactly where `index` lies inside `shape`.
fn is_bounds_check(condition: &Expr, index: &[Poly], shape: &[Poly], facts: &Facts) -> bool {
    let Some(stated) = inequalities(condition) else { return false };
    let mut wanted = Vec::with_capacity(2 * index.len());
    for (at, extent) in index.iter().zip(shape) {
        wanted.push(at.clone());
        wanted.push(extent.clone() - at.clone() - Poly::constant(1));
    }
    let holds = |it: &Poly| it.is_nonnegative(facts);
    stated.iter().all(|it| wanted.contains(it) || holds(it))
        && wanted.iter().all(|it| stated.contains(it) || holds(it))
}

/// Returns the hull of all reads, for each dimension.
fn covered(reads: &[PaddedRead], compute: &Compute, facts: &Facts) -> Option<Vec<Span>> {
    let axis = |var: VarId| {
        let axis = compute.axes.get(var.0 as usize)?;
        Some(Span::whole(axis.extent.clone()))
    };
    let mut all: Option<Vec<Span>> = None;
    for read in reads {
        let spans = read.index.iter().map(|it| Span::of(it, &axis, facts));
        let spans: Vec<Span> = spans.collect::<Option<_>>()?;
        all = Some(match all {
            None => spans,
            Some(before) => {
                let hull = |(a, b): (&Span, &Span)| a.hull(b, facts);
                before.iter().zip(&spans).map(hull).collect::<Option<_>>()?
            }
        });
    }
    all
}

/// `if origins[0] + x0 in bounds .. { tensor[origins[0] + x0, ..] } else { padding }`, without the
/// conditions that the facts decide.
fn padded_element(
    tensor: TensorId,
    shape: &[Poly],
    origins: &[Poly],
    extents: &[Poly],
    padding: Expr,
    mut facts: Facts,
) -> Expr {
    let mut index = Vec::with_capacity(shape.len());
    for (n, (first, extent)) in origins.iter().zip(extents).enumerate() {
        facts.bound_var(VarId(n as u32), extent.clone());
        index.push(Poly::var(VarId(n as u32)) + first.clone());
    }
    let mut element = Expr::read(tensor, index.iter().cloned());
    for (at, extent) in index.iter().zip(shape).rev() {
        let least = Expr::Index(at.clone()).compare(CompareOp::Ge, Expr::Index(Poly::default()));
        let most = Expr::Index(at.clone()).compare(CompareOp::Lt, Expr::Index(extent.clone()));
        let room = extent.clone() - at.clone();
        for (condition, known) in
            [(most, room.is_positive(&facts)), (least, at.is_nonnegative(&facts))]
        {
            if !known {
                element = condition.select(element, padding.clone());
            }
        }
    }
    element
}

/// Redirects every read of `from`, padded or not, to `to`, whose origin is `origins`.
fn redirect(expr: &Expr, from: TensorId, to: TensorId, origins: &[Poly]) -> Expr {
    let moved = |index: Vec<Poly>| {
        Expr::read(to, index.into_iter().zip(origins).map(|(at, first)| at - first.clone()))
    };
    if let Some(Padded { index, to, .. }) = as_padded(expr, from) {
        let element = moved(index);
        return match to {
            Some(to) => Expr::Cast(to, Box::new(element)),
            None => element,
        };
    }
    match expr {
        Expr::Read { tensor, index } if *tensor == from => {
            affine(index).map_or_else(|| expr.clone(), moved)
        }
        other => other.map_children(&mut |child| redirect(child, from, to, origins)),
    }
}
