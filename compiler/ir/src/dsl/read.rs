//! Reads of tensors: `x[[i, j]]`, proven in bounds, and `x.get([i, j]).unwrap_or(v)`, checked.

use quote::ToTokens;
use syn::Expr as Syntax;

use super::elaborate::{Binding, Elaborator};
use super::errors::{Location, axis_names, quoted};
use super::signature::ident;
use super::value::{Kind, Value, cast, unify};
use crate::dag::limits::{is_addressable, is_offset};
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Literal, Subscript, TensorId};
use crate::poly::{DimId, Poly};
use crate::similar;

#[derive(Clone, Copy)]
enum Bounds {
    /// Reads that are not proven in bounds are errors.
    Proven,
    /// The caller adds a condition.
    Checked,
}

impl Elaborator {
    /// `x[[i, j]]`
    pub(super) fn index_operator(
        &mut self,
        syntax: &syn::ExprIndex,
        location: Location,
    ) -> Option<Value> {
        if let Syntax::Index(_) = &*syntax.expr {
            let message =
                format!("indices stand in one pair of double brackets: write `{}`", joined(syntax));
            return self.errors.at(syntax, message);
        }
        let tensor = self.tensor_named(&syntax.expr);
        let Syntax::Array(array) = &*syntax.index else {
            let message = format!("indices stand in double brackets: write `{}`", joined(syntax));
            return self.errors.at(&syntax.index, message);
        };
        let (expr, dtype, parts) = self.read(tensor, array, Bounds::Proven)?;
        self.typed_value(expr, dtype, location, &parts.iter().collect::<Vec<_>>())
    }

    /// `x.get([i, j]).unwrap_or(value)`
    pub(super) fn get_or(
        &mut self,
        get: &syn::ExprMethodCall,
        otherwise: &Syntax,
        location: Location,
    ) -> Option<Value> {
        let tensor = self.tensor_named(&get.receiver);
        let array = match get.args.first() {
            Some(Syntax::Array(array)) if get.args.len() == 1 => array,
            _ => {
                let message = "indices stand in brackets, as in `x.get([i, j])`";
                return self.errors.at(get, message);
            }
        };
        let read = self.read(tensor, array, Bounds::Checked);
        let otherwise = self.expr(otherwise);
        let ((read, dtype, mut parts), otherwise) = (read?, otherwise?);
        let Expr::Read { tensor, index } = &read else { return None };
        let condition = self.is_inside(*tensor, index);
        let read = Value::new(Kind::Typed(read.clone(), dtype), location);
        let (then, otherwise_expr, dtype) = unify(&read, &otherwise, &mut self.errors)?;
        parts.push(otherwise);
        let parts: Vec<&Value> = parts.iter().collect();
        let Some(condition) = condition else {
            return self.typed_value(then, dtype, location, &parts);
        };
        self.typed_value(condition.select(then, otherwise_expr), dtype, location, &parts)
    }

    fn tensor_named(&mut self, syntax: &Syntax) -> Option<TensorId> {
        let Some(ident) = ident(syntax) else {
            return self.errors.at(syntax, "only tensors are indexed, by name: `x[[i, j]]`");
        };
        match self.lookup(&ident.to_string()) {
            Some(Binding::Tensor(id)) => Some(*id),
            Some(Binding::Poisoned) => None,
            Some(Binding::Scalar(_) | Binding::Value(_)) => {
                let message = format!("`{ident}` is one number, not a tensor: write `{ident}`");
                self.errors.at(ident, message)
            }
            Some(Binding::Function(_)) => self
                .errors
                .at(ident, format!("`{ident}` is a function: call it, as in `{ident}(x)`")),
            None => self.no_tensor(ident),
        }
    }

    /// Reports the name of a tensor that there is not.
    pub(super) fn no_tensor<T>(&mut self, ident: &syn::Ident) -> Option<T> {
        let tensors = self.scope.iter().rev().filter(|(_, it)| matches!(it, Binding::Tensor(_)));
        let known: Vec<&str> = tensors.map(|(name, _)| name.as_str()).collect();
        if *ident == self.current {
            let message = format!(
                "`{ident}` is not known before its definition ends: where each element depends on \
                 the one before, write `scan(0..=t, first, |h, s| ..)`"
            );
            return self.errors.at(ident, message);
        }
        let hint = similar::suggestion(&ident.to_string(), known.iter().copied());
        let hint = hint.unwrap_or_else(|| {
            format!(": declare a parameter, or compute it before (known: {})", quoted(known))
        });
        self.errors.unknown(ident, format!("cannot find tensor `{ident}`{hint}"))
    }

    /// Elaborates a read; returns its type and the values in its subscripts, too.
    fn read(
        &mut self,
        tensor: Option<TensorId>,
        array: &syn::ExprArray,
        bounds: Bounds,
    ) -> Option<(Expr, DType, Vec<Value>)> {
        let values: Vec<Option<Value>> = array.elems.iter().map(|it| self.expr(it)).collect();
        let id = tensor?;
        let tensor = &self.symbols.tensors[id.0 as usize];
        let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
        if shape.len() != values.len() {
            let n = values.len();
            let given = if n == 1 { "1 index was".to_owned() } else { format!("{n} indices were") };
            let (rank, axes) = (shape.len(), axis_names(shape.len()));
            let message =
                format!("`{name}` has rank {rank}, but {given} given: write `{name}[[{axes}]]`");
            return self.errors.at(array, message);
        }
        let values: Vec<Value> = values.into_iter().collect::<Option<_>>()?;
        let mut index = Vec::new();
        for ((value, extent), syntax) in values.iter().zip(&shape).zip(&array.elems) {
            let subscript = self.subscript(value, extent);
            if let (Some(it), Bounds::Proven) = (&subscript, bounds) {
                self.prove_inside(it, extent, &name, syntax);
            }
            index.push(subscript);
        }
        let index: Vec<Subscript> = index.into_iter().collect::<Option<_>>()?;
        if !is_addressable(&shape, dtype, &self.dim_facts) {
            // It was reported where it is computed.
            return None;
        }
        if !is_offset(&index, &shape, &self.known.facts) {
            let message = format!(
                "these indices could reach 2^53 elements from the start of `{name}`: write smaller \
                 ones"
            );
            return self.errors.at(array, message);
        }
        Some((Expr::Read { tensor: id, index }, dtype, values))
    }

    fn subscript(&mut self, value: &Value, extent: &Poly) -> Option<Subscript> {
        if let Some(poly) = value.as_index() {
            return Some(Subscript::Affine(poly));
        }
        if matches!(value.kind, Kind::Float(_)) {
            let message = "an index is an integer, not a float: write it without a point";
            return self.errors.at_location(value.location, message);
        }
        let (expr, dtype) = value.typed(&mut self.errors)?;
        if !dtype.is_integer() {
            let message = format!("an index is an integer, not {dtype}: convert it with `as i64`");
            return self.errors.at_location(value.location, message);
        }
        // 32 bits suffice if the value had no more before a cast, and the extent fits. What `u32`
        // has beyond `i32` becomes negative, so it stays outside of such an extent.
        let (expr, dtype) = match expr {
            Expr::Cast(DType::I64, inner) if is_narrow(inner.dtype(&self.symbols)) => {
                let dtype = inner.dtype(&self.symbols);
                (*inner, dtype)
            }
            _ => (expr, dtype),
        };
        let wide = extent.interval(&self.known.facts).hi > i64::from(i32::MAX);
        let to = if wide || !is_narrow(dtype) { DType::I64 } else { DType::I32 };
        Some(Subscript::Value(Box::new(cast(to, dtype, expr))))
    }

    fn prove_inside(&mut self, subscript: &Subscript, extent: &Poly, name: &str, syntax: &Syntax) {
        let above = self.known.is_above(subscript, &self.symbols);
        let below = self.known.is_below(subscript, extent, &self.symbols);
        if above && below {
            return;
        }
        let hint = match self.lower_end_that_proves(subscript, extent) {
            Some(range) if above => {
                format!("declare `{range}` if it is never less, or use `.get(..).unwrap_or(..)`")
            }
            _ => "use `.get(..).unwrap_or(..)`".to_owned(),
        };
        let extent = self.name_poly(extent);
        let message = match subscript {
            Subscript::Affine(poly) => {
                let index = syntax.to_token_stream();
                let range = self.name_range(poly);
                format!(
                    "index `{index}` ranges over {range}, but `{name}` has extent {extent} there: {hint}"
                )
            }
            Subscript::Value(value) if self.known.chooses_index(value) => {
                let index = syntax.to_token_stream();
                format!(
                    "index `{index}` is not proven to be inside of `{name}`, of extent {extent} there, \
                     in every case that it tells apart: {hint}"
                )
            }
            Subscript::Value(_) => format!(
                "this index is data, which may lie outside of `{name}`, of extent {extent} there: \
                 {hint}, or clamp it"
            ),
        };
        self.errors.out_of_bounds(Location::of(syntax), message);
    }

    /// Returns a declaration `S = T..=8192` of the dimension `extent` with which the subscript would
    /// be below it.
    fn lower_end_that_proves(&self, subscript: &Subscript, extent: &Poly) -> Option<String> {
        let dynamic: Vec<_> = self.options.dims.iter().filter(|it| it.dynamic).collect();
        let id = |n: usize| DimId(n as u32);
        let at = (0..dynamic.len()).find(|n| *extent == Poly::dim(id(*n)))?;
        let dim = dynamic[at];
        let proves = |n: &usize| {
            let mut known = self.known.clone();
            known.facts.bound_below(id(at), Poly::dim(id(*n)));
            *n != at && known.is_below(subscript, extent, &self.symbols)
        };
        let fits = |n: &usize| {
            let ends = [dim, dynamic[*n]].map(|it| it.lower_end.is_some());
            ends == [false, false] && dynamic[*n].range.hi <= dim.range.hi
        };
        let base = dynamic[(0..dynamic.len()).filter(fits).find(proves)?];
        Some(format!("{} = {}..={}", dim.ident, base.ident, dim.range.hi))
    }

    /// Returns the condition that all subscripts are in bounds, without parts that are proven.
    fn is_inside(&self, tensor: TensorId, index: &[Subscript]) -> Option<Expr> {
        let shape = &self.symbols.tensors[tensor.0 as usize].shape;
        // The value may be used where the conditions around it do not hold: bound by a `let` in a branch,
        // it may be an operand of a reduction, which is computed for every point. Folding drops whatever
        // the conditions on the way to each use imply.
        let known = self.known.without_conditions();
        let mut conditions = Vec::new();
        for (subscript, extent) in index.iter().zip(shape) {
            let (zero, end) = self.bounds(subscript, extent);
            let value = match subscript {
                Subscript::Affine(poly) => Expr::Index(poly.clone()),
                Subscript::Value(value) => (**value).clone(),
            };
            if !known.is_above(subscript, &self.symbols) {
                conditions.push(value.clone().compare(CompareOp::Ge, zero));
            }
            if !known.is_below(subscript, extent, &self.symbols) {
                conditions.push(value.compare(CompareOp::Lt, end));
            }
        }
        conditions.into_iter().reduce(|all, it| all.binary(BinaryOp::And, it))
    }

    /// 0 and the extent, of the subscript's type.
    fn bounds(&self, subscript: &Subscript, extent: &Poly) -> (Expr, Expr) {
        let Subscript::Value(value) = subscript else {
            return (Expr::Index(Poly::default()), Expr::Index(extent.clone()));
        };
        let dtype = Expr::dtype(value, &self.symbols);
        let end = match extent.as_constant() {
            Some(it) => Expr::Const(Literal::Int(it), dtype),
            None => cast(dtype, DType::I64, Expr::Index(extent.clone())),
        };
        (Expr::Const(Literal::Int(0), dtype), end)
    }
}

/// `x[[i, j]]` for `x[i][j]` and `x[(i, j)]`.
fn joined(syntax: &syn::ExprIndex) -> String {
    let mut tensor = &*syntax.expr;
    let mut indices = vec![text(&syntax.index)];
    while let Syntax::Index(outer) = tensor {
        indices.insert(0, text(&outer.index));
        tensor = &outer.expr;
    }
    format!("{}[[{}]]", text(tensor), indices.join(", "))
}

/// The text of indices, without the parentheses or brackets around them.
fn text(syntax: &Syntax) -> String {
    let parts = match syntax {
        Syntax::Tuple(it) => &it.elems,
        Syntax::Array(it) => &it.elems,
        other => return other.to_token_stream().to_string(),
    };
    parts.iter().map(|it| it.to_token_stream().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns whether values of the type have at most 32 bits.
fn is_narrow(dtype: DType) -> bool {
    dtype.is_integer() && dtype != DType::I64
}
