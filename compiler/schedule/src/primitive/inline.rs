//! Inlining of elementwise stages into their readers.

use std::collections::BTreeMap;

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Attach, Instruction, ReductionOrder, Schedule, StageId};
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};

impl Schedule {
    /// Puts the body of an elementwise stage into everything that reads it.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// p[i] = f(a[i])               =>   c[i] = g(f(a[i + 1]))
    /// c[i] = g(p[i + 1])
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::IsOutput`] if the program returns the tensor, [`ErrorKind::ReadersOutside`]
    ///   if nothing reads it.
    /// - [`ErrorKind::IsReduction`] if the stage reduces, [`ErrorKind::Recurrent`] if it is a recurrence.
    /// - [`ErrorKind::HasAttached`] if another stage runs inside this one.
    /// - [`ErrorKind::NoLayout`] if the tensor was given a layout.
    /// - [`ErrorKind::DataDependent`] if it is read at a data-dependent index and its body divides
    ///   that index.
    ///
    /// # Source
    ///
    /// TVM's `compute_inline`.
    pub fn inline(&mut self, stage: StageId) -> Result<(), ScheduleError> {
        self.with_rollback(|it| it.put_into_readers(stage))
    }

    fn put_into_readers(&mut self, stage: StageId) -> Result<(), ScheduleError> {
        let found = self.live_stage(stage)?;
        let tensor = found.tensor();
        refuse_if(self.is_output(tensor), ErrorKind::IsOutput.of_stage(stage))?;
        refuse_if(found.compute.reducer.is_some(), ErrorKind::IsReduction.of_stage(stage))?;
        self.check_not_recurrent(stage)?;
        refuse_if(self.has_attached(stage), ErrorKind::HasAttached.of_stage(stage))?;
        refuse_if(self.tensor(tensor).layout.is_some(), ErrorKind::NoLayout.of_tensor(tensor))?;
        let readers: Vec<StageId> = self.readers(tensor).collect();
        refuse_if(readers.is_empty(), ErrorKind::ReadersOutside.of_stage(stage))?;

        let (facts, dtype) = (self.dag.facts(), self.tensor(tensor).tensor.dtype);
        let mut bodies = Vec::with_capacity(readers.len());
        for reader in &readers {
            let reads = self.stage(*reader);
            // A product that is summed is contracted: one that the program rounds before stays rounded.
            let is_summed = reads.reduction != ReductionOrder::Any;
            let mut element = |index: &[Subscript]| {
                let element = element(&found.compute.body, index, &facts)?;
                Some(if is_summed { element.rounded(dtype) } else { element })
            };
            let body = put_in(&reads.compute.body, tensor, &mut element);
            bodies.push(body.ok_or(ErrorKind::DataDependent.of_stage(stage))?);
        }
        for (reader, body) in readers.into_iter().zip(bodies) {
            self.stage_mut(reader).compute.body = body;
        }
        self.stage_mut(stage).attach = Attach::Inline;
        self.trace.push(Instruction::Inline { stage });
        Ok(())
    }
}

/// `reader` with each read of `tensor`, also in subscripts of such reads, replaced by its element.
fn put_in(
    reader: &Expr,
    tensor: TensorId,
    element: &mut dyn FnMut(&[Subscript]) -> Option<Expr>,
) -> Option<Expr> {
    let mut possible = true;
    let inner = reader.map_children(&mut |child| {
        put_in(child, tensor, element).unwrap_or_else(|| {
            possible = false;
            child.clone()
        })
    });
    match &inner {
        _ if !possible => None,
        Expr::Read { tensor: read, index } if *read == tensor => element(index),
        _ => Some(inner),
    }
}

/// The element of `body` at `index`; `None` if a data-dependent subscript would be divided.
///
/// Computed subscripts are of type `I64` or `I32`.
fn element(body: &Expr, index: &[Subscript], facts: &Facts) -> Option<Expr> {
    // Data-dependent variables get ids that no compute uses while the affine ones are replaced,
    // since the reader's ids start at 0 too.
    let renamed = |n: usize| VarId(u32::MAX - n as u32);
    let replace = |var: VarId| match index.get(var.0 as usize)? {
        Subscript::Affine(poly) => Some(poly.clone()),
        Subscript::Value(_) => Some(Poly::var(renamed(var.0 as usize))),
    };
    let placed = body.substitute_vars(&replace, facts);
    let computed = |(n, it): (usize, &Subscript)| match it {
        Subscript::Affine(_) => None,
        Subscript::Value(value) => Some((renamed(n), (**value).clone())),
    };
    let values: BTreeMap<VarId, Expr> = index.iter().enumerate().filter_map(computed).collect();
    if values.is_empty() { Some(placed) } else { with_values(&placed, &values) }
}

/// Replaces variables by their data-dependent values; `None` if one of them is divided.
fn with_values(expr: &Expr, values: &BTreeMap<VarId, Expr>) -> Option<Expr> {
    let depends = |poly: &Poly| values.keys().any(|it| poly.mentions(*it));
    match expr {
        Expr::Index(poly) if depends(poly) => value_of(poly, values),
        Expr::Read { tensor, index } => {
            let subscript = |it: &Subscript| match it {
                Subscript::Affine(poly) if depends(poly) => {
                    value_of(poly, values).map(|it| Subscript::Value(Box::new(it)))
                }
                Subscript::Affine(poly) => Some(Subscript::Affine(poly.clone())),
                Subscript::Value(value) => {
                    with_values(value, values).map(|it| Subscript::Value(Box::new(it)))
                }
            };
            let index = index.iter().map(subscript).collect::<Option<_>>()?;
            Some(Expr::Read { tensor: *tensor, index })
        }
        other => {
            let mut possible = true;
            let replaced = other.map_children(&mut |child| {
                with_values(child, values).unwrap_or_else(|| {
                    possible = false;
                    child.clone()
                })
            });
            possible.then_some(replaced)
        }
    }
}

/// `poly` as an expression of type `I64`; `None` unless it is linear in the computed variables.
fn value_of(poly: &Poly, values: &BTreeMap<VarId, Expr>) -> Option<Expr> {
    let (mut rest, mut sum) = (poly.clone(), None);
    for (var, value) in values {
        let (coefficient, others) = rest.split_linear(*var)?;
        rest = others;
        if coefficient.is_zero() {
            continue;
        }
        if values.keys().any(|it| coefficient.mentions(*it)) {
            return None;
        }
        let value = Expr::Cast(DType::I64, Box::new(value.clone()));
        let term = match coefficient.as_constant() {
            Some(1) => value,
            _ => Expr::Index(coefficient).binary(BinaryOp::Mul, value),
        };
        sum = Some(match sum {
            None => term,
            Some(sum) => Expr::binary(sum, BinaryOp::Add, term),
        });
    }
    match sum {
        Some(sum) if rest.is_zero() => Some(sum),
        Some(sum) => Some(sum.binary(BinaryOp::Add, Expr::Index(rest))),
        None => Some(Expr::Index(rest)),
    }
}
