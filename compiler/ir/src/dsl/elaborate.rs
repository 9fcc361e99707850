//! Elaboration of a function to a [`Program`]: its state and its driver.
//!
//! Each kind of syntax has a file that extends [`Elaborator`]: `signature`, `body`, `expr`, `call`,
//! `function`, `read`, `reduce`, `index`. These are mutually recursive, as the grammar is; so all of them use this
//! file, and its driver calls the first two.

use std::collections::BTreeMap;
use std::rc::Rc;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;

use super::errors::{Errors, Location};
use super::function::{Calls, Function};
use super::options::{DimDeclaration, Options};
use super::signature::Declared;
use super::value::{Kind, Value};
use super::{DynamicDim, DynamicEnd, Output, Param, Program, residence, template_expr};
use crate::dag::bounds::PathFacts;
use crate::dag::{Compute, DType, Expr, Scalar, ScalarId, Tensor, TensorId, Types, dims};
use crate::poly::{DimId, Facts, Interval, Poly, VarId};

/// The state of the elaboration.
pub(super) struct Elaborator {
    pub(super) errors: Errors,
    pub(super) options: Options,
    pub(super) symbols: Symbols,
    pub(super) computes: Vec<Compute>,
    /// The names in scope, innermost last.
    pub(super) scope: Vec<(String, Binding)>,
    /// The axes of the compute being read and of its reductions, by `VarId`.
    pub(super) vars: Vec<Var>,
    /// The axes that enclose the expression being read, outermost first.
    pub(super) around: Vec<VarId>,
    /// The ranges of dimensions.
    pub(super) dim_facts: Facts,
    /// The path condition of the expression being read.
    pub(super) known: PathFacts,
    /// The reductions of this compute that were given tensors of their own.
    pub(super) reductions: BTreeMap<TensorId, Reduction>,
    pub(super) current: String,
    /// The axes of the compute being read, for errors about its size.
    pub(super) place: Option<Location>,
    /// The nesting depth of the expression being read.
    pub(super) depth: usize,
    pub(super) calls: Calls,
    /// The `InOut` parameters.
    pub(super) in_place: Vec<InPlace>,
    /// The parameter whose elements the compute being read replaces.
    pub(super) replaced: Option<TensorId>,
}

/// A parameter whose memory receives a result.
pub(super) struct InPlace {
    pub(super) name: String,
    pub(super) old: TensorId,
    /// The result, once it is assigned; then none after an error in it.
    pub(super) new: Option<Option<TensorId>>,
}

#[derive(Default)]
pub(super) struct Symbols {
    pub(super) tensors: Vec<Tensor>,
    pub(super) scalars: Vec<Scalar>,
    /// The types of the states of scans, whose reads are placeholders: see [`Symbols::new_state`].
    states: Vec<DType>,
}

impl Symbols {
    /// Hands out a tensor that stands for the state of a scan until the tensor of all states is defined.
    pub(super) fn new_state(&mut self, dtype: DType) -> TensorId {
        self.states.push(dtype);
        TensorId(u32::MAX - (self.states.len() as u32 - 1))
    }

    /// Returns the type of the state that a tensor stands for, if it does.
    fn state(&self, tensor: TensorId) -> Option<DType> {
        self.states.get((u32::MAX - tensor.0) as usize).copied()
    }

    /// Returns whether an expression reads the state of a scan.
    pub(super) fn reads_state(&self, expr: &Expr) -> bool {
        let is_state =
            |it: &Expr| matches!(it, Expr::Read { tensor, .. } if self.state(*tensor).is_some());
        expr.any(&mut |it| is_state(it))
    }
}

/// The meaning of a name.
#[derive(Clone)]
pub(super) enum Binding {
    Tensor(TensorId),
    Scalar(ScalarId),
    Value(Value),
    Function(Rc<Function>),
    /// None, after an error in its declaration.
    Poisoned,
}

/// A loop of the compute being read.
pub(super) struct Var {
    pub(super) name: String,
    pub(super) extent: Poly,
}

/// A reduction before its variables were renumbered.
pub(super) struct Reduction {
    pub(super) axes: Vec<VarId>,
    pub(super) body: Expr,
}

impl Types for Symbols {
    fn tensor(&self, tensor: TensorId) -> DType {
        self.state(tensor).unwrap_or_else(|| self.tensors[tensor.0 as usize].dtype)
    }

    fn scalar(&self, scalar: ScalarId) -> DType {
        self.scalars[scalar.0 as usize].dtype
    }
}

/// Elaborates a whole function.
pub(super) fn program(
    options: Options,
    function: &syn::ItemFn,
    errors: Errors,
) -> syn::Result<Program> {
    let (mut options, mut errors) = (options, errors);
    let mut mentioned = Vec::new();
    collect_idents(function.sig.to_token_stream(), &mut mentioned);
    collect_idents(function.block.to_token_stream(), &mut mentioned);
    mentioned.extend(template_expr::mentioned(&options));
    options.check_unused(&mentioned, &mut errors);
    order_dims(&mut options, function);
    let mut elaborator = Elaborator::new(options, errors);
    elaborator.check_function(function);
    let params = elaborator.params(&function.sig);
    elaborator.check_residence(&params);
    let dims = elaborator.dynamic_dims(&params);
    let declared = elaborator.results(&function.sig);
    let tensors = elaborator.defined(function, declared.as_deref());
    let replaced = elaborator.replaced_params(&params);
    let replacements = elaborator.replacements(&function.sig);
    let outputs = declared.zip(tensors).zip(replacements);
    let outputs = outputs.map(|((declared, tensors), replacements)| {
        let declared = replaced.into_iter().chain(declared);
        let pairs = declared.zip(replacements.into_iter().chain(tensors));
        let output = |(it, tensor): (Declared, TensorId)| Output {
            ty: it.ty,
            dtype: it.dtype,
            shape: it.shape,
            tensor,
        };
        pairs.map(output).collect()
    });
    let attributes = function.attrs.iter().filter(|it| !super::is_autotune(it)).cloned().collect();
    let kernel_template = elaborator.kernel_template(&function.sig.ident);
    let Elaborator { errors, options, symbols, computes, .. } = elaborator;
    let program = outputs.map(|outputs| Program {
        ident: function.sig.ident.clone(),
        visibility: function.vis.clone(),
        attributes,
        options,
        dims,
        params: params.into_iter().flatten().collect(),
        outputs,
        tensors: symbols.tensors,
        scalars: symbols.scalars,
        computes,
        kernel_template,
    });
    errors.finish(program)
}

impl Elaborator {
    fn check_residence(&mut self, params: &[Option<Param>]) {
        let read: Vec<&Param> = params.iter().flatten().collect();
        let is_complete = read.len() == params.len();
        residence::check(&self.options.residence, &read, is_complete, &mut self.errors);
    }
}

/// Sorts dimensions by where the function mentions them first, parameters before all else, so that
/// the order in which the attribute lists them means nothing.
fn order_dims(options: &mut Options, function: &syn::ItemFn) {
    let mut names = Vec::new();
    collect_idents(function.sig.inputs.to_token_stream(), &mut names);
    collect_idents(function.sig.output.to_token_stream(), &mut names);
    collect_idents(function.block.to_token_stream(), &mut names);
    let first = |ident: &Ident| names.iter().position(|it| it == ident).unwrap_or(names.len());
    options.dims.sort_by_key(|it| first(&it.ident));
}

pub(super) fn collect_idents(tokens: TokenStream, names: &mut Vec<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(it) => names.push(it),
            TokenTree::Group(it) => collect_idents(it.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

impl Elaborator {
    fn new(options: Options, errors: Errors) -> Self {
        let (mut facts, mut scope, mut n_dynamic) = (Facts::default(), Vec::new(), 0);
        for dim in &options.dims {
            let extent = if dim.dynamic {
                let id = DimId(n_dynamic);
                n_dynamic += 1;
                facts.bound_dim(id, dim.range);
                Poly::dim(id)
            } else {
                Poly::constant(dim.range.lo)
            };
            let value = Value::new(Kind::Index(extent), Location::of(&dim.ident));
            scope.push((dim.ident.to_string(), Binding::Value(value)));
        }
        for (dim, end) in lower_ends(&options) {
            facts.bound_below(dim, end);
        }
        Self {
            errors,
            options,
            symbols: Symbols::default(),
            computes: Vec::new(),
            scope,
            vars: Vec::new(),
            around: Vec::new(),
            known: PathFacts::new(facts.clone()),
            dim_facts: facts,
            reductions: BTreeMap::new(),
            current: String::new(),
            place: None,
            depth: 0,
            calls: Calls::default(),
            in_place: Vec::new(),
            replaced: None,
        }
    }

    /// The dynamic dimensions. Each is an extent of a parameter, perhaps with a constant added, or has to do with a
    /// lower end: what nothing in memory tells of is more likely a mistake.
    fn dynamic_dims(&mut self, params: &[Option<Param>]) -> Vec<DynamicDim> {
        let mut found = Vec::new();
        let ends: BTreeMap<DimId, Poly> = lower_ends(&self.options).into_iter().collect();
        for (n, dim) in self.options.dims.iter().filter(|it| it.dynamic).enumerate() {
            let id = DimId(n as u32);
            let tells = |extent: &Poly| (extent.clone() - Poly::dim(id)).as_constant().is_some();
            let is_extent = params
                .iter()
                .flatten()
                .filter_map(Param::tensor)
                .any(|tensor| self.symbols.tensors[tensor.0 as usize].shape.iter().any(tells));
            let is_end =
                ends.contains_key(&id) || ends.values().any(|it| dims::base(it) == Some(n));
            if !is_extent && !is_end {
                if params.iter().all(Option::is_some) {
                    let message = format!(
                        "no parameter has a dimension of extent `{0}`, so a launch cannot know it: \
                         write `{0}` alone as an extent of one",
                        dim.ident
                    );
                    self.errors.at::<()>(&dim.ident, message);
                }
                continue;
            }
            let edges = self.options.buckets.iter().find(|(name, _)| *name == dim.ident);
            let edges = edges.map_or(&[][..], |(_, edges)| edges);
            found.push(DynamicDim {
                ident: dim.ident.clone(),
                range: dim.range,
                lower_end: dim.lower_end.as_ref().zip(ends.get(&id)).map(|(end, value)| {
                    DynamicEnd { value: value.clone(), spelled: end.spelled.clone() }
                }),
                buckets: buckets(dim.range, edges),
            });
        }
        found
    }

    /// The results that `InOut` parameters declare, in order.
    fn replaced_params(&self, params: &[Option<Param>]) -> Vec<Declared> {
        let declared = |it: &Param| {
            let super::ParamKind::InOut(old) = it.kind else { return None };
            let shape = self.symbols.tensors[old.0 as usize].shape.clone();
            Some(Declared { ty: it.ty.clone(), dtype: it.dtype, shape })
        };
        params.iter().flatten().filter_map(declared).collect()
    }

    /// Returns the meaning of a name, if it has one.
    pub(super) fn lookup(&self, name: &str) -> Option<&Binding> {
        self.scope.iter().rev().find(|(it, _)| it == name).map(|(_, binding)| binding)
    }

    /// Makes a name known from here to the end of the scope.
    pub(super) fn bind(&mut self, name: impl Into<String>, binding: Binding) {
        self.scope.push((name.into(), binding));
    }

    /// Runs `f` and forgets the names it bound.
    pub(super) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let mark = self.scope.len();
        let result = f(self);
        self.scope.truncate(mark);
        result
    }

    /// Opens a loop around the syntax read next, and binds its name to `lo` plus its variable.
    pub(super) fn enter_axis(&mut self, ident: Option<&Ident>, lo: Poly, extent: Poly) -> VarId {
        let var = VarId(self.vars.len() as u32);
        let name = ident.map_or_else(|| format!("axis{}", var.0), ToString::to_string);
        self.known.facts.bound_var(var, extent.clone());
        self.around.push(var);
        if let Some(ident) = ident {
            let value = Value::new(Kind::Index(lo + Poly::var(var)), Location::of(&ident));
            self.bind(&name, Binding::Value(value));
        }
        self.vars.push(Var { name, extent });
        var
    }

    /// Reports a name in a shape that no option declares.
    pub(super) fn undeclared_dim(&mut self, ident: &Ident) {
        if !self.options.incomplete {
            self.options.undeclared(ident, &mut self.errors);
        }
    }
}

/// The lower ends of dynamic dimensions.
fn lower_ends(options: &Options) -> Vec<(DimId, Poly)> {
    let dynamic: Vec<_> = options.dims.iter().filter(|it| it.dynamic).collect();
    let end = |(n, dim): (usize, &&DimDeclaration)| {
        let end = dim.lower_end.as_ref()?;
        let base = dynamic.iter().position(|it| it.ident == end.base)?;
        Some((DimId(n as u32), end.value(DimId(base as u32))))
    };
    dynamic.iter().enumerate().filter_map(end).collect()
}

impl Param {
    /// The tensor it is, unless it is a scalar.
    pub fn tensor(&self) -> Option<TensorId> {
        match self.kind {
            super::ParamKind::Input(tensor)
            | super::ParamKind::Weight(tensor)
            | super::ParamKind::InOut(tensor) => Some(tensor),
            super::ParamKind::Scalar(_) => None,
        }
    }
}

/// The intervals that end at `edges`, and the rest of the range.
fn buckets(range: Interval, edges: &[i64]) -> Vec<Interval> {
    let mut lo = range.lo;
    let mut buckets = Vec::new();
    for hi in edges.iter().copied().chain([range.hi]).filter(|it| *it <= range.hi) {
        if lo <= hi {
            buckets.push(Interval { lo, hi });
            lo = hi + 1;
        }
    }
    buckets
}
