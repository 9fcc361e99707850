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
mod chosen;
mod constant_dims;
mod halves;
pub mod index;
mod lower;
mod online;
mod print;
mod recurrence;
mod tighten;
pub mod verify;
mod walk;
#[cfg(test)]
pub(crate) mod tests;

use crate::{Layout, LoopKind, Threads};
use tvmtune_ir::dag::kernel_template::SetLaunch;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, DType, Dim, Expr, KernelTemplate, Numerics, Reducer, Scalar, ScalarId,
    TensorId, Types, dims,
};
use tvmtune_ir::poly::{Facts, Poly, VarId};

pub use chosen::ChosenIteration;
pub use constant_dims::fold_constant_dims;
pub use lower::{lower, lower_for_lanes};
pub use verify::verify;
pub use walk::{Access, Statement, accesses, any, read, written};

/// Loops, guards and stores. See the [module documentation](self). Placed on a device, its buffers
/// have scopes `S` of that device, and its body consists of `T`.
#[derive(Clone, Debug, PartialEq)]
pub struct Nest<S = Scope, T = Stmt> {
    /// The program's name, for people.
    pub name: String,
    /// The dynamic dimensions, those of the dag.
    pub dims: Vec<Dim>,
    /// The run-time scalars, those of the dag.
    pub scalars: Vec<Scalar>,
    /// The buffers of the schedule's tensors, by the same ids, then those of lowering.
    pub buffers: Vec<Buffer<S>>,
    /// The parameters, in order of declaration; of one that a result replaces, the result, which has
    /// its elements at first.
    pub params: Vec<TensorId>,
    /// The results, in order.
    pub outputs: Vec<TensorId>,
    /// Variables are `VarId(0..n_vars)`.
    pub n_vars: u32,
    /// The threads that may run it.
    pub threads: Threads,
    /// The results that it may give.
    pub numerics: Numerics,
    /// Kernels that somebody wrote: where there are some, GPUs run these, and the statements are the
    /// definition of what they compute.
    pub hand_written: Option<HandWritten>,
    /// Statements that run one after the other. A top-level loop that is parallel is a phase of
    /// its own; a barrier separates top-level statements.
    pub body: Vec<T>,
}

/// Kernels of a template, with values of its knobs.
#[derive(Clone, Debug, PartialEq)]
pub struct HandWritten {
    /// The template.
    pub template: KernelTemplate,
    /// The value of each knob.
    pub values: Vec<u64>,
    /// The launch of each kernel.
    pub launches: Vec<SetLaunch>,
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
    /// None: the stage was inlined, or its memory is that of the result that replaces it.
    Unused,
}

/// The memory of one tensor, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer<S = Scope> {
    /// For people; unique in the nest and a Rust identifier.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// Extents as stored, outermost first: after the layout, and of the region only where the
    /// scope is local.
    pub shape: Vec<Poly>,
    /// The memory scope.
    pub scope: S,
    /// The layout into which a weight is packed before launch; `None` if it is row-major.
    pub layout: Option<Layout>,
    /// True of partial results whose terms behind the end are under guards: these leave out no elements.
    pub is_partial: bool,
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
    /// `for var in 0..extent { body }`; the name is for people, and not unique. The extent may depend
    /// on dimensions and on variables further out, and may be 0 or less, for no iterations.
    For { var: VarId, name: String, extent: Poly, kind: LoopKind, body: Vec<Stmt> },
    /// `if all guards hold { body }`, of at least one guard.
    If { guards: Vec<Guard>, body: Vec<Stmt> },
    /// `tensor[index] = value`: an index in the buffer as stored, and a value of its type.
    Store { tensor: TensorId, index: Vec<Poly>, value: Expr },
    /// `tensor[index] = reducer(value, tensor[index])`.
    Update { tensor: TensorId, index: Vec<Poly>, reducer: Reducer, value: Expr },
}

impl<S, T> Nest<S, T> {
    /// The buffer of that tensor.
    pub fn buffer(&self, tensor: TensorId) -> &Buffer<S> {
        &self.buffers[tensor.0 as usize]
    }

    /// The ranges of the dynamic dimensions, and their lower ends.
    pub fn facts(&self) -> Facts {
        dims::facts(&self.dims)
    }
}

impl<S, T> Types for Nest<S, T> {
    fn tensor(&self, tensor: TensorId) -> DType {
        self.buffer(tensor).dtype
    }

    fn scalar(&self, scalar: ScalarId) -> DType {
        self.scalars[scalar.0 as usize].dtype
    }
}

impl<S> Buffer<S> {
    /// Returns the row-major position of an element.
    pub fn position(&self, index: &[Poly]) -> Poly {
        flat(index, &self.shape)
    }
}

/// Returns the row-major position of an element in an array of that shape.
pub fn flat(index: &[Poly], shape: &[Poly]) -> Poly {
    let step =
        |position: Poly, (at, extent): (&Poly, &Poly)| position * extent.clone() + at.clone();
    index.iter().zip(shape).fold(Poly::default(), step)
}
