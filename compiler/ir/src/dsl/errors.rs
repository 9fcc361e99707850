//! Diagnostics: all errors of a program, each at its location.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;

/// The location of a piece of the program's text.
///
/// Both ends are kept, since spans cannot be joined in a procedural macro; the compiler joins
/// them when it shows an error that begins with the one and ends with the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    start: Span,
    end: Span,
}

impl Location {
    pub(super) fn of(syntax: &impl ToTokens) -> Self {
        let mut tokens = syntax.to_token_stream().into_iter();
        let first = tokens.next();
        let start = first.as_ref().map_or_else(Span::call_site, TokenTree::span);
        let end = tokens.last().or(first).map_or(start, |it| it.span());
        Self { start, end }
    }

    pub(super) fn to(self, other: Location) -> Self {
        Self { start: self.start, end: other.end }
    }
}

impl From<Span> for Location {
    fn from(span: Span) -> Self {
        Self { start: span, end: span }
    }
}

/// The errors so far. Elaboration goes on after one, with the rest of the program.
#[derive(Default)]
pub(super) struct Errors {
    found: Option<syn::Error>,
}

impl Errors {
    /// Reports an error that covers `tokens`, and gives nothing to go on with.
    pub(super) fn at<T>(
        &mut self,
        tokens: impl ToTokens,
        message: impl std::fmt::Display,
    ) -> Option<T> {
        self.add(syn::Error::new_spanned(tokens, message))
    }

    /// Reports an error at a location, and gives nothing to go on with.
    pub(super) fn at_location<T>(
        &mut self,
        location: impl Into<Location>,
        message: impl std::fmt::Display,
    ) -> Option<T> {
        let Location { start, end } = location.into();
        // Tokens that stand for the ends; their text does not show.
        let ends = [start, end].map(|span| TokenTree::from(proc_macro2::Ident::new("_", span)));
        self.at(TokenStream::from_iter(ends), message)
    }

    /// Reports an error as it is, and gives nothing to go on with.
    pub(super) fn add<T>(&mut self, error: syn::Error) -> Option<T> {
        match &mut self.found {
            Some(all) => all.combine(error),
            None => self.found = Some(error),
        }
        None
    }

    /// `value`, if nothing was wrong.
    pub(super) fn finish<T>(self, value: Option<T>) -> syn::Result<T> {
        match (self.found, value) {
            (Some(error), _) => Err(error),
            (None, Some(value)) => Ok(value),
            (None, None) => Err(syn::Error::new(
                Span::call_site(),
                "tvmtune cannot read this function and does not know why; please report it",
            )),
        }
    }
}

/// `1 axis`, `2 axes`
pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `` `a`, `b`, `c` ``
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|it| format!("`{it}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
