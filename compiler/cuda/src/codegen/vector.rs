//! Vectorized loops: several elements in one access.
//!
//! ```text
//! vectorized v in 0..8:          for (v = 0; v < 8; v += 4) {
//!   y[i, v] = f(x[i, v])           Vec<f32, 4> x_v = load<Vec<f32, 4>>(&x[.. + v]);
//!                                  Vec<f32, 4> y_v;
//!                                  for (lane = 0; lane < 4; ++lane) y_v[lane] = f(x_v[lane]);
//!                                  store(&y[.. + v], y_v);
//!                                }
//! ```
//!
//! `vector_access` decides on those accesses; others stay element by element.

use super::vector_access::{Inner, Load, Vectors};
use super::{Printer, element_type};
use crate::grid::{MemoryScope, Stmt};
use tvmtune_ir::poly::{Atom, Poly, VarId};

impl Printer<'_> {
    /// Prints a vectorized loop around one statement by vectors; `false` if that gains nothing.
    pub(super) fn vectorized(&mut self, var: VarId, extent: &Poly, stmt: &Stmt) -> bool {
        let Some(inner) = Inner::read(self.grid, var, extent, stmt) else { return false };
        let Some(vectors) = inner.vectors() else { return false };
        let lanes = vectors.lanes;
        let chunk = self.names.enter(var, "v");
        if inner.extent > lanes {
            let extent = inner.extent;
            self.line("#pragma unroll");
            self.open(&format!("for (Index {chunk} = 0; {chunk} < {extent}; {chunk} += {lanes})"));
        } else {
            self.open("");
            self.line(&format!("const Index {chunk} = 0;"));
        }
        if !inner.guards.is_empty() {
            let condition = self.condition(inner.guards);
            self.open(&format!("if ({condition})"));
        }
        self.chunk(&inner, &vectors);
        if !inner.guards.is_empty() {
            self.close();
        }
        self.close();
        self.names.leave(var);
        true
    }

    /// One vector's worth of a statement.
    fn chunk(&mut self, inner: &Inner<'_>, vectors: &Vectors) {
        let Inner { var, tensor, index, value, reducer, .. } = *inner;
        let Vectors { lanes, stores, ref loads } = *vectors;
        if self.in_cp_async && self.cp_async_vector(inner, vectors) {
            return;
        }
        let lane = self.names.enter_text("lane");
        let mut names = Vec::new();
        for load in loads {
            let name = self.names.enter_text(&format!("{}_v", self.names.buffer(load.tensor)));
            self.load(load, lanes, &name);
            let place = format!("{name}[{lane}]");
            self.loaded.insert((load.tensor, load.position.clone()), place);
            names.push(name);
        }
        let result = self.names.enter_text(&format!("{}_v", self.names.buffer(tensor)));
        let address = stores.then(|| {
            let element = element_type(self.grid.buffer(tensor).dtype);
            self.line(&format!("Vec<{element}, {lanes}> {result};"));
            self.poly(&self.grid.buffer(tensor).position(index)).text
        });
        self.line("#pragma unroll");
        self.open(&format!("for (int {lane} = 0; {lane} < {lanes}; ++{lane})"));
        let outside = self.names.leaf(&Atom::Var(var));
        self.names.replace(var, format!("({outside} + {lane})"));
        match (&address, reducer) {
            (_, Some(reducer)) => self.update(tensor, index, reducer, value),
            (Some(_), None) => {
                let text = self.expr(value).text;
                self.line(&format!("{result}[{lane}] = {text};"));
            }
            (None, None) => {
                let (place, text) = (self.element(tensor, index), self.expr(value).text);
                self.line(&format!("{place} = {text};"));
            }
        }
        self.names.replace(var, outside);
        self.close();
        if let Some(address) = address {
            let place = self.place(tensor, &address);
            self.line(&format!("store(&{place}, {result});"));
        }
        for load in loads {
            self.loaded.remove(&(load.tensor, load.position.clone()));
        }
        names.extend([lane, result]);
        names.iter().for_each(|it| self.names.leave_text(it));
    }

    fn load(&mut self, load: &Load, lanes: i64, name: &str) {
        let buffer = self.grid.buffer(load.tensor);
        let vector = format!("Vec<{}, {lanes}>", element_type(buffer.dtype));
        let address = format!("&{}", self.place(load.tensor, &self.poly(&load.position).text));
        let constant = buffer.scope == MemoryScope::Argument && !self.is_written(load.tensor);
        let function = if constant { "load_constant" } else { "load" };
        if load.conditions.is_empty() {
            self.line(&format!("const {vector} {name} = {function}<{vector}>({address});"));
        } else {
            let condition = self.condition(&load.conditions);
            self.line(&format!("{vector} {name}{{}};"));
            self.line(&format!("if ({condition}) {name} = {function}<{vector}>({address});"));
        }
    }
}
