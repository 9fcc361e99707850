//! Walks over statements, and the accesses in them.

use std::collections::BTreeSet;
use std::convert::Infallible;

use super::stmt::{Stmt, ThreadLoop};
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::nest::Guard;

/// The loops over threads that statements may hold: [`ThreadLoop`]s, or none.
pub trait ThreadLoops: Sized {
    /// The statements of an iteration.
    fn body(&self) -> &[Stmt<Self>];
    /// The same, to be changed.
    fn body_mut(&mut self) -> &mut Vec<Stmt<Self>>;
}

impl ThreadLoops for Infallible {
    fn body(&self) -> &[Stmt] {
        match *self {}
    }

    fn body_mut(&mut self) -> &mut Vec<Stmt> {
        match *self {}
    }
}

impl ThreadLoops for ThreadLoop {
    fn body(&self) -> &[Stmt<Self>] {
        &self.body
    }

    fn body_mut(&mut self) -> &mut Vec<Stmt<Self>> {
        &mut self.body
    }
}

/// An access of a store or an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access<'a> {
    /// Of an element that a value reads.
    Read(TensorId, &'a [Subscript]),
    /// Of the element that a store or update writes.
    Write(TensorId, &'a [Poly]),
}

impl Access<'_> {
    /// The buffer.
    pub fn tensor(self) -> TensorId {
        match self {
            Access::Read(tensor, _) | Access::Write(tensor, _) => tensor,
        }
    }
}

impl<L: ThreadLoops> Stmt<L> {
    /// The statements inside.
    pub fn body(&self) -> &[Self] {
        match self {
            Stmt::For { body, .. }
            | Stmt::If { body, .. }
            | Stmt::WgmmaGroup { body }
            | Stmt::CpAsync { body } => body,
            Stmt::Thread(it) => it.body(),
            _ => &[],
        }
    }

    pub(super) fn body_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Stmt::For { body, .. }
            | Stmt::If { body, .. }
            | Stmt::WgmmaGroup { body }
            | Stmt::CpAsync { body } => Some(body),
            Stmt::Thread(it) => Some(it.body_mut()),
            _ => None,
        }
    }

    /// Calls `visit` with this statement and all inside it, outermost first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        visit(self);
        self.body().iter().for_each(|it| it.walk(visit));
    }

    /// Returns whether `holds` of this statement or of one inside it.
    pub fn any(&self, holds: &dyn Fn(&Self) -> bool) -> bool {
        holds(self) || any(self.body(), holds)
    }

    /// Calls `change` with this statement and all inside it, outermost first.
    pub(super) fn for_each_mut(&mut self, change: &mut dyn FnMut(&mut Self)) {
        change(self);
        if let Some(body) = self.body_mut() {
            body.iter_mut().for_each(|it| it.for_each_mut(change));
        }
    }

    /// Calls `visit` with the accesses of all stores and updates: a statement's write, then its
    /// reads. The read of an update's own element is none of them.
    pub fn accesses<'a>(&'a self, visit: &mut dyn FnMut(Access<'a>)) {
        self.walk(&mut |it| it.own_accesses(visit));
    }

    /// The same for this statement alone.
    pub fn own_accesses<'a>(&'a self, visit: &mut dyn FnMut(Access<'a>)) {
        if let Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } =
            self
        {
            visit(Access::Write(*tensor, index));
            reads(value, &mut |tensor, index| visit(Access::Read(tensor, index)));
        }
    }

    /// With every polynomial of loops, conditions and accesses changed.
    pub(super) fn map_polys(mut self, change: &dyn Fn(&Poly) -> Poly) -> Self {
        self.for_each_mut(&mut |it| match it {
            Stmt::For { extent, .. } => *extent = change(extent),
            Stmt::If { guards, .. } => {
                for Guard { value, bound } in guards {
                    (*value, *bound) = (change(value), change(bound));
                }
            }
            Stmt::Store { index, value, .. } | Stmt::Update { index, value, .. } => {
                *index = index.iter().map(change).collect();
                *value = value.map_polys(&mut |it| change(it));
            }
            Stmt::AllReduce { index, .. } => *index = index.iter().map(change).collect(),
            _ => {}
        });
        self
    }

    /// Returns whether threads wait in it, for one another or for copies.
    pub fn waits(&self) -> bool {
        self.any(&|it| {
            matches!(
                it,
                Stmt::Barrier { .. }
                    | Stmt::AllReduce { .. }
                    | Stmt::CpAsyncCommit
                    | Stmt::CpAsyncWait { .. }
                    | Stmt::WgmmaWait { .. }
                    | Stmt::ConsumerWait { .. }
                    | Stmt::ConsumerRelease { .. }
            )
        })
    }
}

/// Returns whether `holds` of one of some statements, or of one inside them.
pub fn any<L: ThreadLoops>(body: &[Stmt<L>], holds: &dyn Fn(&Stmt<L>) -> bool) -> bool {
    body.iter().any(|it| it.any(holds))
}

/// Calls `visit` with the accesses of all stores and updates.
pub fn accesses<'a, L: ThreadLoops>(body: &'a [Stmt<L>], visit: &mut dyn FnMut(Access<'a>)) {
    body.iter().for_each(|it| it.accesses(visit));
}

/// Calls `visit` with each read of a value.
pub fn reads<'a>(value: &'a Expr, visit: &mut dyn FnMut(TensorId, &'a [Subscript])) {
    value.walk(&mut |it| {
        if let Expr::Read { tensor, index } = it {
            visit(*tensor, index);
        }
    });
}

/// The buffers that stores and updates write.
pub fn written<L: ThreadLoops>(body: &[Stmt<L>]) -> BTreeSet<TensorId> {
    let mut found = BTreeSet::new();
    accesses(body, &mut |it| {
        if let Access::Write(tensor, _) = it {
            found.insert(tensor);
        }
    });
    found
}

/// The buffers that values read.
pub fn read<L: ThreadLoops>(body: &[Stmt<L>]) -> BTreeSet<TensorId> {
    let mut found = BTreeSet::new();
    accesses(body, &mut |it| {
        if let Access::Read(tensor, _) = it {
            found.insert(tensor);
        }
    });
    found
}

/// Counts the reads and writes of a buffer.
pub(super) fn n_accesses<L: ThreadLoops>(body: &[Stmt<L>], tensor: TensorId) -> usize {
    let mut n = 0;
    accesses(body, &mut |it| n += usize::from(it.tensor() == tensor));
    n
}
