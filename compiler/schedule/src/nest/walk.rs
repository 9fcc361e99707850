//! Walkers over statements: queries and rewrites that need no case for each kind of statement.

use super::{Guard, Nest, Stmt};
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::Poly;

/// One access of a statement to a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StmtAccess<'a> {
    /// A store, or the write of an update.
    Write {
        /// The buffer.
        tensor: TensorId,
        /// The index, in the buffer as stored.
        index: &'a [Poly],
    },
    /// A read in the value of a statement; that of an update's own element is not listed.
    Read {
        /// The buffer.
        tensor: TensorId,
        /// The index, in the buffer as stored.
        index: &'a [Subscript],
    },
}

impl StmtAccess<'_> {
    /// The buffer that is accessed.
    pub fn tensor(&self) -> TensorId {
        match self {
            StmtAccess::Write { tensor, .. } | StmtAccess::Read { tensor, .. } => *tensor,
        }
    }
}

impl Nest {
    /// Calls `visit` for each statement, outer ones first, in order.
    pub fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        self.body.iter().for_each(|it| it.for_each(visit));
    }
}

impl Stmt {
    /// The statements directly inside a loop or a condition; none for others.
    pub fn body(&self) -> &[Stmt] {
        match self {
            Stmt::For { body, .. } | Stmt::If { body, .. } => body,
            Stmt::Store { .. } | Stmt::Update { .. } => &[],
        }
    }

    /// The statements directly inside a loop or a condition; `None` for others.
    pub fn body_mut(&mut self) -> Option<&mut Vec<Stmt>> {
        match self {
            Stmt::For { body, .. } | Stmt::If { body, .. } => Some(body),
            Stmt::Store { .. } | Stmt::Update { .. } => None,
        }
    }

    /// The buffer that a store or an update writes.
    pub fn written(&self) -> Option<TensorId> {
        match self {
            Stmt::Store { tensor, .. } | Stmt::Update { tensor, .. } => Some(*tensor),
            Stmt::For { .. } | Stmt::If { .. } => None,
        }
    }

    /// The value of a store or an update.
    pub fn value(&self) -> Option<&Expr> {
        match self {
            Stmt::Store { value, .. } | Stmt::Update { value, .. } => Some(value),
            Stmt::For { .. } | Stmt::If { .. } => None,
        }
    }

    /// Calls `visit` for this statement and all inside it, outer ones first, in order.
    pub fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        visit(self);
        self.body().iter().for_each(|it| it.for_each(visit));
    }

    /// Calls `visit` for this statement and all inside it, outer ones first, in order.
    pub fn for_each_mut(&mut self, visit: &mut dyn FnMut(&mut Stmt)) {
        visit(self);
        for stmt in self.body_mut().into_iter().flatten() {
            stmt.for_each_mut(visit);
        }
    }

    /// Returns whether `holds` for this statement or one inside it.
    pub fn any(&self, holds: &mut dyn FnMut(&Stmt) -> bool) -> bool {
        holds(self) || self.body().iter().any(|it| it.any(holds))
    }

    /// Calls `visit` for each access to a buffer in this statement and all inside it: of each
    /// store or update the write, then the reads of its value.
    pub fn for_each_access<'a>(&'a self, visit: &mut dyn FnMut(StmtAccess<'a>)) {
        self.for_each(&mut |stmt| {
            if let Stmt::Store { tensor, index, value }
            | Stmt::Update { tensor, index, value, .. } = stmt
            {
                visit(StmtAccess::Write { tensor: *tensor, index });
                value.for_each_read(&mut |tensor, index| visit(StmtAccess::Read { tensor, index }));
            }
        });
    }

    /// Replaces every polynomial: extents, guards, indices, and those in values.
    pub fn map_polys(&mut self, replace: &mut dyn FnMut(&Poly) -> Poly) {
        self.for_each_mut(&mut |stmt| match stmt {
            Stmt::For { extent, .. } => *extent = replace(extent),
            Stmt::If { guards, .. } => {
                for Guard { value, bound } in guards {
                    (*value, *bound) = (replace(value), replace(bound));
                }
            }
            Stmt::Store { index, value, .. } | Stmt::Update { index, value, .. } => {
                index.iter_mut().for_each(|it| *it = replace(it));
                *value = value.map_polys(replace);
            }
        });
    }
}
