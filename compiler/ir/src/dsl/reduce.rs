//! Reductions: each becomes a compute of its own, which the expression around it reads.

use syn::punctuated::Punctuated;
use syn::{Expr as Syntax, RangeLimits, Token};

use super::elaborate::{Binding, Elaborator, Reduction, Var};
use super::errors::{Place, count};
use super::signature::plain_ident;
use super::value::{Kind, Value, cast};
use crate::dag::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Expr, Literal, Reducer, Subscript,
    Tensor, TensorId, TensorKind,
};
use crate::poly::{Atom, Poly, VarId};
use crate::span::Span;

/// What a reduction's name asks for.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Value(Reducer),
    Mean,
    /// Where the largest or smallest is.
    Place(Reducer),
}

/// The names of reductions.
pub(super) const NAMES: [&str; 9] =
    ["sum", "prod", "min", "max", "any", "all", "argmax", "argmin", "mean"];

/// The axis of a reduction.
struct Range {
    /// Where it starts, and how long it is: whatever the axes around are.
    lo: Poly,
    extent: Poly,
    /// Which part of it counts, where that depends on an axis around.
    part: Part,
    /// How much of it counts.
    count: Poly,
}

/// The ends of a range that depend on axes around.
#[derive(Default)]
struct Part {
    /// The first index.
    first: Option<Poly>,
    /// The one after the last.
    end: Option<Poly>,
}

/// What is reduced, as read.
struct ReductionBody {
    axes: Vec<VarId>,
    /// The condition under which a value counts, if not all do.
    counts: Option<Expr>,
    /// `None` if something was wrong with it or with an axis.
    value: Option<Value>,
}

impl Elaborator {
    /// `sum(0..K, |k| ..)`, or over several ranges `sum((0..K, 0..L), |k, l| ..)`.
    pub(super) fn reduction(
        &mut self,
        name: &str,
        args: &Punctuated<Syntax, Token![,]>,
        place: Place,
    ) -> Option<Value> {
        let wanted = wanted(name);
        let (Some(ranges), Some(Syntax::Closure(closure)), 2) =
            (args.first(), args.last(), args.len())
        else {
            let message = format!("`{name}` takes a range and a closure: `{name}(0..K, |k| ..)`");
            return self.errors.at_place(place, message);
        };
        let ranges = match ranges {
            Syntax::Tuple(tuple) => tuple.elems.iter().map(|it| self.range(it)).collect(),
            other => vec![self.range(other)],
        };
        if closure.inputs.len() != ranges.len() {
            let given = count(closure.inputs.len(), "axis", "axes");
            let message = match ranges.len() {
                1 => format!("this closure takes {given}, but there is 1 range"),
                n => format!("this closure takes {given}, but there are {n} ranges"),
            };
            return self.errors.at(&closure.inputs, message);
        }
        if matches!(wanted, Wanted::Place(_)) && ranges.len() != 1 {
            return self.errors.at(args, format!("`{name}` goes over one range"));
        }
        let ReductionBody { axes, counts, value } = self.reduction_body(&ranges, closure);
        let ranges: Vec<Range> = ranges.into_iter().collect::<Option<_>>()?;
        let body = value?;
        let (body_expr, dtype) = match wanted {
            Wanted::Value(Reducer::Any | Reducer::All) => {
                (body.operand(DType::Bool, &mut self.errors)?, DType::Bool)
            }
            _ => body.widened(&mut self.errors)?,
        };
        if dtype == DType::Bool && !matches!(wanted, Wanted::Value(Reducer::Any | Reducer::All)) {
            let message = format!("`{name}` applies to numbers; `any` and `all` to conditions");
            return self.errors.at_place(body.place, message);
        }
        let body_expr = match (counts, wanted) {
            (None, _) => body_expr,
            (Some(_), Wanted::Place(_)) => {
                let message = format!("a range of `{name}` cannot depend on an axis");
                return self.errors.at(args, message);
            }
            (Some(counts), Wanted::Value(reducer)) => only(counts, body_expr, reducer, dtype),
            (Some(counts), Wanted::Mean) => only(counts, body_expr, Reducer::Sum, dtype),
        };
        let (expr, dtype) = match wanted {
            Wanted::Value(reducer) => (self.accumulate(reducer, axes, body_expr, dtype), dtype),
            Wanted::Mean => (self.mean(&ranges, axes, body_expr, dtype, body.place)?, dtype),
            Wanted::Place(reducer) => {
                (self.place(reducer, &ranges[0], axes[0], body_expr, dtype), DType::I64)
            }
        };
        Some(Value::new(Kind::Typed(expr, dtype), place))
    }

    fn range(&mut self, syntax: &Syntax) -> Option<Range> {
        let range = match syntax {
            Syntax::Range(range) => range,
            Syntax::Paren(inner) => return self.range(&inner.expr),
            Syntax::Group(inner) => return self.range(&inner.expr),
            _ => return self.errors.at(syntax, "expected a range, as in `0..K`"),
        };
        let (Some(start), Some(end)) = (&range.start, &range.end) else {
            return self.errors.at(syntax, "a range of a reduction has both ends, as in `0..K`");
        };
        let (lo, hi) = (self.range_end(start), self.range_end(end));
        let (first, end) = (lo?, hi? + i64::from(closed(range)).into());
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
            return self.errors.at(syntax, "this range may be empty");
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
            let message = "the end of a range is made of integers, dimensions and axes";
            return self.errors.at(syntax, message);
        };
        Some(poly)
    }

    /// The values that an index may have, whatever the axes around are.
    fn span(&self, index: &Poly) -> Option<Span> {
        let axis = |it: VarId| Some(Span::whole(self.vars.get(it.0 as usize)?.extent.clone()));
        Span::of(index, &axis, &self.known.facts)
    }

    /// The closure's body, read with its axes in scope.
    fn reduction_body(
        &mut self,
        ranges: &[Option<Range>],
        closure: &syn::ExprClosure,
    ) -> ReductionBody {
        // The reduction is computed for every point, whatever branch it is read in.
        let known = self.known.clone();
        self.known = known.without_conditions();
        let depth = self.around.len();
        let (axes, counts, body) = self.scoped(|walk| {
            let (mut axes, mut counts) = (Vec::new(), None);
            for (range, pat) in ranges.iter().zip(&closure.inputs) {
                let axis = walk.closure_axis(pat, range.as_ref().map(|it| (&it.lo, &it.extent)));
                if let (Some(range), Some(axis)) = (range, axis) {
                    counts = and(counts, range.counts(axis));
                }
                axes.push(axis);
            }
            if let Some(counts) = &counts {
                walk.known.assume(counts, true);
            }
            walk.check_closure(closure);
            (axes, counts, walk.expr(&closure.body))
        });
        self.around.truncate(depth);
        self.known.restore_conditions(known);
        let complete = axes.iter().all(Option::is_some);
        let axes = axes.into_iter().flatten().collect();
        ReductionBody { axes, counts, value: body.filter(|_| complete) }
    }

    /// A closure's parameter as an axis; where its extent is unknown, its name is poisoned.
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

    /// Reports what a closure of axes cannot have.
    pub(super) fn check_closure(&mut self, closure: &syn::ExprClosure) {
        if closure.capture.is_some() || closure.asyncness.is_some() || closure.constness.is_some() {
            let message = "nothing stands before the axes, as in `|i, j|`";
            self.errors.at::<()>(closure, message);
        }
        if let syn::ReturnType::Type(_, ty) = &closure.output {
            self.errors.at::<()>(ty, "a closure of axes states no type: convert with `as`");
        }
    }

    /// The reduction as a read; sums and products accumulate in the type of option `accum`.
    fn accumulate(&mut self, reducer: Reducer, axes: Vec<VarId>, body: Expr, dtype: DType) -> Expr {
        let sums = matches!(reducer, Reducer::Sum | Reducer::Prod);
        match self.options.accum {
            Some(DType::F64) if sums && dtype == DType::F32 => {
                // A sum of sums stays wide.
                let body = match body {
                    Expr::Cast(DType::F32, inner) if self.is_reduction(&inner, reducer) => *inner,
                    other => cast(DType::F64, DType::F32, other),
                };
                cast(DType::F32, DType::F64, self.reduce(reducer, axes, body, DType::F64))
            }
            _ => self.reduce(reducer, axes, body, dtype),
        }
    }

    fn mean(
        &mut self,
        ranges: &[Range],
        axes: Vec<VarId>,
        body: Expr,
        dtype: DType,
        place: Place,
    ) -> Option<Expr> {
        if !dtype.is_float() {
            let message = format!("`mean` applies to floats, not {dtype}: convert with `as f32`");
            return self.errors.at_place(place, message);
        }
        let mut count = Poly::constant(1);
        for it in ranges {
            if !it.count.is_positive(&self.known.facts) {
                let message = "a range may be empty here, and the mean of nothing is no number";
                return self.errors.at_place(place, message);
            }
            count = self.index_binary(BinaryOp::Mul, &count, &it.count, place)?;
        }
        let count = match count.as_constant() {
            Some(it) => Expr::Const(Literal::Float(it as f64), dtype),
            None => cast(dtype, DType::I64, Expr::Index(count)),
        };
        Some(self.accumulate(Reducer::Sum, axes, body, dtype).binary(BinaryOp::Div, count))
    }

    /// The least index at which the body has its largest or smallest value, as `I64`.
    fn place(
        &mut self,
        reducer: Reducer,
        range: &Range,
        axis: VarId,
        body: Expr,
        dtype: DType,
    ) -> Expr {
        let body = self.materialized(axis, body, dtype);
        let best = self.reduce(reducer, vec![axis], body.clone(), dtype);
        let last = range.lo.clone() + range.extent.clone() - Poly::constant(1);
        // In 32 bits where they suffice: vectors of those are twice as fast.
        let narrow = last.interval(&self.known.facts).hi <= i64::from(i32::MAX);
        let of = if narrow { DType::I32 } else { DType::I64 };
        let index = |poly: Poly| Box::new(cast(of, DType::I64, Expr::Index(poly)));
        let place = Expr::Select {
            condition: Box::new(body.compare(CompareOp::Eq, best)),
            then: index(range.lo.clone() + Poly::var(axis)),
            // A valid index even where nothing is equal, since all are NaN.
            otherwise: index(last),
        };
        cast(DType::I64, of, self.reduce(Reducer::Min, vec![axis], place, of))
    }

    /// A body that will be read twice, as a tensor of its own unless it is a mere read.
    fn materialized(&mut self, axis: VarId, body: Expr, dtype: DType) -> Expr {
        let is_read = |it: &Expr| matches!(it, Expr::Read { .. });
        match &body {
            Expr::Cast(_, inner) if is_read(inner) => return body,
            it if is_read(it) => return body,
            _ => {}
        }
        let mut spatial = self.used_around(&body);
        spatial.push(axis);
        let name = format!("{}_values", self.current);
        let tensor = self.define(name, (&spatial, &[]), None, &body, dtype);
        Expr::read(tensor, spatial.into_iter().map(Poly::var))
    }

    fn is_reduction(&self, expr: &Expr, reducer: Reducer) -> bool {
        let Expr::Read { tensor, .. } = expr else { return false };
        let TensorKind::Computed(id) = self.symbols.tensors[tensor.0 as usize].kind else {
            return false;
        };
        self.reductions.contains_key(tensor)
            && self.computes[id.0 as usize].reducer == Some(reducer)
    }

    /// Gives a reduction a tensor of its own over the axes around it that it uses, and reads it.
    fn reduce(
        &mut self,
        reducer: Reducer,
        mut axes: Vec<VarId>,
        mut body: Expr,
        dtype: DType,
    ) -> Expr {
        // A sum of nothing but a sum is one sum.
        if self.is_reduction(&body, reducer)
            && let Expr::Read { tensor, .. } = &body
            && let Some(inner) = self.reductions.get(tensor)
        {
            axes.extend(&inner.axes);
            body = inner.body.clone();
        }
        let spatial = self.used_around(&body);
        let op = format!("{reducer:?}").to_lowercase();
        let name = format!("{}_{op}", self.current);
        let tensor = self.define(name, (&spatial, &axes), Some(reducer), &body, dtype);
        self.reductions.insert(tensor, Reduction { axes, body });
        Expr::read(tensor, spatial.into_iter().map(Poly::var))
    }

    /// The axes around that occur in `expr`, outermost first.
    fn used_around(&self, expr: &Expr) -> Vec<VarId> {
        let mut used = std::collections::BTreeSet::new();
        let mut collect = |poly: &Poly| {
            poly.for_each_leaf(&mut |atom| {
                if let Atom::Var(var) = atom {
                    used.insert(*var);
                }
            });
        };
        expr.walk(&mut |it| match it {
            Expr::Index(poly) => collect(poly),
            Expr::Read { index, .. } => {
                for it in index {
                    if let Subscript::Affine(poly) = it {
                        collect(poly);
                    }
                }
            }
            _ => {}
        });
        self.around.iter().copied().filter(|it| used.contains(it)).collect()
    }

    /// Adds a compute over these axes, spatial and to reduce, in which they are numbered anew.
    pub(super) fn define(
        &mut self,
        name: String,
        (spatial, reduce): (&[VarId], &[VarId]),
        reducer: Option<Reducer>,
        body: &Expr,
        dtype: DType,
    ) -> TensorId {
        let all = [spatial, reduce].concat();
        let axis = |it: &VarId| {
            let Var { name, extent } = &self.vars[it.0 as usize];
            ComputeAxis { name: name.clone(), extent: extent.clone() }
        };
        let axes: Vec<ComputeAxis> = all.iter().map(axis).collect();
        let mut facts = self.known.facts.clone();
        for (n, it) in axes.iter().enumerate() {
            facts.bound_var(VarId(n as u32), it.extent.clone());
        }
        let position = |var: VarId| all.iter().position(|it| *it == var);
        let body =
            body.substitute_vars(&|var| position(var).map(|n| Poly::var(VarId(n as u32))), &facts);
        let tensor = TensorId(self.symbols.tensors.len() as u32);
        let shape = axes[..spatial.len()].iter().map(|it| it.extent.clone()).collect();
        let kind = TensorKind::Computed(ComputeId(self.computes.len() as u32));
        self.symbols.tensors.push(Tensor { name, dtype, shape, kind });
        self.computes.push(Compute { tensor, axes, n_spatial: spatial.len(), reducer, body });
        tensor
    }
}

impl Range {
    /// The condition under which the index at an axis counts, if not all do.
    fn counts(&self, axis: VarId) -> Option<Expr> {
        let index = Expr::Index(self.lo.clone() + Poly::var(axis));
        let compared = |op: CompareOp, end: &Option<Poly>| {
            Some(index.clone().compare(op, Expr::Index(end.clone()?)))
        };
        and(compared(CompareOp::Ge, &self.part.first), compared(CompareOp::Lt, &self.part.end))
    }
}

/// Both conditions, where there are two.
fn and(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.binary(BinaryOp::And, b)),
        (a, b) => a.or(b),
    }
}

/// What is reduced, and where that does not count what changes nothing.
fn only(counts: Expr, body: Expr, reducer: Reducer, dtype: DType) -> Expr {
    Expr::Select {
        condition: Box::new(counts),
        then: Box::new(body),
        otherwise: Box::new(Expr::Const(reducer.identity(dtype), dtype)),
    }
}

/// Whether a range includes its end.
fn closed(range: &syn::ExprRange) -> bool {
    matches!(range.limits, RangeLimits::Closed(_))
}

fn wanted(name: &str) -> Wanted {
    match name {
        "sum" => Wanted::Value(Reducer::Sum),
        "prod" => Wanted::Value(Reducer::Prod),
        "min" => Wanted::Value(Reducer::Min),
        "max" => Wanted::Value(Reducer::Max),
        "any" => Wanted::Value(Reducer::Any),
        "all" => Wanted::Value(Reducer::All),
        "mean" => Wanted::Mean,
        "argmax" => Wanted::Place(Reducer::Max),
        "argmin" => Wanted::Place(Reducer::Min),
        _ => unreachable!("the caller looked the name up"),
    }
}

/// Whether the arguments of `max` or `min` are those of a reduction.
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
