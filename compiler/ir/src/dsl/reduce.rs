//! Reductions: each becomes a compute of its own, which the enclosing expression reads.
//!
//! Its bodies are expressions, which may hold reductions: `expr`, `call` and `reduce` are mutually
//! recursive, as the grammar is.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Expr as Syntax, RangeLimits, Token};

use super::derived_reductions::Reduced;
use super::elaborate::{Binding, Elaborator, Reduction, Var};
use super::errors::{Location, axis_names, count};
use super::scan::STATE_ELSEWHERE;
use super::signature::plain_ident;
use super::value::{Kind, Value, cast};
use crate::dag::bounds::PathFacts;
use crate::dag::limits::{MAX_AXES, MAX_COMPUTES, MAX_RANK, is_addressable, is_axis, is_index};
use crate::dag::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Expr, Reducer, Tensor, TensorId,
    TensorKind,
};
use crate::poly::{Atom, Facts, Poly, VarId};
use crate::span::Span;

#[derive(Clone, Copy, PartialEq)]
enum ReductionKind {
    Fold(Reducer),
    Mean,
    LogSumExp,
    /// The index of the maximum or minimum.
    Arg(Reducer),
}

/// The names of reductions.
pub(super) const NAMES: [&str; 12] = [
    "sum",
    "prod",
    "min",
    "max",
    "any",
    "all",
    "argmax",
    "argmin",
    "argtop",
    "mean",
    "logsumexp",
    "scan",
];

/// The axis of a reduction.
pub(super) struct Range {
    /// The least index for any values of the enclosing axes.
    pub(super) lo: Poly,
    /// The extent for any values of the enclosing axes.
    pub(super) extent: Poly,
    /// The ends that depend on an enclosing axis, as a mask.
    part: Part,
    /// The number of indices that are not masked.
    pub(super) count: Poly,
}

/// The ends of a range that depend on enclosing axes.
#[derive(Default)]
struct Part {
    /// The first index.
    first: Option<Poly>,
    /// The exclusive end.
    end: Option<Poly>,
}

/// The axes of a compute, by their ids in the program.
pub(super) struct Axes<'a> {
    pub(super) spatial: &'a [VarId],
    pub(super) reduce: &'a [VarId],
}

pub(super) struct ReductionBody {
    pub(super) axes: Vec<VarId>,
    /// The mask, if some values do not count.
    pub(super) mask: Option<Expr>,
    /// `None` after an error in it or in an axis.
    pub(super) value: Option<Value>,
}

impl Elaborator {
    /// `sum(0..K, |k| ..)`, or over several ranges `sum((0..K, 0..L), |k, l| ..)`.
    pub(super) fn reduction(
        &mut self,
        name: &str,
        args: &Punctuated<Syntax, Token![,]>,
        location: Location,
    ) -> Option<Value> {
        match name {
            "argtop" => return self.argtop(args, location),
            "scan" => return self.scan(args, location),
            _ => {}
        }
        let kind = reduction_kind(name);
        let (Some(ranges), Some(Syntax::Closure(closure)), 2) =
            (args.first(), args.last(), args.len())
        else {
            let message = format!("`{name}` takes a range and a closure: `{name}(0..K, |k| ..)`");
            return self.errors.at_location(location, message);
        };
        let ranges = match ranges {
            Syntax::Tuple(tuple) => tuple.elems.iter().map(|it| self.range(it)).collect(),
            other => vec![self.range(other)],
        };
        if ranges.len() > MAX_AXES {
            return self.errors.at(args, format!("`{name}` goes over at most {MAX_AXES} ranges"));
        }
        if closure.inputs.len() != ranges.len() {
            let given = count(closure.inputs.len(), "axis", "axes");
            let message = match ranges.len() {
                1 => format!("this closure takes {given}, but there is 1 range: write `|k| ..`"),
                n => format!(
                    "this closure takes {given}, but there are {n} ranges: write `|{}| ..`",
                    axis_names(n)
                ),
            };
            return self.errors.at(&closure.inputs, message);
        }
        let ReductionBody { axes, mask, value } = self.reduction_body(&ranges, closure);
        let ranges: Vec<Range> = ranges.into_iter().collect::<Option<_>>()?;
        let body = value?;
        let (body_expr, dtype) = match kind {
            ReductionKind::Fold(Reducer::Any | Reducer::All) => {
                (body.operand(DType::Bool, &mut self.errors)?, DType::Bool)
            }
            _ => match body.widened(&mut self.errors)? {
                (_, DType::Bool) => {
                    let message =
                        format!("`{name}` applies to numbers; `any` and `all` to conditions");
                    return self.errors.at_location(body.location, message);
                }
                number => number,
            },
        };
        let reduced = Reduced { ranges: &ranges, axes, mask, body: body_expr, dtype };
        let at = body.location;
        let (expr, dtype) = match kind {
            ReductionKind::Fold(reducer) => (self.fold(reducer, reduced), dtype),
            ReductionKind::Mean => (self.mean(reduced, at)?, dtype),
            ReductionKind::LogSumExp => (self.log_sum_exp(reduced, at)?, dtype),
            ReductionKind::Arg(reducer) => (self.arg(name, reducer, reduced, at)?, DType::I64),
        };
        Some(Value::new(Kind::Typed(expr, dtype), location))
    }

    pub(super) fn range(&mut self, syntax: &Syntax) -> Option<Range> {
        let range = match syntax {
            Syntax::Range(range) => range,
            Syntax::Paren(inner) => return self.range(&inner.expr),
            Syntax::Group(inner) => return self.range(&inner.expr),
            other => {
                let found = other.to_token_stream();
                let message = format!("expected a range, found `{found}`: write `0..{found}`");
                return self.errors.at(syntax, message);
            }
        };
        let (Some(start), Some(end)) = (&range.start, &range.end) else {
            return self.errors.at(syntax, "a range of a reduction has both ends, as in `0..K`");
        };
        let (lo, hi) = (self.range_end(start), self.range_end(end));
        let includes_end = matches!(range.limits, RangeLimits::Closed(_));
        let (first, end) = (lo?, hi? + i64::from(includes_end).into());
        let (Some(lo), Some(hi)) = (self.span(&first), self.span(&end)) else {
            let message = "it is not known how far this range reaches: go over a whole dimension \
                           and choose with `if`";
            return self.errors.at(syntax, message);
        };
        let (mut lo, mut extent) = (lo.first.clone(), hi.last() - lo.first);
        let facts = &self.known.facts;
        if first.has_vars() || end.has_vars() {
            // With one index more if none of them may count, as in `0..i` where there is one `i`.
            let more = i64::from(!extent.is_positive(facts));
            lo = lo - i64::from(first.has_vars() && more > 0).into();
            extent += more.into();
        }
        if !extent.is_positive(facts) {
            return self
                .errors
                .at(syntax, "this range may be empty: write one that is not, as in `0..K`");
        }
        if !is_axis(&extent, facts) || !is_index(&(lo.clone() + extent.clone()), facts) {
            return self.errors.at(syntax, "a range has at most 2^46 indices, all below 2^53");
        }
        let count = end.clone() - first.clone();
        if (-count.clone()).is_nonnegative(facts) {
            return self.errors.at(syntax, "this range is always empty");
        }
        let dependent = |it: Poly| it.has_vars().then_some(it);
        let part = Part { first: dependent(first), end: dependent(end) };
        Some(Range { lo, extent, part, count })
    }

    fn range_end(&mut self, syntax: &Syntax) -> Option<Poly> {
        let value = self.expr(syntax)?;
        let Some(poly) = value.as_index() else {
            let message =
                "the end of a range is made of integers, dimensions and axes: write `0..K`";
            return self.errors.at(syntax, message);
        };
        Some(poly)
    }

    /// Returns the values of an index over all values of the enclosing axes.
    fn span(&self, index: &Poly) -> Option<Span> {
        let axis = |it: VarId| Some(Span::whole(self.vars.get(it.0 as usize)?.extent.clone()));
        Span::of(index, &axis, &self.known.facts)
    }

    /// Elaborates the closure's body with its axes in scope.
    pub(super) fn reduction_body(
        &mut self,
        ranges: &[Option<Range>],
        closure: &syn::ExprClosure,
    ) -> ReductionBody {
        // The reduction is computed for every point, so no branch condition holds.
        let known = self.known.clone();
        self.known = known.without_conditions();
        let depth = self.around.len();
        let (axes, mask, body) = self.scoped(|this| {
            let (mut axes, mut mask) = (Vec::new(), None);
            for (range, pat) in ranges.iter().zip(&closure.inputs) {
                let axis = this.closure_axis(pat, range.as_ref().map(|it| (&it.lo, &it.extent)));
                if let (Some(range), Some(axis)) = (range, axis) {
                    mask = and(mask, range.mask(axis));
                }
                axes.push(axis);
            }
            if let Some(mask) = &mask {
                this.known.assume(mask, true);
            }
            this.check_closure(closure);
            (axes, mask, this.expr(&closure.body))
        });
        self.around.truncate(depth);
        self.known.restore_conditions(known);
        let complete = axes.iter().all(Option::is_some);
        let axes = axes.into_iter().flatten().collect();
        let value = body.filter(|_| complete).and_then(|it| match &it.kind {
            Kind::Typed(expr, _) if self.symbols.reads_state(expr) => {
                self.errors.at_location(it.location, STATE_ELSEWHERE)
            }
            _ => Some(it),
        });
        ReductionBody { axes, mask, value }
    }

    /// Binds a closure's parameter to an axis; where its extent is unknown, its name is poisoned.
    pub(super) fn closure_axis(
        &mut self,
        pat: &syn::Pat,
        range: Option<(&Poly, &Poly)>,
    ) -> Option<VarId> {
        let ident = match pat {
            syn::Pat::Wild(_) => None,
            other => match plain_ident(other) {
                Some(it) => Some(it),
                None => return self.errors.at(pat, "an axis has a plain name, as in `|i, j|`"),
            },
        };
        match (range, ident) {
            (Some((lo, extent)), _) => Some(self.enter_axis(ident, lo.clone(), extent.clone())),
            (None, Some(ident)) => {
                self.bind(ident.to_string(), Binding::Poisoned);
                None
            }
            (None, None) => None,
        }
    }

    /// Reports syntax that a closure of axes cannot have.
    pub(super) fn check_closure(&mut self, closure: &syn::ExprClosure) {
        if closure.capture.is_some() || closure.asyncness.is_some() || closure.constness.is_some() {
            let message = "nothing stands before the axes, as in `|i, j|`";
            self.errors.at::<()>(closure, message);
        }
        if let syn::ReturnType::Type(_, ty) = &closure.output {
            self.errors.at::<()>(ty, "a closure of axes states no type: convert with `as`");
        }
    }

    /// Reads a reduction; sums and products accumulate in the type of option `accum`.
    pub(super) fn accumulate(
        &mut self,
        reducer: Reducer,
        axes: Vec<VarId>,
        body: Expr,
        dtype: DType,
    ) -> Expr {
        let sums = matches!(reducer, Reducer::Sum | Reducer::Prod);
        match self.options.accum {
            Some(DType::F64) if sums && dtype == DType::F32 => {
                // A sum of sums stays in the wider type.
                let body = match body {
                    Expr::Cast(DType::F32, inner) if self.is_reduction(&inner, reducer) => *inner,
                    other => cast(DType::F64, DType::F32, other),
                };
                cast(DType::F32, DType::F64, self.reduce(reducer, axes, body, DType::F64))
            }
            _ => self.reduce(reducer, axes, body, dtype),
        }
    }

    fn is_reduction(&self, expr: &Expr, reducer: Reducer) -> bool {
        let Expr::Read { tensor, .. } = expr else { return false };
        let tensor_kind = self.symbols.tensors.get(tensor.0 as usize).map(|it| it.kind);
        let Some(TensorKind::Computed(id)) = tensor_kind else { return false };
        self.reductions.contains_key(tensor)
            && self.computes[id.0 as usize].reducer == Some(reducer)
    }

    /// Gives a reduction a tensor of its own over the axes around it that it uses, and reads it.
    pub(super) fn reduce(
        &mut self,
        reducer: Reducer,
        mut axes: Vec<VarId>,
        mut body: Expr,
        dtype: DType,
    ) -> Expr {
        // A sum whose body is a sum is one sum.
        if self.is_reduction(&body, reducer)
            && let Expr::Read { tensor, .. } = &body
            && let Some(inner) = self.reductions.get(tensor)
        {
            axes.extend(&inner.axes);
            body = inner.body.clone();
        }
        let spatial = self.enclosing_axes_of([&body]);
        let op = format!("{reducer:?}").to_lowercase();
        let name = format!("{}_{op}", self.current);
        let all_axes = Axes { spatial: &spatial, reduce: &axes };
        let tensor = self.define(name, all_axes, Some(reducer), &body, dtype);
        self.reductions.insert(tensor, Reduction { axes, body });
        Expr::read(tensor, spatial.into_iter().map(Poly::var))
    }

    /// The enclosing axes that occur in some of these expressions, outermost first.
    pub(super) fn enclosing_axes_of<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e Expr>,
    ) -> Vec<VarId> {
        let mut used = std::collections::BTreeSet::new();
        let mut visit = |poly: &Poly| {
            poly.for_each_leaf(&mut |atom| {
                if let Atom::Var(var) = atom {
                    used.insert(*var);
                }
            });
        };
        exprs.into_iter().for_each(|it| it.for_each_poly(&mut visit));
        self.around.iter().copied().filter(|it| used.contains(it)).collect()
    }

    /// Returns axes of a compute, the facts about them, and its body, whose variables are their numbers.
    fn renumbered(&self, all: &[VarId], body: &Expr) -> (Vec<ComputeAxis>, Facts, Expr) {
        let axis = |it: &VarId| {
            let Var { name, extent } = &self.vars[it.0 as usize];
            ComputeAxis { name: name.clone(), extent: extent.clone() }
        };
        let axes: Vec<ComputeAxis> = all.iter().map(axis).collect();
        let mut facts = self.known.facts.clone();
        (0..).map(VarId).zip(&axes).for_each(|(var, it)| facts.bound_var(var, it.extent.clone()));
        let position = |var: VarId| all.iter().position(|it| *it == var);
        let body =
            body.substitute_vars(&|var| position(var).map(|n| Poly::var(VarId(n as u32))), &facts);
        (axes, facts, body)
    }

    /// Returns whether what a value reads is in bounds for each of the enclosing axes and these, whatever
    /// condition it stands under.
    pub(super) fn is_always_in_bounds(&self, axes: &[VarId], value: &Expr) -> bool {
        let all = [self.enclosing_axes_of([value]), axes.to_vec()].concat();
        let (_, facts, value) = self.renumbered(&all, value);
        let shape = |it: TensorId| self.symbols.tensors[it.0 as usize].shape.clone();
        PathFacts::new(facts).reads_in_bounds(&value, &shape, &self.symbols)
    }

    /// Adds a compute over these axes, which it renumbers.
    pub(super) fn define(
        &mut self,
        name: String,
        axes: Axes<'_>,
        reducer: Option<Reducer>,
        body: &Expr,
        dtype: DType,
    ) -> TensorId {
        let Axes { spatial, reduce } = axes;
        let (axes, facts, body) = self.renumbered(&[spatial, reduce].concat(), body);
        self.check_size(&axes, spatial.len(), dtype);
        let tensor = TensorId(self.symbols.tensors.len() as u32);
        let shape = axes[..spatial.len()].iter().map(|it| it.extent.clone()).collect();
        let tensor_kind = TensorKind::Computed(ComputeId(self.computes.len() as u32));
        self.symbols.tensors.push(Tensor { name, dtype, shape, kind: tensor_kind });
        self.check_reads(&body, facts);
        self.computes.push(Compute { tensor, axes, n_spatial: spatial.len(), reducer, body });
        tensor
    }

    /// Reports reads that were proven in bounds under a condition which does not hold for each element that
    /// is computed, once for each definition of the program.
    fn check_reads(&mut self, body: &Expr, facts: Facts) {
        let shape = |it: TensorId| self.symbols.tensors[it.0 as usize].shape.clone();
        // Reads that were not in bounds at all have been reported.
        if self.errors.mark() > 0
            || PathFacts::new(facts).reads_in_bounds(body, &shape, &self.symbols)
        {
            return;
        }
        let message = "a reduction or `scan` is computed for every point, also where the condition around \
                       it does not hold, and what this one reads was in bounds under that condition \
                       alone: read it with `.get(..).unwrap_or(..)`";
        if let Some(place) = self.place.take() {
            self.errors.at_location::<()>(place, message);
        }
    }

    /// Reports a compute beyond the limits, once for each definition of the program.
    fn check_size(&mut self, axes: &[ComputeAxis], n_spatial: usize, dtype: DType) {
        let shape: Vec<Poly> = axes[..n_spatial].iter().map(|it| it.extent.clone()).collect();
        let message = if !is_addressable(&shape, dtype, &self.dim_facts) {
            "a tensor here could have more than 2^46 bytes: give dimensions smaller ranges in \
             `dims(..)`, or compute it with fewer axes"
                .to_owned()
        } else if axes.len() > MAX_AXES {
            format!(
                "at most {MAX_AXES} axes belong together, those of nested sums included: sum in two \
                 steps, the first into a tensor of its own"
            )
        } else if n_spatial > MAX_RANK {
            format!("a sum here depends on more than {MAX_RANK} axes: make one of several")
        } else if self.computes.len() == MAX_COMPUTES {
            format!(
                "a function has at most {MAX_COMPUTES} definitions, each reduction being one: \
                 write several functions"
            )
        } else {
            return;
        };
        if let Some(place) = self.place.take() {
            self.errors.at_location::<()>(place, message);
        }
    }
}

impl Range {
    /// Returns whether the first index depends on an enclosing axis.
    pub(super) fn starts_at_axis(&self) -> bool {
        self.part.first.is_some()
    }

    /// The exclusive end.
    pub(super) fn end(&self) -> Poly {
        self.part.end.clone().unwrap_or_else(|| self.lo.clone() + self.extent.clone())
    }

    /// Returns whether an end depends on an enclosing axis.
    pub(super) fn mentions(&self, axis: VarId) -> bool {
        [&self.part.first, &self.part.end].into_iter().flatten().any(|it| it.mentions(axis))
    }

    /// Returns the mask of the index at an axis, if some indices do not count.
    pub(super) fn mask(&self, axis: VarId) -> Option<Expr> {
        let index = Expr::Index(self.lo.clone() + Poly::var(axis));
        let compared = |op: CompareOp, end: &Option<Poly>| {
            Some(index.clone().compare(op, Expr::Index(end.clone()?)))
        };
        and(compared(CompareOp::Ge, &self.part.first), compared(CompareOp::Lt, &self.part.end))
    }
}

/// Returns the conjunction of the conditions.
pub(super) fn and(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.binary(BinaryOp::And, b)),
        (a, b) => a.or(b),
    }
}

fn reduction_kind(name: &str) -> ReductionKind {
    match name {
        "sum" => ReductionKind::Fold(Reducer::Sum),
        "prod" => ReductionKind::Fold(Reducer::Prod),
        "min" => ReductionKind::Fold(Reducer::Min),
        "max" => ReductionKind::Fold(Reducer::Max),
        "any" => ReductionKind::Fold(Reducer::Any),
        "all" => ReductionKind::Fold(Reducer::All),
        "mean" => ReductionKind::Mean,
        "logsumexp" => ReductionKind::LogSumExp,
        "argmax" => ReductionKind::Arg(Reducer::Max),
        "argmin" => ReductionKind::Arg(Reducer::Min),
        _ => unreachable!("the caller looked the name up"),
    }
}

/// Returns whether the arguments of `max` or `min` are those of a reduction.
pub(super) fn is_reduction_call(args: &Punctuated<Syntax, Token![,]>) -> bool {
    fn ranges(it: &Syntax) -> bool {
        match it {
            Syntax::Range(_) => true,
            Syntax::Paren(inner) => ranges(&inner.expr),
            Syntax::Tuple(tuple) => tuple.elems.iter().any(ranges),
            _ => false,
        }
    }
    args.first().is_some_and(ranges) || args.iter().any(|it| matches!(it, Syntax::Closure(_)))
}
