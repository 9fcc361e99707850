//! Innermost loops in a form that LLVM vectorizes: loop-bound tightening and bounds-check
//! elimination.
//!
//! ```text
//! for j in 0..8 { if i + j < n { y[i + j] = f(x[i + j]) } }
//!     =>   let n_j = min(8, n - i); let (x_row, y_row) = (&x[i..][..n_j], &mut y[i..][..n_j]);
//!          for j in 0..n_j { y_row[j] = f(x_row[j]) }
//! ```

use std::collections::BTreeMap;

use super::Printer;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Guard, Stmt};

/// Iterations below which LLVM unrolls a loop anyway.
const LEAST_ITERATIONS: i64 = 4;

/// A loop without guards: loop-invariant ones stand around it, the others tighten its extent.
pub(super) struct TightenedLoop<'a> {
    pub(super) outer: Vec<Guard>,
    pub(super) extent: Poly,
    pub(super) body: &'a [Stmt],
}

/// Tightens a loop's bound by the guards of its body; `None` if a guard is neither invariant nor
/// linear with coefficient 1.
pub(super) fn tighten_bounds<'a>(
    var: VarId,
    extent: &Poly,
    body: &'a [Stmt],
) -> Option<TightenedLoop<'a>> {
    let [Stmt::If { guards, body }] = body else { return None };
    let mut tightened = TightenedLoop { outer: Vec::new(), extent: extent.clone(), body };
    for Guard { value, bound } in guards {
        if bound.mentions(var) {
            return None;
        }
        let (coefficient, rest) = value.split_linear(var)?;
        match coefficient.as_constant()? {
            0 => tightened.outer.push(Guard { value: value.clone(), bound: bound.clone() }),
            1 => {
                let room = bound.clone() - rest;
                tightened.extent = tightened.extent.lesser(&room, &Facts::default());
            }
            _ => return None,
        }
    }
    Some(tightened)
}

/// A loop's accesses to a tensor.
#[derive(Default)]
struct Accesses {
    written: bool,
    /// Number of accesses at unknown offsets, or not in every iteration.
    n_others: u32,
    /// Offsets of the accesses in every iteration.
    always: Vec<Poly>,
}

/// A slice of a buffer in front of a loop: its offset in the first iteration, and the offset that
/// it replaces.
pub(super) struct RowSlice {
    pub(super) tensor: TensorId,
    pub(super) first: Poly,
    pub(super) offset: Poly,
    pub(super) written: bool,
}

impl Printer<'_> {
    /// Finds the contiguous accesses of a loop; none unless it is innermost and long enough.
    pub(super) fn row_slices(&self, var: VarId, extent: &Poly, body: &[Stmt]) -> Vec<RowSlice> {
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
            accesses.always.push(self.nest.buffer(*tensor).position(index));
            self.reads(value, true, &mut tensors);
        }
        let mut row_slices = Vec::new();
        for (tensor, mut accesses) in tensors {
            accesses.always.sort();
            accesses.always.dedup();
            // A mutable slice must be the only reference to the buffer.
            if accesses.written && (accesses.n_others > 0 || accesses.always.len() > 1) {
                continue;
            }
            for offset in accesses.always {
                if let Some((step, first)) = offset.split_linear(var)
                    && step.as_constant() == Some(1)
                {
                    row_slices.push(RowSlice { tensor, first, offset, written: accesses.written });
                }
            }
        }
        row_slices
    }

    /// Collects the reads of an expression; `always` if it is evaluated in every iteration.
    fn reads(&self, expr: &Expr, always: bool, tensors: &mut BTreeMap<TensorId, Accesses>) {
        match expr {
            Expr::Read { tensor, index } => {
                let accesses = tensors.entry(*tensor).or_default();
                match affine(index) {
                    Some(index) if always => {
                        accesses.always.push(self.nest.buffer(*tensor).position(&index));
                    }
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
}
