//! The function's signature: parameters, results, and features of Rust that a program lacks.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{FnArg, GenericArgument, Pat, PathArguments, ReturnType, Safety, Signature, Type};

use super::elaborate::{Binding, Elaborator, InPlace};
use super::hints::{element_type, no_element_type};
use super::{Param, ParamKind};
use crate::dag::limits::{MAX_OPERANDS, MAX_RANK, is_addressable};
use crate::dag::{DType, Scalar, ScalarId, Tensor, TensorId, TensorKind};
use crate::poly::Poly;
use crate::similar;

pub(super) struct Declared {
    /// The type, as written.
    pub(super) ty: Type,
    pub(super) dtype: DType,
    /// Its extents, outermost first.
    pub(super) shape: Vec<Poly>,
}

impl Elaborator {
    /// Reports features of Rust's functions that a program cannot have.
    pub(super) fn check_function(&mut self, function: &syn::ItemFn) {
        let sig = &function.sig;
        let mut refuse = |tokens: &dyn ToTokens, message: &str| {
            let tokens = tokens.to_token_stream();
            if !tokens.is_empty() {
                self.errors.at::<()>(tokens, message);
            }
        };
        let queued = "an autotuned function cannot be `async`, and launches are queued anyway: remove `async`";
        refuse(&sig.asyncness, queued);
        if let Safety::Unsafe(it) = &sig.safety {
            refuse(it, "an autotuned function is safe: remove `unsafe`");
        }
        refuse(&sig.constness, "an autotuned function cannot be `const`: remove it");
        refuse(&sig.abi, "an autotuned function cannot be `extern`: remove it");
        let generic = "an autotuned function has no generics: write element types as \
                       `types(T in [f32, bf16])` in the attribute, and extents as `dims(..)`";
        refuse(&sig.generics.params, generic);
        refuse(&sig.variadic, "an autotuned function cannot be variadic");
        if let Some(it) = &sig.generics.where_clause {
            self.errors.at::<()>(it, "an autotuned function has no `where` clause");
        }
    }

    /// Declares the parameters; `None` for one that could not be read.
    pub(super) fn params(&mut self, sig: &Signature) -> Vec<Option<Param>> {
        if sig.inputs.len() > MAX_OPERANDS {
            let message = format!("a function has at most {MAX_OPERANDS} parameters");
            self.errors.at::<()>(&sig.ident, message);
            return sig.inputs.iter().map(|_| None).collect();
        }
        // Tensors of the parameters come before all others, so scalars do not get in between.
        sig.inputs.iter().map(|it| self.param(it)).collect()
    }

    fn param(&mut self, arg: &FnArg) -> Option<Param> {
        let FnArg::Typed(arg) = arg else {
            let message = "an autotuned function has no `self`: move it out of the `impl`, and \
                           pass tensors as parameters";
            return self.errors.at(arg, message);
        };
        let Some(ident) = plain_ident(&arg.pat) else {
            if let Pat::Ident(it) = &*arg.pat {
                self.bind(it.ident.to_string(), Binding::Poisoned);
            }
            let message = "expected a plain name for this parameter, as in `x: Tensor<f32, M>`";
            return self.errors.at(&arg.pat, message);
        };
        let name = ident.to_string();
        if self.lookup(&name).is_some() {
            let message = format!(
                "the name `{name}` is already taken by a dimension or parameter: rename one of them"
            );
            return self.errors.at(ident, message);
        }
        let Some((dtype, kind)) = self.param_type(&name, &arg.ty) else {
            self.bind(name, Binding::Poisoned);
            return None;
        };
        self.bind(
            name,
            match kind {
                ParamKind::Input(it) | ParamKind::Weight(it) | ParamKind::InOut(it) => {
                    Binding::Tensor(it)
                }
                ParamKind::Scalar(it) => Binding::Scalar(it),
            },
        );
        Some(Param { ident: ident.clone(), ty: (*arg.ty).clone(), dtype, kind })
    }

    fn param_type(&mut self, name: &str, ty: &Type) -> Option<(DType, ParamKind)> {
        if let Type::Reference(it) = ty {
            let message = "no `&`: a tensor is named by its type alone, as in `Tensor<f32, M>`";
            return self.errors.at(it.and_token, message);
        }
        let Some(head) = head(ty) else { return self.errors.at(ty, EXPECTED_PARAM) };
        let tensor_kind = match head.ident.to_string().as_str() {
            "Tensor" => TensorKind::Input,
            "Weight" => TensorKind::Weight,
            "InOut" => TensorKind::InOut,
            other => {
                return match (other.parse(), other) {
                    (Ok(dtype @ (DType::F16 | DType::Bf16)), _) => {
                        self.errors.at(ty, format!("a scalar cannot be {dtype}: pass it as `f32`"))
                    }
                    (Ok(dtype), _) => {
                        let id = ScalarId(self.symbols.scalars.len() as u32);
                        self.symbols.scalars.push(Scalar { name: name.to_owned(), dtype });
                        Some((dtype, ParamKind::Scalar(id)))
                    }
                    (Err(_), "usize" | "isize") => {
                        let instead = "use `i64`, or a dimension of a tensor";
                        self.errors.at(ty, format!("a scalar cannot be `{other}`: {instead}"))
                    }
                    _ => self.errors.at(ty, no_param_type(&head.ident.to_string())),
                };
            }
        };
        let (dtype, shape) = self.tensor_type(ty)?;
        let id = TensorId(self.symbols.tensors.len() as u32);
        let kind = match tensor_kind {
            TensorKind::Weight => ParamKind::Weight(id),
            TensorKind::InOut => {
                self.in_place.push(InPlace { name: name.to_owned(), old: id, new: None });
                ParamKind::InOut(id)
            }
            TensorKind::Input | TensorKind::Computed(_) => ParamKind::Input(id),
        };
        self.symbols.tensors.push(Tensor {
            name: name.to_owned(),
            dtype,
            shape,
            kind: tensor_kind,
        });
        Some((dtype, kind))
    }

    /// The declared results; `None` if one could not be read.
    pub(super) fn results(&mut self, sig: &Signature) -> Option<Vec<Declared>> {
        let ReturnType::Type(_, ty) = &sig.output else {
            if sig.inputs.iter().any(is_in_place) {
                return Some(Vec::new());
            }
            let message = "an autotuned function declares its result, as in `-> Tensor<f32, M, N>`";
            return self.errors.at(&sig.ident, message);
        };
        let types: Vec<&Type> = match &**ty {
            Type::Tuple(tuple) => tuple.elems.iter().collect(),
            Type::Paren(inner) => vec![&inner.elem],
            other => vec![other],
        };
        if types.is_empty() {
            return self.errors.at(ty, "an autotuned function has at least one result");
        }
        if types.len() > MAX_OPERANDS {
            let message = format!("a function has at most {MAX_OPERANDS} results");
            return self.errors.at(&sig.ident, message);
        }
        let results: Vec<Option<Declared>> = types
            .into_iter()
            .map(|ty| {
                self.result_type(ty).map(|(dtype, shape)| Declared { ty: ty.clone(), dtype, shape })
            })
            .collect();
        results.into_iter().collect()
    }

    /// Reads `Tensor<..>` where something is computed.
    pub(super) fn result_type(&mut self, ty: &Type) -> Option<(DType, Vec<Poly>)> {
        match head(ty) {
            Some(it) if it.ident == "Tensor" => self.tensor_type(ty),
            Some(it) if it.ident == "Weight" => {
                self.errors.at(ty, "only a parameter can be a `Weight`: write `Tensor`")
            }
            Some(it) if it.ident == "InOut" => {
                self.errors.at(ty, "only a parameter can be `InOut`: write `Tensor`")
            }
            Some(it) if similar::closest(&it.ident.to_string(), ["Tensor"]).is_some() => self
                .errors
                .at(ty, format!("`{}` is no type of a result: did you mean `Tensor`?", it.ident)),
            _ => {
                self.errors.at(ty, "expected `Tensor<element, extents..>`, as in `Tensor<f32, M>`")
            }
        }
    }

    /// Reads the arguments of `Tensor<f32, M, N>`.
    fn tensor_type(&mut self, ty: &Type) -> Option<(DType, Vec<Poly>)> {
        let head = head(ty)?;
        let PathArguments::AngleBracketed(arguments) = &head.arguments else {
            let name = &head.ident;
            let message = format!("expected `{name}<element, extents..>`, as in `{name}<f32, M>`");
            return self.errors.at(ty, message);
        };
        let mut arguments = arguments.args.iter();
        let dtype = match arguments.next() {
            Some(first) => self.element_type(first),
            None => self.errors.at(ty, "the element type is missing: write `Tensor<f32, ..>`"),
        };
        let extents: Vec<Option<Poly>> = arguments.map(|it| self.extent(it)).collect();
        let shape: Option<Vec<Poly>> = extents.into_iter().collect();
        let (dtype, shape) = (dtype?, shape?);
        if shape.len() > MAX_RANK {
            let message =
                format!("a tensor has at most {MAX_RANK} dimensions: make one of several");
            return self.errors.at(ty, message);
        }
        if !is_addressable(&shape, dtype, &self.known.facts) {
            return self.errors.at(
                ty,
                "this tensor could have more than 2^46 bytes: give its dimensions smaller ranges \
                 in `dims(..)`",
            );
        }
        Some((dtype, shape))
    }

    fn element_type(&mut self, argument: &GenericArgument) -> Option<DType> {
        let name = match argument {
            GenericArgument::Type(ty) => head(ty).map(|it| it.ident.to_string()),
            _ => None,
        };
        let name = name.unwrap_or_else(|| argument.to_token_stream().to_string());
        if let Ok(dtype) = name.parse() {
            return Some(dtype);
        }
        if self.options.dims.iter().any(|it| it.ident == name) {
            let message = format!("the element type is missing: write `Tensor<f32, {name}>`");
            return self.errors.at(argument, message);
        }
        self.errors.at(argument, no_element_type(&name))
    }

    /// One extent: a dimension, an integer, or `{ an expression of those }`; at least 1.
    fn extent(&mut self, argument: &GenericArgument) -> Option<Poly> {
        let value = match argument {
            GenericArgument::Type(Type::Path(path)) if path.qself.is_none() => {
                let Some(ident) = path.path.get_ident() else {
                    return self.errors.at(argument, "expected the name of a dimension");
                };
                let name = ident.to_string();
                match self.lookup(&name) {
                    Some(Binding::Value(value)) => value.clone(),
                    Some(_) => {
                        let message = format!(
                            "`{name}` is a parameter, not a dimension: declare one in `dims(..)`"
                        );
                        return self.errors.at(argument, message);
                    }
                    None => {
                        self.undeclared_dim(ident);
                        return None;
                    }
                }
            }
            GenericArgument::Type(Type::Tuple(tuple)) => {
                let message = "extents are listed one by one: `Tensor<f32, M, N>`";
                return self.errors.at(tuple, message);
            }
            GenericArgument::Const(expr) => self.expr(expr)?,
            _ => {
                return self
                    .errors
                    .at(argument, "expected an extent, as in `M`, `64` or `{ M * 2 }`");
            }
        };
        let Some(poly) = value.as_index() else {
            return self.errors.at(argument, "an extent is made of integers and dimensions");
        };
        if !(poly.clone() - Poly::constant(1)).is_nonnegative(&self.known.facts) {
            return self.errors.at(argument, "an extent is at least 1, and this may be less");
        }
        Some(poly)
    }
}

const EXPECTED_PARAM: &str = "expected `Tensor<f32, M, N>`, `Weight<f32, N>`, `InOut<f32, M, N>`, or a scalar type such as `f32`";

/// The message for a type that no parameter has.
fn no_param_type(name: &str) -> String {
    let meant =
        similar::suggestion(name, ["Tensor", "Weight", "InOut"]).or_else(|| element_type(name));
    meant.map_or_else(|| EXPECTED_PARAM.to_owned(), |it| format!("`{name}` is no type here{it}"))
}

/// Returns whether a parameter is declared as `InOut<..>`.
fn is_in_place(arg: &FnArg) -> bool {
    matches!(arg, FnArg::Typed(it) if head(&it.ty).is_some_and(|it| it.ident == "InOut"))
}

/// The last segment of a path type: `Tensor<..>` in `tvmtune_runtime::Tensor<..>`.
fn head(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        Type::Paren(inner) => head(&inner.elem),
        Type::Group(inner) => head(&inner.elem),
        _ => None,
    }
}

/// Returns the identifier that an expression is, if it is one.
pub(super) fn ident(syntax: &syn::Expr) -> Option<&Ident> {
    match syntax {
        syn::Expr::Path(it) if it.qself.is_none() => it.path.get_ident(),
        _ => None,
    }
}

/// Returns the name of a type that is a single identifier.
pub(super) fn type_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(it) => it.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

/// Returns the name that a pattern binds, if it is a plain one.
pub(super) fn plain_ident(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(it) if it.by_ref.is_none() && it.mutability.is_none() && it.subpat.is_none() => {
            Some(&it.ident)
        }
        _ => None,
    }
}
