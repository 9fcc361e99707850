//! Loop nests: the imperative program that a schedule lowers to.
//!
//! ```text
//! dsl -> dag -> schedule -> [nest] -> cpu or cuda -> compile -> measure -> ...
//! ```
//!
//! In: a [`Schedule`](crate::Schedule). Out: a [`Nest`] of loops, guards and stores that knows no
//! device. Next: the crates `tvmtune-cpu` and `tvmtune-cuda` place it on one.
//!
//! # Invariants
//!
//! - Every access is in bounds whenever it is executed: guards stand innermost, around the
//!   statements that need them, and are omitted where the facts prove them.
//! - Iterations of a parallel loop, and lanes of a vectorized spatial one, write different
//!   elements; elements they share, they only read. [`crate::interp`] checks both.
//! - Variables are unique in the nest.

pub mod bounds;
mod constant_dims;
pub mod index;
mod lower;
mod online;
mod print;
mod tighten;
pub mod verify;
mod walk;
#[cfg(test)]
pub(crate) mod tests;

use crate::{Layout, LoopKind, Threads};
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, DType, Dim, Expr, Reducer, Scalar, ScalarId, TensorId, Types,
};
use tvmtune_ir::poly::{Poly, VarId};

pub use constant_dims::fold_constant_dims;
pub use lower::lower;
pub use verify::verify;
pub use walk::StmtAccess;

/// Loops, guards and stores. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// The program's name, for people.
    pub name: String,
    /// The dynamic dimensions, those of the dag.
    pub dims: Vec<Dim>,
    /// The run-time scalars, those of the dag.
    pub scalars: Vec<Scalar>,
    /// The buffers of the schedule's tensors, by the same ids, then those of lowering.
    pub buffers: Vec<Buffer>,
    /// The parameters, in order of declaration.
    pub params: Vec<TensorId>,
    /// The results, in order.
    pub outputs: Vec<TensorId>,
    /// Variables are `VarId(0..n_vars)`.
    pub n_vars: u32,
    /// The threads that may run it.
    pub threads: Threads,
    /// Statements that run one after the other. A top-level loop that is parallel is a phase of
    /// its own; a barrier separates top-level statements.
    pub body: Vec<Stmt>,
}

/// The memory scope of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Memory that the caller gave.
    Argument,
    /// Memory that lives through one launch and that all tasks see.
    Workspace,
    /// Memory (or registers) of one task; contents do not outlive it.
    Local,
    /// None: the stage was inlined.
    Unused,
}

/// The memory of one tensor, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// For people; unique in the nest and a Rust identifier.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// Extents as stored, outermost first: after the layout, and of the region only where the
    /// scope is local.
    pub shape: Vec<Poly>,
    /// The memory scope.
    pub scope: Scope,
    /// The layout into which a weight is packed before launch; `None` if it is row-major.
    pub layout: Option<Layout>,
}

/// `value < bound`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Never negative.
    pub value: Poly,
    /// The exclusive upper bound.
    pub bound: Poly,
}

impl Guard {
    /// Returns a condition on indices as a conjunction of guards; `None` if it is anything else.
    /// Values of such guards may be negative.
    pub fn all_of(condition: &Expr) -> Option<Vec<Self>> {
        match condition {
            Expr::Binary(BinaryOp::And, a, b) => {
                let mut guards = Self::all_of(a)?;
                guards.extend(Self::all_of(b)?);
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
                Some(vec![Self { value, bound }])
            }
            _ => None,
        }
    }
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `for var in 0..extent { body }`
    For {
        /// The loop's variable.
        var: VarId,
        /// Its name, for people; not unique.
        name: String,
        /// Number of iterations; may depend on dimensions and on variables further out. May be 0
        /// or less, for no iterations.
        extent: Poly,
        /// The way in which the iterations run.
        kind: LoopKind,
        /// The statements of an iteration.
        body: Vec<Stmt>,
    },
    /// `if all guards hold { body }`
    If {
        /// At least one.
        guards: Vec<Guard>,
        /// The statements that run where they hold.
        body: Vec<Stmt>,
    },
    /// `tensor[index] = value`
    Store {
        /// The buffer written.
        tensor: TensorId,
        /// The index, in the buffer as stored.
        index: Vec<Poly>,
        /// The value, of the buffer's type.
        value: Expr,
    },
    /// `tensor[index] = reducer(value, tensor[index])`
    Update {
        /// The buffer read and written.
        tensor: TensorId,
        /// The index, in the buffer as stored.
        index: Vec<Poly>,
        /// The reduction of old and new.
        reducer: Reducer,
        /// The value, of the buffer's type.
        value: Expr,
    },
}

impl Nest {
    /// The buffer of that tensor.
    pub fn buffer(&self, tensor: TensorId) -> &Buffer {
        &self.buffers[tensor.0 as usize]
    }
}

impl Types for Nest {
    fn tensor(&self, tensor: TensorId) -> DType {
        self.buffers[tensor.0 as usize].dtype
    }

    fn scalar(&self, scalar: ScalarId) -> DType {
        self.scalars[scalar.0 as usize].dtype
    }
}
