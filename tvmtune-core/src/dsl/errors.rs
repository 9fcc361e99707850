//! All that is wrong with a program, found in one go.

use proc_macro2::Span;
use quote::ToTokens;

/// The errors so far. Whoever reports one goes on with the rest of the program.
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

    /// Reports an error at `span`, and gives nothing to go on with.
    pub(super) fn at_span<T>(&mut self, span: Span, message: impl std::fmt::Display) -> Option<T> {
        self.add(syn::Error::new(span, message))
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
