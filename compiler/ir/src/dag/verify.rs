//! The verifier of dags: every invariant of the module.

use std::collections::BTreeSet;
use std::fmt;

use super::bounds::PathFacts;
use super::{
    BinaryOp, Compute, ComputeId, DType, Dag, Expr, KernelTemplate, Literal, Reducer, Subscript,
    TensorId, TensorKind, UnaryOp, integer_range,
};
use super::{dims, in_place, limits};
use crate::poly::{Atom, Poly};

/// A broken invariant, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The compute in which it was found; `None` if it concerns the dag.
    pub compute: Option<ComputeId>,
    /// The violation.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.compute {
            Some(id) => write!(f, "compute {}: {}", id.0, self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Returns every broken invariant; none if the dag is well formed.
///
/// - Sizes, offsets and indices are within the [`limits`], at the largest extents as well.
/// - Dimensions have a range of positive extents, shapes and axes extents of at least 1.
/// - Parameters come first, then what computes define, each once, in their order.
/// - A compute's spatial axes are its tensor's shape; it has reduce axes exactly if it reduces.
/// - Reads are of earlier tensors, or of the element before along one axis, with one subscript a dimension,
///   in bounds where evaluated.
/// - Operands have one type, and one that the operation knows; halves are only stored.
/// - Results are computed, and each is returned once.
/// - The defaults of a kernel template's knobs make launches, whatever the extents.
pub fn verify(dag: &Dag) -> Vec<Finding> {
    let mut check = Check { dag, compute: None, findings: Vec::new() };
    check.dag();
    for id in dag.compute_ids() {
        check.compute = Some(id);
        check.compute(dag.compute(id));
    }
    check.findings
}

struct Check<'a> {
    dag: &'a Dag,
    compute: Option<ComputeId>,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn require(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.findings.push(Finding { compute: self.compute, message: message() });
        }
    }

    fn dag(&mut self) {
        let dag = self.dag;
        let facts = dag.facts();
        for dim in &dag.dims {
            let whole = dim.range.lo >= 1 && dim.range.lo <= dim.range.hi;
            self.require(whole, || format!("dimension `{}` has no valid range", dim.name));
        }
        if let Some(mistake) = dims::mistake(&dag.dims) {
            self.require(false, || mistake);
        }
        let template = dag.kernel_template.as_ref();
        let mistake = |it: &KernelTemplate| it.mistake(dag.dims.len(), dag.scalars.len(), &facts);
        if let Some(mistake) = template.and_then(mistake) {
            self.require(false, || mistake);
        }
        let few = dag.dims.len() <= limits::MAX_DIMS && dag.computes.len() <= limits::MAX_COMPUTES;
        self.require(few, || "more dimensions or computes than a program has".to_owned());
        let n_params = dag.params().count();
        self.require(dag.tensors.len() == n_params + dag.computes.len(), || {
            "tensors are not the parameters and the computes' results".to_owned()
        });
        for (n, tensor) in dag.tensors.iter().enumerate() {
            let whole = tensor.shape.iter().all(|it| it.is_positive(&facts) && !it.has_vars());
            self.require(whole, || format!("`{}` may have an extent below 1", tensor.name));
            let fits = limits::is_addressable(&tensor.shape, tensor.dtype, &facts);
            self.require(fits, || format!("`{}` may have more than 2^46 bytes", tensor.name));
            if let TensorKind::Computed(id) = tensor.kind {
                let found = dag.computes.get(id.0 as usize).map(|it| it.tensor.0 as usize);
                let in_order = id.0 as usize + n_params == n;
                self.require(found == Some(n) && in_order, || {
                    format!("`{}` and its compute do not agree", tensor.name)
                });
            }
        }
        let distinct: BTreeSet<TensorId> = dag.outputs.iter().copied().collect();
        self.require(distinct.len() == dag.outputs.len() && !distinct.is_empty(), || {
            "there is no result, or one is returned twice".to_owned()
        });
        for it in &dag.outputs {
            let computed = (it.0 as usize) < dag.tensors.len() && dag.producer(*it).is_some();
            self.require(computed, || format!("result t{} is not computed", it.0));
        }
        if let Err(why) = in_place::check(dag) {
            self.require(false, || why);
        }
    }

    fn compute(&mut self, compute: &Compute) {
        let dims = self.dag.facts();
        let n_reduce = compute.axes.len().saturating_sub(compute.n_spatial);
        self.require((n_reduce > 0) == compute.reducer.is_some(), || {
            "reduces with no axis to reduce, or has one and does not".to_owned()
        });
        let Some(tensor) = self.dag.tensors.get(compute.tensor.0 as usize) else {
            return self.require(false, || "defines no tensor".to_owned());
        };
        let extents: Vec<&Poly> = compute.axes.iter().map(|it| &it.extent).collect();
        let spatial = extents.iter().take(compute.n_spatial).copied();
        self.require(spatial.eq(tensor.shape.iter()), || {
            "spatial axes are not the tensor's shape".to_owned()
        });
        let whole = extents.iter().all(|it| it.is_positive(&dims) && !it.has_vars());
        self.require(whole, || "an axis may have an extent below 1".to_owned());
        let few = limits::has_axes(compute, &dims);
        self.require(few, || "there are too many axes, or one is too long".to_owned());
        let known = PathFacts::new(compute.facts(&dims));
        if let Some(index) = limits::index_beyond(&compute.body, &known.facts) {
            // Proofs about it might not be exact.
            return self
                .require(false, || format!("the index `{index}` may exceed 2^53, or is too long"));
        }
        let dtype = self.expr(&compute.body, &known);
        self.require(dtype.is_none_or(|it| it == tensor.dtype), || {
            format!("the body is not of the tensor's type, {}", tensor.dtype)
        });
        let fits = match compute.reducer {
            None => true,
            Some(Reducer::Any | Reducer::All) => tensor.dtype == DType::Bool,
            Some(_) => is_arithmetic(tensor.dtype),
        };
        self.require(fits, || format!("{:?} of {}", compute.reducer, tensor.dtype));
    }

    /// Checks an expression under a path condition; returns its type, if it has one.
    fn expr(&mut self, expr: &Expr, known: &PathFacts) -> Option<DType> {
        match expr {
            Expr::Const(literal, dtype) => {
                let fits = is_of(*literal, *dtype);
                self.require(fits, || format!("{literal:?} is not of type {dtype}"));
                Some(*dtype)
            }
            Expr::Index(poly) => {
                self.poly(poly);
                Some(DType::I64)
            }
            Expr::Scalar(id) => {
                let scalar = self.dag.scalars.get(id.0 as usize);
                self.require(scalar.is_some(), || format!("there is no scalar {}", id.0));
                scalar.map(|it| it.dtype)
            }
            Expr::Read { tensor, index } => self.read(*tensor, index, known),
            Expr::Unary(op, a) => {
                let dtype = self.expr(a, known)?;
                let fits = match op {
                    UnaryOp::Not => dtype == DType::Bool || dtype.is_integer(),
                    UnaryOp::Neg | UnaryOp::Abs => is_arithmetic(dtype),
                    UnaryOp::Tf32 => dtype == DType::F32,
                    _ => is_arithmetic(dtype) && dtype.is_float(),
                };
                self.require(fits, || format!("{op:?} of {dtype}"));
                Some(dtype)
            }
            Expr::Binary(op, a, b) => {
                let dtype = self.same(a, b, known)?;
                let fits = match op {
                    BinaryOp::And | BinaryOp::Or => dtype == DType::Bool,
                    op if op.is_bitwise() => dtype.is_integer(),
                    BinaryOp::Pow => is_arithmetic(dtype) && dtype.is_float(),
                    _ => is_arithmetic(dtype),
                };
                self.require(fits, || format!("{op:?} of {dtype}"));
                Some(dtype)
            }
            Expr::Compare(op, a, b) => {
                let dtype = self.same(a, b, known)?;
                let fits = dtype == DType::Bool || is_arithmetic(dtype);
                self.require(fits, || format!("{op:?} of {dtype}"));
                Some(DType::Bool)
            }
            Expr::Select { condition, then, otherwise } => {
                let test = self.expr(condition, known)?;
                self.require(test == DType::Bool, || format!("a condition of type {test}"));
                let branch = |holds: bool| {
                    let mut known = known.clone();
                    known.assume(condition, holds);
                    known
                };
                let then = self.expr(then, &branch(true));
                let otherwise = self.expr(otherwise, &branch(false));
                self.require(then == otherwise, || "branches of two types".to_owned());
                then
            }
            Expr::Cast(to, a) => {
                let from = self.expr(a, known)?;
                let half = |it: DType| it != it.compute();
                let direct = !half(*to) || from == DType::F32;
                let direct = direct && (!half(from) || *to == DType::F32);
                self.require(direct, || format!("{from} is cast to {to}, and not by way of f32"));
                Some(*to)
            }
        }
    }

    fn same(&mut self, a: &Expr, b: &Expr, known: &PathFacts) -> Option<DType> {
        let (a, b) = (self.expr(a, known), self.expr(b, known));
        let (a, b) = (a?, b?);
        self.require(a == b, || format!("operands of types {a} and {b}"));
        Some(a)
    }

    fn read(&mut self, id: TensorId, index: &[Subscript], known: &PathFacts) -> Option<DType> {
        let dag = self.dag;
        let is_before = |it: ComputeId| match Some(it) == self.compute {
            true => dag.compute(it).recurrent_axis().is_some(),
            false => Some(it) < self.compute,
        };
        if (id.0 as usize) >= dag.tensors.len() || !dag.producer(id).is_none_or(is_before) {
            self.require(false, || format!("reads t{}, which is not defined before", id.0));
            return None;
        }
        let tensor = dag.tensor(id);
        self.require(tensor.shape.len() == index.len(), || {
            format!("`{}` has rank {}, not {}", tensor.name, tensor.shape.len(), index.len())
        });
        let is_near = limits::is_offset(index, &tensor.shape, &known.facts);
        self.require(is_near, || format!("an offset into `{}` may exceed 2^53", tensor.name));
        for (n, (subscript, extent)) in index.iter().zip(&tensor.shape).enumerate() {
            match subscript {
                Subscript::Affine(poly) => self.poly(poly),
                Subscript::Value(value) => {
                    let dtype = self.expr(value, known);
                    let fits = matches!(dtype, None | Some(DType::I32 | DType::I64));
                    self.require(fits, || format!("a subscript of type {dtype:?}"));
                }
            }
            let inside = known.is_above(subscript, dag) && known.is_below(subscript, extent, dag);
            self.require(inside, || {
                format!("subscript {n} of `{}` may be out of bounds: {subscript:?}", tensor.name)
            });
        }
        Some(tensor.dtype)
    }

    /// Checks that every variable is an axis, and every dimension declared.
    fn poly(&mut self, poly: &Poly) {
        let n_axes = self.compute.map_or(0, |it| self.dag.compute(it).axes.len());
        let n_dims = self.dag.dims.len();
        poly.for_each_leaf(&mut |atom| {
            let known = match atom {
                Atom::Var(var) => (var.0 as usize) < n_axes,
                Atom::Dim(dim) => (dim.0 as usize) < n_dims,
                _ => true,
            };
            self.require(known, || format!("{atom:?} is unknown"));
        });
    }
}

fn is_of(literal: Literal, dtype: DType) -> bool {
    match literal {
        Literal::Float(_) => dtype.is_float(),
        Literal::Int(it) => dtype.is_integer() && integer_range(dtype).contains(it),
        Literal::Bool(_) => dtype == DType::Bool,
    }
}

fn is_arithmetic(dtype: DType) -> bool {
    dtype != DType::Bool && dtype == dtype.compute()
}
