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
//! An access becomes one of a vector if its elements lie side by side, start at a multiple of the
//! vector's length, and are all guarded alike. Others stay element by element.

use super::expr::affine_one;
use super::{ALIGNMENT, Printer, element_type};
use crate::dag::{BinaryOp, CompareOp, Expr, Literal, Reducer, Subscript, TensorId};
use crate::grid::{Home, Stmt};
use crate::nest::Guard;
use crate::poly::{Atom, Poly, VarId};

/// The statement of a vectorized loop.
struct Inner<'a> {
    var: VarId,
    extent: i64,
    guards: &'a [Guard],
    tensor: TensorId,
    index: &'a [Poly],
    value: &'a Expr,
    /// How old and new combine; `None` for a store.
    reducer: Option<Reducer>,
}

impl<'a> Inner<'a> {
    /// Reads a loop; `None` if its length is unknown, or there is more than one statement in it.
    fn read(var: VarId, extent: &Poly, stmt: &'a Stmt) -> Option<Self> {
        let (guards, inner) = match stmt {
            Stmt::If { guards, body } if body.len() == 1 => (guards.as_slice(), &body[0]),
            other => (&[] as &[Guard], other),
        };
        let (tensor, index, value, reducer) = match inner {
            Stmt::Store { tensor, index, value } => (*tensor, index, value, None),
            Stmt::Update { tensor, index, reducer, value } => {
                (*tensor, index, value, Some(*reducer))
            }
            _ => return None,
        };
        Some(Self { var, extent: extent.as_constant()?, guards, tensor, index, value, reducer })
    }
}

/// A read that becomes one of a vector.
struct Load {
    tensor: TensorId,
    /// The position of its lane 0, with the loop's variable in it.
    position: Poly,
    /// When it happens.
    conditions: Vec<Guard>,
}

impl Printer<'_> {
    /// Prints a vectorized loop around one statement by vectors; `false` if that gains nothing.
    pub(super) fn vectorized(&mut self, var: VarId, extent: &Poly, stmt: &Stmt) -> bool {
        let Some(inner) = Inner::read(var, extent, stmt) else { return false };
        let Some(lanes) = self.lanes(&inner) else { return false };
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
        self.chunk(&inner, lanes);
        if !inner.guards.is_empty() {
            self.close();
        }
        self.close();
        self.names.leave(var);
        true
    }

    /// One vector's worth of a statement.
    fn chunk(&mut self, inner: &Inner<'_>, lanes: i64) {
        let Inner { var, tensor, index, value, reducer, .. } = *inner;
        if self.asynchronous && self.copies_vector_async(inner, lanes) {
            return;
        }
        let lane = self.names.enter_text("lane");
        let loads = self.loads_of(inner, lanes);
        let mut names = Vec::new();
        for load in &loads {
            let name = self.names.enter_text(&format!("{}_v", self.names.buffer(load.tensor)));
            self.load(load, lanes, &name);
            let place = format!("{name}[{lane}]");
            self.loaded.insert((load.tensor, load.position.clone()), place);
            names.push(name);
        }
        let result = self.names.enter_text(&format!("{}_v", self.names.buffer(tensor)));
        let address = self.stores_vector(inner, lanes).then(|| {
            let element = element_type(self.grid.buffer(tensor).dtype);
            self.line(&format!("Vec<{element}, {lanes}> {result};"));
            self.poly(&self.position(tensor, index)).text
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
            let buffer = self.names.buffer(tensor);
            self.line(&format!("store(&{buffer}[{address}], {result});"));
        }
        for load in loads {
            self.loaded.remove(&(load.tensor, load.position));
        }
        names.extend([lane, result]);
        names.iter().for_each(|it| self.names.leave_text(it));
    }

    /// Prints a copy of one vector to shared memory that runs on by itself, if it is one.
    fn copies_vector_async(&mut self, inner: &Inner<'_>, lanes: i64) -> bool {
        let loads = self.loads_of(inner, lanes);
        let [load] = loads.as_slice() else { return false };
        let is_copy = copied(inner.value).is_some_and(|(tensor, _)| tensor == load.tensor);
        if !is_copy || !self.stores_vector(inner, lanes) {
            return false;
        }
        let to = self.poly(&self.position(inner.tensor, inner.index)).text;
        let from = self.poly(&load.position).text;
        self.copy_async((inner.tensor, &to), (load.tensor, &from), lanes, &load.conditions)
    }

    /// The same for one element.
    pub(super) fn copies_async(&mut self, tensor: TensorId, index: &[Poly], value: &Expr) -> bool {
        let Some((from, subscripts)) = copied(value) else { return false };
        let conditions = match value {
            Expr::Select { condition, .. } => guards_of(condition),
            _ => Some(Vec::new()),
        };
        let affine: Option<Vec<Poly>> = subscripts.iter().map(affine_one).collect();
        let (Some(conditions), Some(affine)) = (conditions, affine) else { return false };
        let to = self.poly(&self.position(tensor, index)).text;
        let at = self.poly(&self.position(from, &affine)).text;
        self.copy_async((tensor, &to), (from, &at), 1, &conditions)
    }

    fn copy_async(
        &mut self,
        (to, to_offset): (TensorId, &str),
        (from, from_offset): (TensorId, &str),
        lanes: i64,
        conditions: &[Guard],
    ) -> bool {
        let (target, source) = (self.grid.buffer(to), self.grid.buffer(from));
        let bytes = target.dtype.bytes() * lanes as u64;
        let is_global = matches!(source.home, Home::Argument | Home::Workspace);
        let is_shared = matches!(target.home, Home::Shared(_));
        if ![4, 8, 16].contains(&bytes) || !is_global || !is_shared {
            return false;
        }
        let valid = match conditions {
            [] => String::new(),
            some => format!(", {}", self.condition(some)),
        };
        let (to, from) = (self.names.buffer(to), self.names.buffer(from));
        let line =
            format!("copy_async<{bytes}>(&{to}[{to_offset}], &{from}[{from_offset}]{valid});");
        self.line(&line);
        true
    }

    fn load(&mut self, load: &Load, lanes: i64, name: &str) {
        let buffer = self.grid.buffer(load.tensor);
        let vector = format!("Vec<{}, {lanes}>", element_type(buffer.dtype));
        let address =
            format!("&{}[{}]", self.names.buffer(load.tensor), self.poly(&load.position).text);
        let constant = buffer.home == Home::Argument && !self.is_written(load.tensor);
        let function = if constant { "load_constant" } else { "load" };
        if load.conditions.is_empty() {
            self.line(&format!("const {vector} {name} = {function}<{vector}>({address});"));
        } else {
            let condition = self.condition(&load.conditions);
            self.line(&format!("{vector} {name}{{}};"));
            self.line(&format!("if ({condition}) {name} = {function}<{vector}>({address});"));
        }
    }

    /// How many elements one access should have: what divides the loop and suits every access that
    /// can be a vector; `None` if that is one.
    fn lanes(&self, inner: &Inner<'_>) -> Option<i64> {
        [16, 8, 4, 2].into_iter().find(|lanes| {
            let divides = inner.extent % lanes == 0;
            let uniform = |it: &Guard| is_uniform(it, inner.var, *lanes);
            divides
                && inner.guards.iter().all(uniform)
                && (self.stores_vector(inner, *lanes) || !self.loads_of(inner, *lanes).is_empty())
        })
    }

    fn stores_vector(&self, inner: &Inner<'_>, lanes: i64) -> bool {
        let position = self.position(inner.tensor, inner.index);
        inner.reducer.is_none() && self.is_vector(inner.tensor, &position, inner.var, lanes)
    }

    fn loads_of(&self, inner: &Inner<'_>, lanes: i64) -> Vec<Load> {
        let mut found = Vec::new();
        self.loads(inner.value, inner.var, lanes, &mut Vec::new(), &mut found);
        found
    }

    /// Whether elements from there on, along the variable, can be accessed as one vector.
    fn is_vector(&self, tensor: TensorId, position: &Poly, var: VarId, lanes: i64) -> bool {
        let buffer = self.grid.buffer(tensor);
        let bytes = buffer.dtype.bytes() * lanes as u64;
        if buffer.home == Home::Registers || bytes > ALIGNMENT {
            return false;
        }
        position.split_linear(var).is_some_and(|(step, first)| {
            step.as_constant() == Some(1) && is_multiple(&first, lanes)
        })
    }

    /// Collects the reads that become vectors.
    fn loads(
        &self,
        value: &Expr,
        var: VarId,
        lanes: i64,
        conditions: &mut Vec<Guard>,
        found: &mut Vec<Load>,
    ) {
        match value {
            Expr::Read { tensor, index } => {
                let affine: Option<Vec<Poly>> = index.iter().map(affine_one).collect();
                let position = affine.map(|it| self.position(*tensor, &it));
                let Some(position) = position else { return };
                let known = |it: &Load| it.tensor == *tensor && it.position == position;
                if self.is_vector(*tensor, &position, var, lanes) && !found.iter().any(known) {
                    found.push(Load { tensor: *tensor, position, conditions: conditions.clone() });
                }
            }
            Expr::Select { condition, then, .. } => {
                let n_conditions = conditions.len();
                let Some(guards) = guards_of(condition) else { return };
                if !guards.iter().all(|it| is_uniform(it, var, lanes)) {
                    return;
                }
                conditions.extend(guards);
                self.loads(then, var, lanes, conditions, found);
                conditions.truncate(n_conditions);
            }
            Expr::Binary(BinaryOp::And | BinaryOp::Or, ..) => {}
            other => {
                for child in other.children() {
                    self.loads(child, var, lanes, conditions, found);
                }
            }
        }
    }
}

/// What a value copies as it is, or where a condition does not hold, zero.
fn copied(value: &Expr) -> Option<(TensorId, &[Subscript])> {
    match value {
        Expr::Read { tensor, index } => Some((*tensor, index)),
        Expr::Select { then, otherwise, .. } => match (&**then, &**otherwise) {
            (Expr::Read { tensor, index }, Expr::Const(Literal::Float(zero), _))
                if *zero == 0.0 && zero.is_sign_positive() =>
            {
                Some((*tensor, index))
            }
            (Expr::Read { tensor, index }, Expr::Const(Literal::Int(0), _)) => {
                Some((*tensor, index))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A condition on indices as guards.
fn guards_of(condition: &Expr) -> Option<Vec<Guard>> {
    match condition {
        Expr::Binary(BinaryOp::And, a, b) => {
            let mut guards = guards_of(a)?;
            guards.extend(guards_of(b)?);
            Some(guards)
        }
        Expr::Compare(op, a, b) => {
            let (Expr::Index(a), Expr::Index(b)) = (&**a, &**b) else { return None };
            let (value, bound) = match op {
                CompareOp::Lt => (a.clone(), b.clone()),
                CompareOp::Gt => (b.clone(), a.clone()),
                CompareOp::Le => (a.clone(), b.clone() + Poly::constant(1)),
                CompareOp::Ge => (b.clone(), a.clone() + Poly::constant(1)),
                CompareOp::Eq | CompareOp::Ne => return None,
            };
            // The variable counts up on the left.
            Some(vec![Guard { value, bound }])
        }
        _ => None,
    }
}

/// Whether a guard holds for all lanes of a vector or for none.
fn is_uniform(guard: &Guard, var: VarId, lanes: i64) -> bool {
    if guard.bound.mentions(var) {
        return false;
    }
    guard.value.split_linear(var).is_some_and(|(step, first)| match step.as_constant() {
        Some(0) => true,
        Some(1) => is_multiple(&first, lanes) && is_multiple(&guard.bound, lanes),
        _ => false,
    })
}

/// Whether every value is a multiple.
fn is_multiple(poly: &Poly, of: i64) -> bool {
    poly.terms().all(|(_, coefficient)| coefficient % of == 0)
}
