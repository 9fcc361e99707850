//! Where operands are when a launch begins: `cold(keys, values)`, `warm(w)`.
//!
//! This is for measuring only: it is no part of what a program computes, nor of its identity.

use proc_macro2::Ident;
use syn::Token;
use syn::ext::IdentExt;
use syn::parse::ParseStream;

use super::errors::Errors;
use super::{Param, ParamKind};
use crate::similar;

/// The place of an operand when a launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// In memory: a network uses so much else between two launches that no cache keeps it.
    Cold,
    /// In the caches of the device, as far as it fits.
    Warm,
}

/// Parses `(x, w)`.
pub(super) fn operands(
    input: ParseStream<'_>,
    residence: Residence,
) -> syn::Result<Vec<(Ident, Residence)>> {
    let content;
    if !input.peek(syn::token::Paren) {
        let name = residence.option();
        return Err(input.error(format!("expected parentheses, as in `{name}(w)`")));
    }
    syn::parenthesized!(content in input);
    let names = content.parse_terminated(Ident::parse_any, Token![,])?;
    Ok(names.into_iter().map(|it| (it, residence)).collect())
}

/// Returns the residence of each tensor among the parameters, in order, as far as it is stated.
pub(super) fn of_params<'a>(
    stated: &[(Ident, Residence)],
    params: impl Iterator<Item = &'a Param>,
) -> Vec<Option<Residence>> {
    let tensors = params.filter(|it| !matches!(it.kind, ParamKind::Scalar(_)));
    let of = |it: &Param| stated.iter().find(|(name, _)| *name == it.ident).map(|it| it.1);
    tensors.map(of).collect()
}

/// Reports names that are no tensors among the parameters, or stand twice; `params` are those that
/// could be read, all of them if `is_complete`.
pub(super) fn check(
    stated: &[(Ident, Residence)],
    params: &[&Param],
    is_complete: bool,
    errors: &mut Errors,
) {
    for (n, (name, residence)) in stated.iter().enumerate() {
        if stated[..n].iter().any(|(other, _)| other == name) {
            let message =
                format!("`{name}` is given twice in `cold(..)` and `warm(..)`: remove one");
            errors.at::<()>(name, message);
            continue;
        }
        let is_tensor = |it: &&&Param| !matches!(it.kind, ParamKind::Scalar(_));
        if params.iter().filter(is_tensor).any(|it| it.ident == *name) || !is_complete {
            continue;
        }
        let names: Vec<String> =
            params.iter().filter(is_tensor).map(|it| it.ident.to_string()).collect();
        let meant = similar::suggestion(&name.to_string(), names.iter().map(String::as_str));
        let meant = meant.unwrap_or_else(|| {
            format!(": `{}(..)` lists tensors among the parameters", residence.option())
        });
        errors.at::<()>(name, format!("`{name}` is no operand{meant}"));
    }
}

impl Residence {
    /// The spelling in the attribute.
    pub fn option(self) -> &'static str {
        match self {
            Residence::Cold => "cold",
            Residence::Warm => "warm",
        }
    }
}
