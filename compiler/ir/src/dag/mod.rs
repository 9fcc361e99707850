//! Programs as dags: tensors, and the computes that define them.
//!
//! ```text
//! dsl -> [dag] -> schedule -> nest -> cpu or cuda -> compile -> measure -> ...
//! ```
//!
//! In: a program of the language, or its canonical text. Out: a [`Dag`], in which every compute is
//! either an expression of its axes or one reduction of such an expression. Next: its canonical text is
//! the workload's identity ([`crate::workload`]), and `tvmtune-schedule` decides how it runs.
//!
//! This file holds the data, which every file of the module uses; it uses none but their types. The
//! other files use one another in the order in which they are declared.
//!
//! # Invariants
//!
//! - Computes are in topological order; each defines one tensor, and reads tensors before it, or its own
//!   along one axis in order ([`Compute::recurrent_axis`]).
//! - A compute with a reducer has a body without further reductions: nested ones of the program are
//!   flattened, or computes of their own.
//! - Reads are in bounds wherever they are evaluated ([`verify`] proves it).
//! - Types are explicit: both sides of an operation have one type, conversions are `Cast`s, and
//!   arithmetic on `f16` and `bf16` has been widened to `f32`.
//! - Extents, offsets and indices are within the [`limits`], so that arithmetic on them is exact.
//! - Nothing reads a parameter that a result replaces once it may have been replaced ([`in_place`]).
//! - A condition on indices compares two [`Expr::Index`]; one that always or never holds is folded.

pub mod dims;
pub mod dtype;
pub mod expr;
pub mod limits;
pub mod number;
mod choices;
pub mod condition;
pub mod kernel_template;
pub mod bounds;
pub mod bounded;
pub mod chosen;
mod fold;
pub(crate) mod simplify;
pub mod access;
pub mod order;
pub mod anchor;
pub mod prefix;
pub mod recurrence;
pub mod in_place;
pub mod signature;
mod verify;
pub mod print;
pub mod parse;

use crate::poly::{Facts, Interval, Poly, VarId};

pub use dtype::DType;
pub use expr::{BinaryOp, CompareOp, Expr, Literal, ScalarId, Subscript, Types, UnaryOp};
pub use kernel_template::{KernelTemplate, RustFunction};
pub use number::Number;
pub use order::{Numerics, Order, WrittenOrder};
pub use parse::ParseDagError;
pub use verify::{Finding, verify};

/// A tensor of a [`Dag`], by position in [`Dag::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

/// A compute of a [`Dag`], by position in [`Dag::computes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeId(pub u32);

/// The tensors of a program and the computes that define them.
#[derive(Clone, Debug, PartialEq)]
pub struct Dag {
    /// The program's name: for people, not part of its identity.
    pub name: String,
    /// Dimensions whose extent is known at launch only. Fixed ones are constants everywhere.
    pub dims: Vec<Dim>,
    /// Run-time scalars, in order of declaration.
    pub scalars: Vec<Scalar>,
    /// Parameters in order of declaration, then the tensors that computes define, in their order.
    pub tensors: Vec<Tensor>,
    /// In topological order.
    pub computes: Vec<Compute>,
    /// The results of the program, in order: those of [`TensorKind::InOut`] parameters come first.
    pub outputs: Vec<TensorId>,
    /// The results that schedules may give.
    pub numerics: Numerics,
    /// The rule for the orders of reductions, where its author wrote one: numerics are fixed then.
    pub written_order: Option<WrittenOrder>,
    /// The order of each compute's reduction, where numerics are fixed; else empty. They follow from the
    /// whole program, and stay when ranges are narrowed.
    pub orders: Vec<Order>,
    /// Hand-written kernels that compute it on GPUs, if its author brought some.
    pub kernel_template: Option<KernelTemplate>,
}

/// A dimension whose extent is known at launch only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// As the program spells it; not part of the identity.
    pub name: String,
    /// The extents for which kernels must be right; never empty, `lo >= 1`.
    pub range: Interval,
    /// Its lower bound at each launch, where that depends on other dimensions: see [`dims`].
    pub lower_end: Option<Poly>,
}

/// A run-time scalar parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// As the program spells it; not part of the identity.
    pub name: String,
    /// Its type.
    pub dtype: DType,
}

/// The origin of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// A parameter; new at every launch, row-major.
    Input,
    /// A parameter that stays the same over many launches: a schedule may choose its layout.
    Weight,
    /// A parameter whose memory receives a result: see [`in_place`].
    InOut,
    /// The result of a compute.
    Computed(ComputeId),
}

/// A dense array, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// As the program spells it, or generated; not part of the identity.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// Extents, outermost first; polynomials in the dimensions. Empty for a single element.
    pub shape: Vec<Poly>,
    /// The origin.
    pub kind: TensorKind,
}

/// The operation of a reduction. Each is associative and commutative up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reducer {
    /// Sum; starts at 0.
    Sum,
    /// Product; starts at 1.
    Prod,
    /// Largest; starts at the least value of the type.
    Max,
    /// Smallest; starts at the greatest value of the type.
    Min,
    /// Disjunction of `Bool`; starts at false.
    Any,
    /// Conjunction of `Bool`; starts at true.
    All,
}

/// One loop of a compute's definition. Its variable in the body is `VarId(position)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeAxis {
    /// As the program spells it, or generated; not part of the identity.
    pub name: String,
    /// Number of iterations, at least 1; a polynomial in the dimensions.
    pub extent: Poly,
}

/// One tensor's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// The tensor it defines: its shape is the extents of the spatial axes.
    pub tensor: TensorId,
    /// Spatial axes, one for each dimension of the tensor, in order; then reduce axes.
    pub axes: Vec<ComputeAxis>,
    /// Number of spatial axes, which come first.
    pub n_spatial: usize,
    /// The reduction over the reduce axes; `None` exactly if there are none.
    pub reducer: Option<Reducer>,
    /// The element, or the value to reduce; of the tensor's type.
    ///
    /// A reduction accumulates in the tensor's type, so a half-precision sum is an `F32` compute
    /// followed by one that rounds.
    pub body: Expr,
}

impl Dag {
    /// The tensor of that id.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// The compute of that id.
    pub fn compute(&self, id: ComputeId) -> &Compute {
        &self.computes[id.0 as usize]
    }

    /// Ids of the computes, in topological order.
    pub fn compute_ids(&self) -> impl DoubleEndedIterator<Item = ComputeId> + use<> {
        (0..self.computes.len() as u32).map(ComputeId)
    }

    /// Ids of the parameters, in order of declaration.
    pub fn params(&self) -> impl Iterator<Item = TensorId> {
        let is_param = |it: &&Tensor| !matches!(it.kind, TensorKind::Computed(_));
        (0..self.tensors.iter().take_while(is_param).count() as u32).map(TensorId)
    }

    /// The compute that defines a tensor; `None` for a parameter.
    pub fn producer(&self, tensor: TensorId) -> Option<ComputeId> {
        match self.tensor(tensor).kind {
            TensorKind::Computed(compute) => Some(compute),
            TensorKind::Input | TensorKind::Weight | TensorKind::InOut => None,
        }
    }

    /// The computes that read a tensor, in order; not the one that defines it.
    pub fn consumers(&self, tensor: TensorId) -> Vec<ComputeId> {
        let reads = |it: &Compute| it.tensor != tensor && it.reads(tensor);
        self.compute_ids().filter(|it| reads(self.compute(*it))).collect()
    }

    /// The function that defines the results, if the computes do not.
    pub fn reference(&self) -> Option<&RustFunction> {
        self.kernel_template.as_ref()?.reference.as_ref()
    }

    /// Returns the declared ranges of the dimensions, and their lower ends.
    pub fn facts(&self) -> Facts {
        dims::facts(&self.dims)
    }
}

impl Types for Dag {
    fn tensor(&self, tensor: TensorId) -> DType {
        self.tensors[tensor.0 as usize].dtype
    }

    fn scalar(&self, scalar: ScalarId) -> DType {
        self.scalars[scalar.0 as usize].dtype
    }
}

impl Compute {
    /// Returns whether the body reads `tensor`.
    pub fn reads(&self, tensor: TensorId) -> bool {
        self.body.reads(tensor)
    }

    /// The variables of the spatial axes, in order.
    pub fn spatial_vars(&self) -> impl Iterator<Item = VarId> + use<> {
        (0..self.n_spatial as u32).map(VarId)
    }

    /// The variables of the reduce axes, in order.
    pub fn reduce_vars(&self) -> impl Iterator<Item = VarId> + use<> {
        (self.n_spatial as u32..self.axes.len() as u32).map(VarId)
    }
}

impl Reducer {
    /// The neutral element.
    pub fn identity(self, dtype: DType) -> Literal {
        match (self, dtype) {
            (Reducer::Any, _) => Literal::Bool(false),
            (Reducer::All, _) => Literal::Bool(true),
            (Reducer::Sum, it) if it.is_float() => Literal::Float(0.0),
            (Reducer::Prod, it) if it.is_float() => Literal::Float(1.0),
            (Reducer::Max, it) if it.is_float() => Literal::Float(f64::NEG_INFINITY),
            (Reducer::Min, it) if it.is_float() => Literal::Float(f64::INFINITY),
            (Reducer::Sum, _) => Literal::Int(0),
            (Reducer::Prod, _) => Literal::Int(1),
            (Reducer::Max, it) => Literal::Int(integer_range(it).lo),
            (Reducer::Min, it) => Literal::Int(integer_range(it).hi),
        }
    }

    /// The operation on two values.
    pub fn op(self) -> BinaryOp {
        match self {
            Reducer::Sum => BinaryOp::Add,
            Reducer::Prod => BinaryOp::Mul,
            Reducer::Max => BinaryOp::Max,
            Reducer::Min => BinaryOp::Min,
            Reducer::Any => BinaryOp::Or,
            Reducer::All => BinaryOp::And,
        }
    }
}

/// The values of an integer type; 0 and 1 for the others.
pub fn integer_range(dtype: DType) -> Interval {
    match dtype {
        DType::I8 => Interval { lo: i8::MIN.into(), hi: i8::MAX.into() },
        DType::U8 => Interval { lo: 0, hi: u8::MAX.into() },
        DType::I32 => Interval { lo: i32::MIN.into(), hi: i32::MAX.into() },
        DType::U32 => Interval { lo: 0, hi: u32::MAX.into() },
        DType::I64 => Interval { lo: i64::MIN, hi: i64::MAX },
        DType::F32 | DType::F16 | DType::Bf16 | DType::F64 | DType::Bool => {
            Interval { lo: 0, hi: 1 }
        }
    }
}
