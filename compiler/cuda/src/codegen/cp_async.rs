//! Copies to shared memory by `cp.async`.

use super::Printer;
use super::vector_access::{Inner, Vectors};
use crate::grid::{PredicatedLoad, predicated_load};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::nest::Guard;

/// An element of a buffer, at a printed offset.
struct Place<'t> {
    tensor: TensorId,
    offset: &'t str,
}

impl Printer<'_> {
    /// Prints a copy of one vector to shared memory that runs on by itself, if it is one.
    pub(super) fn cp_async_vector(&mut self, inner: &Inner<'_>, vectors: &Vectors) -> bool {
        let [load] = vectors.loads.as_slice() else { return false };
        let is_copy = predicated_load(inner.value).is_some_and(|it| it.tensor == load.tensor);
        if !is_copy || !vectors.stores {
            return false;
        }
        let to = self.poly(&self.grid.buffer(inner.tensor).position(inner.index)).text;
        let from = self.poly(&load.position).text;
        let lanes = vectors.lanes;
        let to = Place { tensor: inner.tensor, offset: &to };
        let from = Place { tensor: load.tensor, offset: &from };
        self.cp_async(&to, &from, lanes, &load.conditions)
    }

    /// The same for one element.
    pub(super) fn cp_async_element(
        &mut self,
        tensor: TensorId,
        index: &[Poly],
        value: &Expr,
    ) -> bool {
        let Some(PredicatedLoad { tensor: from, index: subscripts, conditions }) =
            predicated_load(value)
        else {
            return false;
        };
        let guards: Option<Vec<Vec<Guard>>> = conditions.into_iter().map(Guard::all_of).collect();
        let (Some(guards), Some(index_from)) = (guards, affine(subscripts)) else { return false };
        let to = self.poly(&self.grid.buffer(tensor).position(index)).text;
        let at = self.poly(&self.grid.buffer(from).position(&index_from)).text;
        let to = Place { tensor, offset: &to };
        let from = Place { tensor: from, offset: &at };
        self.cp_async(&to, &from, 1, &guards.concat())
    }

    fn cp_async(
        &mut self,
        to: &Place<'_>,
        from: &Place<'_>,
        lanes: i64,
        conditions: &[Guard],
    ) -> bool {
        let (target, source) = (self.grid.buffer(to.tensor), self.grid.buffer(from.tensor));
        let bytes = target.dtype.bytes() * lanes as u64;
        let is_global = source.scope.is_global();
        if ![4, 8, 16].contains(&bytes) || !is_global || !target.scope.is_shared() {
            return false;
        }
        let valid = match conditions {
            [] => String::new(),
            some => format!(", {}", self.condition(some)),
        };
        let (to, from) = (self.place(to.tensor, to.offset), self.place(from.tensor, from.offset));
        let line = format!("copy_async<{bytes}>(&{to}, &{from}{valid});");
        self.line(&line);
        true
    }
}
