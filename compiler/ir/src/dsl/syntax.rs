//! The function below the attribute, as tokens, and what to write where it is none.
//!
//! rustc passes on what it could not read, after an error of its own that knows nothing of this
//! language; so the likeliest mistake, `x[i, j]`, gets one here that says what to write.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::{Expr, Item, ItemFn, Token};

use super::nesting;

/// The error of tokens that are no function.
pub struct Unreadable {
    /// The reasons.
    pub error: syn::Error,
    /// The function without its body, if its signature is one.
    pub signature: Option<Box<ItemFn>>,
}

/// Reads the function below an attribute.
///
/// # Errors
///
/// If the tokens are no function of Rust's grammar, or nest too deeply.
pub fn function(item: TokenStream) -> Result<ItemFn, Unreadable> {
    if let Err(error) = nesting::check(&item) {
        let outline = without_body(item);
        let is_shallow = nesting::check(&outline).is_ok();
        let signature = is_shallow.then(|| syn::parse2(outline).ok().map(Box::new)).flatten();
        return Err(Unreadable { error, signature });
    }
    let error = match syn::parse2(item.clone()) {
        Ok(function) => return Ok(function),
        Err(error) => error,
    };
    let mut brackets = Vec::new();
    find_single_brackets(item.clone(), &mut brackets);
    let explained = brackets.into_iter().reduce(|mut all, it| {
        all.combine(it);
        all
    });
    let error = explained.or_else(|| no_function(item.clone())).unwrap_or(error);
    Err(Unreadable { error, signature: syn::parse2(without_body(item)).ok().map(Box::new) })
}

/// Finds `x[i, j]`, which is no Rust.
fn find_single_brackets(tokens: TokenStream, found: &mut Vec<syn::Error>) {
    let mut before = None;
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            let name = match &before {
                Some(TokenTree::Ident(it)) if group.delimiter() == Delimiter::Bracket => {
                    syn::parse2::<syn::Ident>(TokenTree::from(it.clone()).into()).ok()
                }
                _ => None,
            };
            let indices = group.stream();
            let parsed = syn::parse::Parser::parse2(
                Punctuated::<Expr, Token![,]>::parse_terminated,
                indices,
            );
            match (name, parsed) {
                (Some(name), Ok(indices)) if indices.len() > 1 => {
                    let message = format!(
                        "indices stand in double brackets: write `{name}[[{}]]`",
                        group.stream()
                    );
                    found.push(syn::Error::new(group.span(), message));
                }
                _ => find_single_brackets(group.stream(), found),
            }
        }
        before = Some(token);
    }
}

/// The error of an item that is no function.
fn no_function(item: TokenStream) -> Option<syn::Error> {
    let item: Item = syn::parse2(item).ok()?;
    let kind = match &item {
        Item::Struct(_) => "a `struct`",
        Item::Enum(_) => "an `enum`",
        Item::Impl(_) => "an `impl`",
        Item::Mod(_) => "a `mod`",
        Item::Trait(_) => "a `trait`",
        _ => "another item",
    };
    let message = format!(
        "`#[autotune]` stands above a function, and this is {kind}: write it above each `fn` that \
         is a tensor program"
    );
    Some(syn::Error::new_spanned(item, message))
}

/// The tokens with an empty last pair of braces.
fn without_body(item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    if let Some(TokenTree::Group(body)) = tokens.last_mut()
        && body.delimiter() == Delimiter::Brace
    {
        *body = Group::new(Delimiter::Brace, TokenStream::new());
    }
    tokens.into_iter().collect()
}
