//! Walkers over statements, of nests and of devices: queries and rewrites that need no case for each
//! kind of statement.

use std::collections::{BTreeMap, BTreeSet};

use super::{Guard, Nest, Scope, Stmt};
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

/// An access of a store or an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access<'a> {
    /// Of an element that a value reads; that of an update's own element is not listed.
    Read(TensorId, &'a [Subscript]),
    /// Of the element that a store or an update writes.
    Write(TensorId, &'a [Poly]),
}

impl Access<'_> {
    /// The buffer that is accessed.
    pub fn tensor(self) -> TensorId {
        match self {
            Access::Read(tensor, _) | Access::Write(tensor, _) => tensor,
        }
    }
}

/// A statement, which may hold others.
pub trait Statement: Sized {
    /// The statements directly inside.
    fn body(&self) -> &[Self];

    /// The same, to be changed; `None` of a statement that holds no others.
    fn body_mut(&mut self) -> Option<&mut Vec<Self>>;

    /// Of a store or an update: the buffer written, the index, and the value.
    fn write(&self) -> Option<(TensorId, &[Poly], &Expr)>;

    /// Calls `visit` for this statement and all inside it, outer ones first, in order.
    fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        visit(self);
        self.body().iter().for_each(|it| it.walk(visit));
    }

    /// Calls `change` for this statement and all inside it, outer ones first, in order.
    fn for_each_mut(&mut self, change: &mut dyn FnMut(&mut Self)) {
        change(self);
        self.body_mut().into_iter().flatten().for_each(|it| it.for_each_mut(change));
    }

    /// Returns whether `holds` for this statement or one inside it.
    fn any(&self, holds: &dyn Fn(&Self) -> bool) -> bool {
        holds(self) || any(self.body(), holds)
    }

    /// Calls `visit` for the accesses of this statement and of all inside it: of each store or
    /// update the write, then the reads of its value.
    fn accesses<'a>(&'a self, visit: &mut dyn FnMut(Access<'a>)) {
        self.walk(&mut |it| it.own_accesses(visit));
    }

    /// The same for this statement alone.
    fn own_accesses<'a>(&'a self, visit: &mut dyn FnMut(Access<'a>)) {
        if let Some((tensor, index, value)) = self.write() {
            visit(Access::Write(tensor, index));
            value.for_each_read(&mut |tensor, index| visit(Access::Read(tensor, index)));
        }
    }
}

/// Returns whether `holds` for one of some statements, or for one inside them.
pub fn any<T: Statement>(body: &[T], holds: &dyn Fn(&T) -> bool) -> bool {
    body.iter().any(|it| it.any(holds))
}

/// Calls `visit` for the accesses of all stores and updates.
pub fn accesses<'a, T: Statement>(body: &'a [T], visit: &mut dyn FnMut(Access<'a>)) {
    body.iter().for_each(|it| it.accesses(visit));
}

/// The buffers that stores and updates write.
pub fn written<T: Statement>(body: &[T]) -> BTreeSet<TensorId> {
    let mut found = BTreeSet::new();
    accesses(body, &mut |it| {
        if let Access::Write(tensor, _) = it {
            found.insert(tensor);
        }
    });
    found
}

/// The buffers that values read.
pub fn read<T: Statement>(body: &[T]) -> BTreeSet<TensorId> {
    let mut found = BTreeSet::new();
    accesses(body, &mut |it| {
        if let Access::Read(tensor, _) = it {
            found.insert(tensor);
        }
    });
    found
}

impl Statement for Stmt {
    fn body(&self) -> &[Self] {
        match self {
            Stmt::For { body, .. } | Stmt::If { body, .. } => body,
            Stmt::Store { .. } | Stmt::Update { .. } => &[],
        }
    }

    fn body_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Stmt::For { body, .. } | Stmt::If { body, .. } => Some(body),
            Stmt::Store { .. } | Stmt::Update { .. } => None,
        }
    }

    fn write(&self) -> Option<(TensorId, &[Poly], &Expr)> {
        match self {
            Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } => {
                Some((*tensor, index.as_slice(), value))
            }
            Stmt::For { .. } | Stmt::If { .. } => None,
        }
    }
}

impl Nest {
    /// Returns the loops around all accesses of each local buffer in some statements, outermost
    /// first.
    pub fn lifetimes(&self, body: &[Stmt]) -> BTreeMap<TensorId, Vec<VarId>> {
        let mut lifetimes = BTreeMap::new();
        self.collect_lifetimes(body, &mut Vec::new(), &mut lifetimes);
        lifetimes
    }

    fn collect_lifetimes(
        &self,
        body: &[Stmt],
        open: &mut Vec<VarId>,
        found: &mut BTreeMap<TensorId, Vec<VarId>>,
    ) {
        for stmt in body {
            stmt.own_accesses(&mut |it| {
                if self.buffer(it.tensor()).scope == Scope::Local {
                    let loops = found.entry(it.tensor()).or_insert_with(|| open.clone());
                    let n_common = loops.iter().zip(&*open).take_while(|(a, b)| a == b).count();
                    loops.truncate(n_common);
                }
            });
            let n_open = open.len();
            if let Stmt::For { var, .. } = stmt {
                open.push(*var);
            }
            self.collect_lifetimes(stmt.body(), open, found);
            open.truncate(n_open);
        }
    }
}

impl Guard {
    /// The same with its polynomials changed.
    pub fn map_polys(&self, change: impl Fn(&Poly) -> Poly) -> Self {
        Self { value: change(&self.value), bound: change(&self.bound) }
    }
}
