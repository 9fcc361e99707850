//! The function's body: `let`s of tensors and scalars, and the results.

use quote::ToTokens;
use syn::{Block, Expr as Syntax, Stmt};

use super::elaborate::{Binding, Elaborator};
use super::errors::{Location, axis_names, count};
use super::expr::LetParts;
use super::infer;
use super::reduce::Axes;
use super::signature::{Declared, ident, plain_ident};
use crate::dag::bounds::PathFacts;
use crate::dag::limits::MAX_RANK;
use crate::dag::{DType, TensorId, TensorKind};
use crate::poly::Poly;

/// The remedy where no use of an axis gives its extent.
const DECLARE: &str = "declare the tensor, as in `let t: Tensor<f32, M, N> = compute(..)`";

/// The declaration of a tensor, before its definition is elaborated.
pub(super) enum Expected {
    Declared(DType, Vec<Poly>),
    /// None: type and extents follow from the definition.
    Inferred,
    /// A declaration with an error.
    Poisoned,
}

impl Elaborator {
    /// Elaborates the body; returns the tensors that it returns.
    pub(super) fn body(
        &mut self,
        block: &Block,
        declared: Option<&[Declared]>,
    ) -> Option<Vec<TensorId>> {
        if declared.is_some_and(<[_]>::is_empty) {
            return self.body_in_place(block);
        }
        let (lets, results) = match block.stmts.split_last() {
            Some((Stmt::Expr(tail, None), lets)) => (lets, Some(result_list(tail))),
            _ => (&block.stmts[..], None),
        };
        if let (Some(results), Some(declared)) = (&results, declared)
            && results.len() != declared.len()
        {
            let (n, given) = (declared.len(), results.len());
            let declares = count(n, "result", "results");
            let hint = match n {
                1 => "return one tensor".to_owned(),
                _ => format!("return a tuple of {n}, as in `(a, b)`"),
            };
            let message = format!("the function declares {declares}, but returns {given}: {hint}");
            self.errors.at_location::<()>(all_of(results), message);
        }
        let is_value = |it: &&Stmt| matches!(it, Stmt::Expr(value, Some(_)) if !matches!(value, Syntax::Assign(_)));
        let ended = lets.last().filter(|it| results.is_none() && is_value(it));
        let lets = &lets[..lets.len() - usize::from(ended.is_some())];
        for it in lets {
            self.statement(it, results.as_deref().unwrap_or_default(), declared);
        }
        let Some(results) = results else {
            return match ended {
                Some(Stmt::Expr(Syntax::Return(it), _)) => {
                    let message = "there is no `return`: end in the value alone, with no `;`";
                    self.errors.at(it.return_token, message)
                }
                Some(Stmt::Expr(_, Some(semicolon))) => {
                    let message = "the function ends in its results: remove this `;`";
                    self.errors.at(semicolon, message)
                }
                _ => {
                    let message = "the function ends in its results, with no `;`: \
                                   `compute(..)`, the name of a computed tensor, or a tuple of \
                                   those";
                    self.errors.at_location(block.brace_token.span.close(), message)
                }
            };
        };
        let mut found = Vec::new();
        for (n, result) in results.iter().enumerate() {
            let expected = match declared.and_then(|it| it.get(n)) {
                Some(it) => Expected::Declared(it.dtype, it.shape.clone()),
                None => Expected::Poisoned,
            };
            let name = if results.len() == 1 { "out".to_owned() } else { format!("out{n}") };
            let tensor = self.result(&name, result, expected);
            if tensor.is_some() && found.contains(&tensor) {
                self.errors.at::<()>(result, "this tensor is returned twice");
            }
            found.push(tensor);
        }
        found.into_iter().collect()
    }

    pub(super) fn statement(
        &mut self,
        statement: &Stmt,
        results: &[&Syntax],
        declared: Option<&[Declared]>,
    ) {
        match statement {
            Stmt::Expr(Syntax::Assign(it), Some(_)) => return self.assign(it),
            Stmt::Expr(Syntax::Binary(it), Some(_)) if self.updates(it) => return,
            _ => {}
        }
        let Some(LetParts { ident, ty, init }) = self.let_parts(statement) else { return };
        let name = ident.to_string();
        if let Syntax::Closure(closure) = init {
            return self.bind_function(name, ty, closure);
        }
        self.start_compute(&name);
        let binding = if let Some(call) = compute_call(init) {
            // A tensor that is returned has the type declared for the result.
            let returned = results.iter().position(|it| is_name(it, &name));
            let result = returned.and_then(|it| declared?.get(it));
            let expected = match (ty, result) {
                (Some(ty), _) => match self.result_type(ty) {
                    Some((dtype, shape)) => Expected::Declared(dtype, shape),
                    None => Expected::Poisoned,
                },
                (None, Some(it)) => Expected::Declared(it.dtype, it.shape.clone()),
                (None, None) if returned.is_some() => Expected::Poisoned,
                (None, None) => Expected::Inferred,
            };
            self.compute(&name, call, expected).map(Binding::Tensor)
        } else {
            self.let_value(ty, init).map(Binding::Value)
        };
        self.bind(name, binding.unwrap_or(Binding::Poisoned));
    }

    pub(super) fn result(
        &mut self,
        name: &str,
        syntax: &Syntax,
        expected: Expected,
    ) -> Option<TensorId> {
        if let Some(call) = compute_call(syntax) {
            self.start_compute(name);
            return self.compute(name, call, expected);
        }
        let Some(ident) = ident(syntax) else {
            let message = "a result is a tensor: write `compute(|i, j| ..)`, or the name of one";
            return self.errors.at(syntax, message);
        };
        let tensor = match self.lookup(&ident.to_string()) {
            Some(Binding::Tensor(id)) => *id,
            Some(Binding::Poisoned) => return None,
            Some(_) => return self.errors.at(ident, format!("`{ident}` is not a tensor")),
            None => return self.no_tensor(ident),
        };
        let found = &self.symbols.tensors[tensor.0 as usize];
        if !matches!(found.kind, TensorKind::Computed(_)) {
            let axes = axis_names(found.shape.len());
            let message = format!(
                "`{ident}` is a parameter, and a result is computed: write \
                 `compute(|{axes}| {ident}[[{axes}]])`"
            );
            return self.errors.at(ident, message);
        }
        if let Expected::Declared(dtype, shape) = expected
            && (found.dtype, &found.shape) != (dtype, &shape)
        {
            let (found, declared) =
                (self.tensor_text(found.dtype, &found.shape), self.tensor_text(dtype, &shape));
            let message = format!(
                "`{ident}` is {found}, but the result is declared {declared}: declare what it is, \
                 or compute it with axes in that order and convert with `as {dtype}`"
            );
            return self.errors.at(ident, message);
        }
        Some(tensor)
    }

    fn tensor_text(&self, dtype: DType, shape: &[Poly]) -> String {
        let extents: String = shape.iter().map(|it| format!(", {}", self.name_poly(it))).collect();
        format!("`Tensor<{dtype}{extents}>`")
    }

    /// Resets the state of the compute before.
    pub(super) fn start_compute(&mut self, name: &str) {
        self.vars.clear();
        self.around.clear();
        self.reductions.clear();
        self.place = None;
        self.known = PathFacts::new(self.dim_facts.clone());
        self.current = name.to_owned();
    }

    fn compute(
        &mut self,
        name: &str,
        call: &syn::ExprCall,
        expected: Expected,
    ) -> Option<TensorId> {
        let (Some(Syntax::Closure(closure)), 1) = (call.args.first(), call.args.len()) else {
            let message = "`compute` takes a closure of the tensor's axes: `compute(|i, j| ..)`";
            return self.errors.at(call, message);
        };
        let n_axes = closure.inputs.len();
        if let Expected::Declared(_, shape) = &expected
            && shape.len() != n_axes
        {
            let rank = shape.len();
            let given = count(n_axes, "axis", "axes");
            let axes = axis_names(rank);
            let message = format!(
                "this closure takes {given}, but the tensor has rank {rank}: write `|{axes}| ..`"
            );
            return self.errors.at_location(axes_location(closure), message);
        }
        let extents = match &expected {
            Expected::Declared(_, shape) => shape.iter().cloned().map(Some).collect(),
            Expected::Inferred => self.infer(closure),
            Expected::Poisoned => vec![None; n_axes],
        };
        if n_axes > MAX_RANK {
            let message =
                format!("a tensor has at most {MAX_RANK} dimensions: make one of several");
            return self.errors.at_location(axes_location(closure), message);
        }
        self.place = Some(axes_location(closure));
        let mark = self.errors.mark();
        let (axes, body) = self.scoped(|this| {
            let zero = Poly::default();
            let mut axes = Vec::new();
            for (pat, extent) in closure.inputs.iter().zip(&extents) {
                axes.push(this.closure_axis(pat, extent.as_ref().map(|it| (&zero, it))));
            }
            this.check_closure(closure);
            (axes, this.expr(&closure.body))
        });
        if let Expected::Declared(_, shape) = &expected {
            self.check_order(closure, shape, mark)?;
        }
        self.check_inferred(closure, &extents);
        let axes: Vec<_> = axes.into_iter().collect::<Option<_>>()?;
        let body = body?;
        let (expr, dtype) = match expected {
            Expected::Declared(dtype, _) => (body.stored(dtype, &mut self.errors)?, dtype),
            Expected::Inferred => body.typed(&mut self.errors)?,
            Expected::Poisoned => return None,
        };
        let expr = self.with_copied_neighbors(expr, &axes);
        Some(self.define(name.to_owned(), Axes { spatial: &axes, reduce: &[] }, None, &expr, dtype))
    }

    /// Reports an axis without an extent where nothing else is wrong: all that it indexes are names
    /// that stand for no tensors because of the axis, as in `compute(|i| i[[i]])`.
    fn check_inferred(&mut self, closure: &syn::ExprClosure, extents: &[Option<Poly>]) {
        if self.errors.mark() > 0 {
            return;
        }
        for (pat, _) in closure.inputs.iter().zip(extents).filter(|(_, it)| it.is_none()) {
            self.errors.at::<()>(pat, format!("this axis indexes no tensor: {DECLARE}"));
        }
    }

    /// Reports axes in another order than the declared extents, where reads since `mark` are out
    /// of bounds for that reason.
    fn check_order(
        &mut self,
        closure: &syn::ExprClosure,
        declared: &[Poly],
        mark: usize,
    ) -> Option<()> {
        if !self.errors.any_out_of_bounds(mark) {
            return Some(());
        }
        let Some(covered) = self.covered(closure) else { return Some(()) };
        // For each declared extent, the axis that covers it.
        let mut order: Vec<usize> = Vec::new();
        for extent in declared {
            let axis = (0..covered.len()).find(|it| covered[*it] == *extent && !order.contains(it));
            let Some(axis) = axis else { return Some(()) };
            order.push(axis);
        }
        if order.is_sorted() {
            return Some(());
        }
        self.errors.forget_out_of_bounds(mark);
        let axes: Vec<String> =
            closure.inputs.iter().map(|it| it.to_token_stream().to_string()).collect();
        let extents = |shape: &[Poly]| {
            shape.iter().map(|it| self.name_poly(it)).collect::<Vec<_>>().join(", ")
        };
        let message = format!(
            "the axes `{}` cover [{}], but the result is declared [{}]: write `|{}| ..`, or declare \
             [{}]",
            axes.join(", "),
            extents(&covered),
            extents(declared),
            order.iter().map(|it| axes[*it].as_str()).collect::<Vec<_>>().join(", "),
            extents(&covered),
        );
        self.errors.at_location(axes_location(closure), message)
    }

    /// The extents that the axes of a closure cover by what they index for certain; `None` if an axis
    /// covers none or several.
    fn covered(&self, closure: &syn::ExprClosure) -> Option<Vec<Poly>> {
        let names: Vec<String> = closure
            .inputs
            .iter()
            .map(|it| Some(plain_ident(it)?.to_string()))
            .collect::<Option<_>>()?;
        let uses = infer::uses(&closure.body, &names);
        let extent = |axis: usize| {
            let certain =
                uses.iter().filter(|it| it.axis == axis && it.access == infer::Access::InBounds);
            let mut extents = certain.filter_map(|it| match self.lookup(&it.tensor)? {
                Binding::Tensor(id) => self.symbols.tensors[id.0 as usize].shape.get(it.position),
                _ => None,
            });
            let first = extents.next()?;
            extents.all(|it| it == first).then(|| first.clone())
        };
        (0..names.len()).map(extent).collect()
    }

    /// The extents of a closure's axes, from the dimensions they index.
    fn infer(&mut self, closure: &syn::ExprClosure) -> Vec<Option<Poly>> {
        let name = |it| plain_ident(it).map_or_else(String::new, ToString::to_string);
        let names: Vec<String> = closure.inputs.iter().map(name).collect();
        let uses = infer::uses(&closure.body, &names);
        let mut extents = Vec::new();
        for (axis, pat) in closure.inputs.iter().enumerate() {
            let axis_uses = || uses.iter().filter(|it| it.axis == axis);
            let certain: Vec<_> =
                axis_uses().filter(|it| it.access == infer::Access::InBounds).collect();
            let used = if certain.is_empty() { axis_uses().collect() } else { certain };
            extents.push(self.infer_one(pat, &names[axis], &used));
        }
        extents
    }

    fn infer_one(&mut self, pat: &syn::Pat, name: &str, uses: &[&infer::AxisUse]) -> Option<Poly> {
        let mut found: Option<(Poly, &str)> = None;
        for it in uses {
            let tensor = match self.lookup(&it.tensor) {
                Some(Binding::Tensor(id)) => &self.symbols.tensors[id.0 as usize],
                // Its error is or will be reported; the axis may depend on it.
                _ => return None,
            };
            if tensor.shape.len() != it.rank {
                return None;
            }
            let extent = &tensor.shape[it.position];
            match &found {
                None => found = Some((extent.clone(), &it.tensor)),
                Some((other, from)) if other != extent => {
                    let (a, b) = (self.name_poly(other), self.name_poly(extent));
                    let message = format!(
                        "the extent of `{name}` is {a} by `{from}` and {b} by `{}`: {DECLARE}",
                        it.tensor
                    );
                    return self.errors.at(pat, message);
                }
                Some(_) => {}
            }
        }
        if found.is_none() && (!name.is_empty() || matches!(pat, syn::Pat::Wild(_))) {
            let message =
                format!("the extent of this axis cannot be told from what it indexes: {DECLARE}");
            return self.errors.at(pat, message);
        }
        found.map(|(extent, _)| extent)
    }
}

fn result_list(tail: &Syntax) -> Vec<&Syntax> {
    match tail {
        Syntax::Tuple(tuple) => tuple.elems.iter().collect(),
        Syntax::Paren(inner) => result_list(&inner.expr),
        Syntax::Group(inner) => result_list(&inner.expr),
        other => vec![other],
    }
}

pub(super) fn compute_call(syntax: &Syntax) -> Option<&syn::ExprCall> {
    match syntax {
        Syntax::Call(call) => match &*call.func {
            Syntax::Path(path) if path.path.is_ident("compute") => Some(call),
            _ => None,
        },
        Syntax::Paren(inner) => compute_call(&inner.expr),
        Syntax::Group(inner) => compute_call(&inner.expr),
        _ => None,
    }
}

fn is_name(syntax: &Syntax, name: &str) -> bool {
    matches!(syntax, Syntax::Path(path) if path.path.is_ident(name))
}

/// `|i, j|`
fn axes_location(closure: &syn::ExprClosure) -> Location {
    Location::of(&closure.inputs_begin).to(Location::of(&closure.inputs_end))
}

fn all_of(results: &[&Syntax]) -> Location {
    match results {
        [first, .., last] => Location::of(first).to(Location::of(last)),
        [one] => Location::of(one),
        [] => Location::from(proc_macro2::Span::call_site()),
    }
}
