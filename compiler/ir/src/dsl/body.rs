//! The function's body: `let`s of tensors and scalars, and the results.

use syn::{Block, Expr as Syntax, Stmt};

use super::elaborate::{Binding, Elaborator};
use super::errors::{Location, count};
use super::expr::LetParts;
use super::infer;
use super::reduce::Axes;
use super::signature::{Declared, ident, plain_ident};
use crate::dag::bounds::PathFacts;
use crate::dag::{DType, TensorId, TensorKind};
use crate::poly::Poly;

/// The declaration of a tensor, before its definition is elaborated.
enum Expected {
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
        let (lets, results) = match block.stmts.split_last() {
            Some((Stmt::Expr(tail, None), lets)) => (lets, Some(result_list(tail))),
            _ => (&block.stmts[..], None),
        };
        if let (Some(results), Some(declared)) = (&results, declared)
            && results.len() != declared.len()
        {
            let (n, given) = (declared.len(), results.len());
            let declares = count(n, "result", "results");
            let message = format!("the function declares {declares}, but returns {given}");
            self.errors.at_location::<()>(all_of(results), message);
        }
        for it in lets {
            self.statement(it, results.as_deref().unwrap_or_default(), declared);
        }
        let Some(results) = results else {
            let message = "the function ends in its results, with no `;`: `compute(..)`, the name \
                           of a computed tensor, or a tuple of those";
            return self.errors.at_location(block.brace_token.span.close(), message);
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

    fn statement(&mut self, statement: &Stmt, results: &[&Syntax], declared: Option<&[Declared]>) {
        let Some(LetParts { ident, ty, init }) = self.let_parts(statement) else { return };
        let name = ident.to_string();
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

    fn result(&mut self, name: &str, syntax: &Syntax, expected: Expected) -> Option<TensorId> {
        if let Some(call) = compute_call(syntax) {
            self.start_compute(name);
            return self.compute(name, call, expected);
        }
        let Some(ident) = ident(syntax) else {
            let message = "a result is a `compute(..)` or the name of a computed tensor";
            return self.errors.at(syntax, message);
        };
        let tensor = match self.lookup(&ident.to_string()) {
            Some(Binding::Tensor(id)) => *id,
            Some(Binding::Poisoned) => return None,
            Some(_) => return self.errors.at(ident, format!("`{ident}` is not a tensor")),
            None => return self.errors.at(ident, format!("cannot find tensor `{ident}`")),
        };
        let found = &self.symbols.tensors[tensor.0 as usize];
        if !matches!(found.kind, TensorKind::Computed(_)) {
            let message = format!("`{ident}` is a parameter; a result is computed");
            return self.errors.at(ident, message);
        }
        if let Expected::Declared(dtype, shape) = expected
            && (found.dtype, &found.shape) != (dtype, &shape)
        {
            let (found, declared) =
                (self.tensor_text(found.dtype, &found.shape), self.tensor_text(dtype, &shape));
            let message = format!("`{ident}` is {found}, but the result is declared {declared}");
            return self.errors.at(ident, message);
        }
        Some(tensor)
    }

    fn tensor_text(&self, dtype: DType, shape: &[Poly]) -> String {
        let extents: String = shape.iter().map(|it| format!(", {}", self.name_poly(it))).collect();
        format!("`Tensor<{dtype}{extents}>`")
    }

    /// Resets the state of the compute before.
    fn start_compute(&mut self, name: &str) {
        self.vars.clear();
        self.around.clear();
        self.reductions.clear();
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
            let message = format!("this closure takes {given}, but the tensor has rank {rank}");
            return self.errors.at_location(axes_location(closure), message);
        }
        let extents = match &expected {
            Expected::Declared(_, shape) => shape.iter().cloned().map(Some).collect(),
            Expected::Inferred => self.infer(closure),
            Expected::Poisoned => vec![None; n_axes],
        };
        let (axes, body) = self.scoped(|this| {
            let zero = Poly::default();
            let mut axes = Vec::new();
            for (pat, extent) in closure.inputs.iter().zip(&extents) {
                axes.push(this.closure_axis(pat, extent.as_ref().map(|it| (&zero, it))));
            }
            this.check_closure(closure);
            (axes, this.expr(&closure.body))
        });
        let axes: Vec<_> = axes.into_iter().collect::<Option<_>>()?;
        let body = body?;
        let (expr, dtype) = match expected {
            Expected::Declared(dtype, _) => (body.stored(dtype, &mut self.errors)?, dtype),
            Expected::Inferred => body.typed(&mut self.errors)?,
            Expected::Poisoned => return None,
        };
        Some(self.define(name.to_owned(), Axes { spatial: &axes, reduce: &[] }, None, &expr, dtype))
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
        let hint = "declare the tensor, as in `let t: Tensor<f32, M, N> = compute(..)`";
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
                        "the extent of `{name}` is {a} by `{from}` and {b} by `{}`: {hint}",
                        it.tensor
                    );
                    return self.errors.at(pat, message);
                }
                Some(_) => {}
            }
        }
        if found.is_none() && (!name.is_empty() || matches!(pat, syn::Pat::Wild(_))) {
            let message =
                format!("the extent of this axis cannot be told from what it indexes: {hint}");
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

fn compute_call(syntax: &Syntax) -> Option<&syn::ExprCall> {
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
