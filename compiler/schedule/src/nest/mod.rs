//! Step 4 of 12: the loops and indices of a schedule, written out.
//!
//! ```text
//! dsl -> dag -> schedule -> [nest] -> kernel -> codegen -> compile -> measure -> ...
//! ```
//!
//! In: a [`Schedule`](crate::Schedule). Out: a [`Nest`], an imperative program of loops,
//! guards and stores that knows no device. Next: [`tvmtune_cpu::kernel::lower`] places it on one, and
//! [`tvmtune_cpu::rust`] prints it as portable Rust.
//!
//! # Invariants
//!
//! - Every access is in bounds whenever it is executed: guards stand innermost, around the
//!   statements that need them, and are left out where the facts prove them.
//! - Iterations of a parallel loop, and lanes of a vectorized spatial one, write different
//!   elements; what they share, they only read. [`crate::interp`] watches both.
//! - Variables are unique in the nest.

pub mod bounds;
mod fix;
pub mod index;
mod lower;
mod print;
mod online;
mod tighten;
pub mod verify;
#[cfg(test)]
pub(crate) mod tests;

use crate::{Layout, LoopKind, Threads};
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, DType, Dim, Expr, Reducer, Scalar, ScalarId, TensorId, Types,
};
use tvmtune_ir::poly::{Poly, VarId};

pub use fix::fix;
pub use lower::lower;
pub use verify::verify;

/// Loops, guards and stores. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// The program's name, for people.
    pub name: String,
    /// The dynamic dimensions, those of the dag.
    pub dims: Vec<Dim>,
    /// The run-time scalars, those of the dag.
    pub scalars: Vec<Scalar>,
    /// Where each tensor of the schedule lies, by the same ids.
    pub buffers: Vec<Buffer>,
    /// The parameters, in order of declaration.
    pub params: Vec<TensorId>,
    /// The results, in order.
    pub outputs: Vec<TensorId>,
    /// Variables are `VarId(0..n_vars)`.
    pub n_vars: u32,
    /// How many threads may run it.
    pub threads: Threads,
    /// Statements that run one after the other. A top-level loop that is parallel is a phase of
    /// its own; a barrier separates top-level statements.
    pub body: Vec<Stmt>,
}

/// Where a tensor lies and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In memory the caller gave.
    Argument,
    /// In memory that lives through one launch and that all tasks see.
    Workspace,
    /// In memory (or registers) of one task; contents do not outlive it.
    Local,
    /// Nowhere: the stage was inlined.
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
    /// Where it lies.
    pub scope: Scope,
    /// How a weight is rearranged before the kernel sees it; `None` if it is row-major.
    pub layout: Option<Layout>,
}

/// `value < bound`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Never negative.
    pub value: Poly,
    /// What it must stay below.
    pub bound: Poly,
}

impl Guard {
    /// A condition on indices as guards all of which must hold, if it is such a one. Of
    /// conditions, values may be negative.
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
                // The variable counts up on the left.
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
        /// How the iterations run.
        kind: LoopKind,
        /// What each does.
        body: Vec<Stmt>,
    },
    /// `if all guards hold { body }`
    If {
        /// At least one.
        guards: Vec<Guard>,
        /// What happens where they hold.
        body: Vec<Stmt>,
    },
    /// `tensor[index] = value`
    Store {
        /// The buffer written.
        tensor: TensorId,
        /// Where, in the buffer as stored.
        index: Vec<Poly>,
        /// Of the buffer's type.
        value: Expr,
    },
    /// `tensor[index] = reducer(value, tensor[index])`
    Update {
        /// The buffer read and written.
        tensor: TensorId,
        /// Where, in the buffer as stored.
        index: Vec<Poly>,
        /// How old and new combine.
        reducer: Reducer,
        /// Of the buffer's type.
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
