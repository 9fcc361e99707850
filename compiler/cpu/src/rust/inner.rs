//! Innermost loops, brought into a form that LLVM vectorizes.
//!
//! Two things keep it from that: a condition in every iteration, and a bounds check on every
//! access. So guards become part of the number of iterations, and what is accessed element by
//! element is cut to a slice of exactly that many elements, in front of the loop.

use std::collections::BTreeMap;

use super::Printer;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Guard, Stmt};

/// Shorter loops are unrolled anyway.
const LEAST_ITERATIONS: i64 = 4;

/// A loop with the guards of its body moved out of it: those that do not change in the loop in
/// front of it, the others into its extent.
pub(super) struct Clamped<'a> {
    pub(super) outer: Vec<Guard>,
    pub(super) extent: Poly,
    pub(super) body: &'a [Stmt],
}

/// `None` if a guard can do neither.
pub(super) fn clamp<'a>(var: VarId, extent: &Poly, body: &'a [Stmt]) -> Option<Clamped<'a>> {
    let [Stmt::If { guards, body }] = body else { return None };
    let mut clamped = Clamped { outer: Vec::new(), extent: extent.clone(), body };
    for Guard { value, bound } in guards {
        if bound.mentions(var) {
            return None;
        }
        let (coefficient, rest) = value.split_linear(var)?;
        match coefficient.as_constant()? {
            0 => clamped.outer.push(Guard { value: value.clone(), bound: bound.clone() }),
            1 => {
                let room = bound.clone() - rest;
                clamped.extent = clamped.extent.lesser(&room, &Facts::default());
            }
            _ => return None,
        }
    }
    Some(clamped)
}

/// What one loop accesses of a tensor.
#[derive(Default)]
struct Accesses {
    written: bool,
    /// Offsets of every access; one that is not known counts as another one.
    n_others: u32,
    /// Offsets of accesses in every iteration, whatever the data.
    always: Vec<Poly>,
}

/// Slices to cut in front of a loop: the buffer, its offset in the first iteration, the offset
/// that it stands for, and whether it is written.
pub(super) struct Cut {
    pub(super) tensor: TensorId,
    pub(super) first: Poly,
    pub(super) offset: Poly,
    pub(super) written: bool,
}

impl Printer<'_> {
    /// What to cut to slices in a loop; empty unless it is innermost and long enough.
    pub(super) fn cuts(&self, var: VarId, extent: &Poly, body: &[Stmt]) -> Vec<Cut> {
        if extent.as_constant().is_some_and(|it| it < LEAST_ITERATIONS) {
            return Vec::new();
        }
        let mut tensors: BTreeMap<TensorId, Accesses> = BTreeMap::new();
        for stmt in body {
            let (Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. }) =
                stmt
            else {
                return Vec::new();
            };
            let accesses = tensors.entry(*tensor).or_default();
            accesses.written = true;
            accesses.always.push(self.offset(*tensor, index));
            self.reads(value, true, &mut tensors);
        }
        let mut cuts = Vec::new();
        for (tensor, mut accesses) in tensors {
            accesses.always.sort();
            accesses.always.dedup();
            // A slice that is written must be the only way to the buffer.
            if accesses.written && (accesses.n_others > 0 || accesses.always.len() > 1) {
                continue;
            }
            for offset in accesses.always {
                if let Some((step, first)) = offset.split_linear(var)
                    && step.as_constant() == Some(1)
                {
                    cuts.push(Cut { tensor, first, offset, written: accesses.written });
                }
            }
        }
        cuts
    }

    /// Collects what an expression reads; `always` if it is evaluated in every iteration.
    fn reads(&self, expr: &Expr, always: bool, tensors: &mut BTreeMap<TensorId, Accesses>) {
        match expr {
            Expr::Read { tensor, index } => {
                let accesses = tensors.entry(*tensor).or_default();
                match affine(index) {
                    Some(index) if always => accesses.always.push(self.offset(*tensor, &index)),
                    _ => accesses.n_others += 1,
                }
                for subscript in index {
                    if let Subscript::Value(value) = subscript {
                        self.reads(value, always, tensors);
                    }
                }
            }
            Expr::Select { condition, then, otherwise } => {
                self.reads(condition, always, tensors);
                self.reads(then, false, tensors);
                self.reads(otherwise, false, tensors);
            }
            Expr::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
                self.reads(a, always, tensors);
                self.reads(b, false, tensors);
            }
            other => {
                for child in other.children() {
                    self.reads(child, always, tensors);
                }
            }
        }
    }

    /// The row-major position of an element in its buffer.
    pub(super) fn offset(&self, tensor: TensorId, index: &[Poly]) -> Poly {
        let shape = &self.nest.buffer(tensor).shape;
        let flat =
            |offset: Poly, (at, extent): (&Poly, &Poly)| offset * extent.clone() + at.clone();
        index.iter().zip(shape).fold(Poly::default(), flat)
    }
}
