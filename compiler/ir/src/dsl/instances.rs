//! Programs for several element types: `types(W in [f32, bf16])` makes one for each.
//!
//! The macro and the scan of a build expand a function to the same list, so both find the same
//! workloads.

use std::collections::BTreeSet;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{ItemFn, Token, Type};

use super::errors::Errors;
use super::hints::no_element_type;
use super::nesting;
use crate::dag::DType;

/// More programs than this are one mistake, not many programs.
const MAX_INSTANCES: usize = 64;

const EXAMPLE: &str = "`types(W in [f32, bf16])`";

/// One program of a function, with an element type in the place of each type parameter.
pub struct Instance {
    /// The element types, in the order of the attribute; none if the function has no parameters.
    pub types: Vec<(Ident, DType)>,
    /// The arguments of the attribute, without `types(..)`.
    pub options: TokenStream,
    /// The function, under its name and that of its types: `linear_bf16`.
    pub item: ItemFn,
}

impl Instance {
    /// The types as one identifier, `bf16` or `f32_i8`; empty if there are none.
    pub fn suffix(&self) -> String {
        self.types.iter().map(|(_, dtype)| dtype.name()).collect::<Vec<_>>().join("_")
    }
}

/// A type parameter with its list.
struct Parameter {
    ident: Ident,
    types: Vec<DType>,
}

/// Returns the programs of a function: with several type parameters one for each combination, in the
/// order of the lists, the last list fastest; without any, the function as it is.
///
/// # Errors
///
/// All errors of `types(..)`, combined; an error of tokens that nest too deeply comes first and alone.
pub fn instances(options: TokenStream, item: &ItemFn) -> syn::Result<Vec<Instance>> {
    nesting::check(&options)?;
    nesting::check(&item.to_token_stream())?;
    let mut errors = Errors::default();
    let (options, lists) = split(options, &mut errors);
    let mut parameters: Vec<Parameter> = Vec::new();
    for list in lists {
        match Parser::parse2(|input: ParseStream<'_>| read(input, &mut errors), list) {
            Ok(more) => parameters.extend(more),
            Err(error) => errors.add(error).unwrap_or_default(),
        }
    }
    check(&parameters, &options, item, &mut errors);
    errors.finish(Some(()))?;
    let mut combinations: Vec<Vec<(Ident, DType)>> = vec![Vec::new()];
    for Parameter { ident, types } in parameters {
        let with = |before: &Vec<(Ident, DType)>, dtype: DType| {
            before.iter().cloned().chain([(ident.clone(), dtype)]).collect()
        };
        combinations = combinations
            .iter()
            .flat_map(|it| types.iter().map(move |dtype| with(it, *dtype)))
            .collect();
    }
    combinations.into_iter().map(|types| instance(types, &options, item)).collect()
}

fn instance(
    types: Vec<(Ident, DType)>,
    options: &TokenStream,
    item: &ItemFn,
) -> syn::Result<Instance> {
    let mut instance = Instance { types, options: options.clone(), item: item.clone() };
    if !instance.types.is_empty() {
        instance.item = syn::parse2(substituted(item.to_token_stream(), &instance.types))?;
        let ident = &item.sig.ident;
        instance.item.sig.ident =
            Ident::new(&format!("{ident}_{}", instance.suffix()), ident.span());
    }
    Ok(instance)
}

/// The arguments of the attribute without `types(..)`, and what stands in its parentheses.
fn split(options: TokenStream, errors: &mut Errors) -> (TokenStream, Vec<TokenStream>) {
    let (mut rest, mut lists) = (Vec::new(), Vec::new());
    let is_comma = |it: &TokenTree| matches!(it, TokenTree::Punct(mark) if mark.as_char() == ',');
    let mut tokens = options.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_first = rest.last().is_none_or(is_comma);
        if !(is_first && matches!(&token, TokenTree::Ident(it) if it == "types")) {
            rest.push(token);
            continue;
        }
        match tokens.next() {
            Some(TokenTree::Group(group)) => lists.push(group.stream()),
            _ => drop(errors.at::<()>(token, format!("expected {EXAMPLE}"))),
        }
        // The comma after it goes with it.
        tokens.next_if(is_comma);
    }
    (rest.into_iter().collect(), lists)
}

/// Reads `W in [f32, bf16], A in [f32]`.
fn read(input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<Vec<Parameter>> {
    let expected = |input: ParseStream<'_>, what: &str| {
        input.error(format!("expected {what}, as in {EXAMPLE}"))
    };
    let mut parameters = Vec::new();
    while !input.is_empty() {
        let ident: Ident = input.parse().map_err(|_| expected(input, "a name for the type"))?;
        input.parse::<Token![in]>().map_err(|_| expected(input, "`in`"))?;
        if !input.peek(syn::token::Bracket) {
            return Err(expected(input, "a list of element types in brackets"));
        }
        let content;
        syn::bracketed!(content in input);
        let mut types = Vec::new();
        while !content.is_empty() {
            let name: Ident = content.parse().map_err(|_| expected(&content, "an element type"))?;
            match name.to_string().parse::<DType>() {
                Ok(dtype) if types.contains(&dtype) => {
                    errors.at::<()>(&name, format!("`{name}` is listed twice: remove one"));
                }
                Ok(dtype) => types.push(dtype),
                Err(_) => drop(errors.at::<()>(&name, no_element_type(&name.to_string()))),
            }
            if !content.is_empty() {
                content.parse::<Token![,]>().map_err(|_| expected(&content, "`,`"))?;
            }
        }
        parameters.push(Parameter { ident, types });
        if !input.is_empty() {
            input.parse::<Token![,]>().map_err(|_| expected(input, "`,`"))?;
        }
    }
    Ok(parameters)
}

/// Checks that each parameter has a name of its own, a type, and a place in the signature.
fn check(parameters: &[Parameter], options: &TokenStream, item: &ItemFn, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    let placed: Vec<Ident> = element_types(item).into_iter().flatten().collect();
    for Parameter { ident, types } in parameters {
        if !seen.insert(ident.to_string()) {
            errors.at::<()>(ident, format!("type `{ident}` is listed twice: remove one"));
        } else if ident.to_string().parse::<DType>().is_ok() {
            errors.at::<()>(ident, format!("`{ident}` is an element type: write {EXAMPLE}"));
        } else if mentions(options.clone(), ident) {
            let message = format!("`{ident}` is a dimension, too: rename one of them");
            errors.at::<()>(ident, message);
        } else if types.is_empty() {
            errors.at::<()>(ident, format!("`{ident}` has no types: write {EXAMPLE}"));
        } else if !placed.contains(ident) {
            let message = format!(
                "no parameter or result has elements of `{ident}`: write `Tensor<{ident}, ..>`, or \
                 remove it from `types(..)`"
            );
            errors.at::<()>(ident, message);
        }
    }
    let n_instances = parameters.iter().map(|it| it.types.len()).fold(1, usize::saturating_mul);
    if n_instances > MAX_INSTANCES
        && let Some(first) = parameters.first()
    {
        let message = format!(
            "these lists make {n_instances} programs, and at most {MAX_INSTANCES} are made: \
             shorten them"
        );
        errors.at::<()>(&first.ident, message);
    }
}

/// Returns the element types of a function's parameters and results, in order, where they are plain
/// names: `W` of `Tensor<W, M>`, and of `W`.
pub fn element_types(function: &ItemFn) -> Vec<Option<Ident>> {
    let inputs = function.sig.inputs.iter().map(|it| match it {
        syn::FnArg::Typed(it) => Some(&*it.ty),
        syn::FnArg::Receiver(_) => None,
    });
    let outputs: Vec<&Type> = match &function.sig.output {
        syn::ReturnType::Type(_, ty) => match &**ty {
            Type::Tuple(tuple) => tuple.elems.iter().collect(),
            other => vec![other],
        },
        syn::ReturnType::Default => Vec::new(),
    };
    inputs.chain(outputs.into_iter().map(Some)).map(|it| element_type(it?)).collect()
}

fn element_type(ty: &Type) -> Option<Ident> {
    let path = match ty {
        Type::Path(path) => path,
        Type::Paren(inner) => return element_type(&inner.elem),
        Type::Group(inner) => return element_type(&inner.elem),
        _ => return None,
    };
    let last = path.path.segments.last()?;
    match &last.arguments {
        syn::PathArguments::AngleBracketed(it) => match it.args.first()? {
            syn::GenericArgument::Type(ty) => element_type(ty),
            _ => None,
        },
        _ => Some(last.ident.clone()),
    }
}

fn mentions(tokens: TokenStream, ident: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(it) => it == *ident,
        TokenTree::Group(it) => mentions(it.stream(), ident),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The tokens with element types for type parameters, at the same places.
fn substituted(tokens: TokenStream, types: &[(Ident, DType)]) -> TokenStream {
    let substitute = |token| match token {
        TokenTree::Ident(it) => match types.iter().find(|(ident, _)| it == *ident) {
            Some((_, dtype)) => Ident::new(dtype.name(), it.span()).into(),
            None => it.into(),
        },
        TokenTree::Group(it) => {
            let mut group = Group::new(it.delimiter(), substituted(it.stream(), types));
            group.set_span(it.span());
            group.into()
        }
        other => other,
    };
    tokens.into_iter().map(substitute).collect()
}

/// Applies `f` to each instance.
///
/// # Errors
///
/// The errors of all instances, combined: one for each place in the text, which says for which
/// element types it holds unless that is all.
pub fn for_each_instance<T>(
    instances: &[Instance],
    mut f: impl FnMut(&Instance) -> syn::Result<T>,
) -> syn::Result<Vec<T>> {
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    for instance in instances {
        match f(instance) {
            Ok(result) => results.push(result),
            Err(error) => failed.extend(error.into_iter().map(|it| (instance, it))),
        }
    }
    let mut errors = Errors::default();
    let mut seen = BTreeSet::new();
    for (instance, error) in &failed {
        let same = |(_, other): &&(&Instance, syn::Error)| {
            place(other) == place(error) && other.to_string() == error.to_string()
        };
        let is_general = failed.iter().filter(same).count() >= instances.len();
        if !seen.insert(place(error)) {
            continue;
        }
        if is_general {
            errors.add::<()>(error.clone());
        } else {
            let types = instance.types.iter().map(|(ident, it)| format!("`{ident}` is `{it}`"));
            let types = types.collect::<Vec<_>>().join(" and ");
            let message = format!("{error} (where {types})");
            errors.add::<()>(syn::Error::new(error.span(), message));
        }
    }
    errors.finish(Some(results))
}

/// A span as text, since spans do not compare.
fn place(error: &syn::Error) -> String {
    format!("{:?}", error.span())
}
