//! Diagnostics: all errors of a program, each at its location.

use std::collections::BTreeSet;

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
    found: Vec<(Topic, syn::Error)>,
    /// Names that nothing declares and that an error was about: one is enough for each.
    unknown: BTreeSet<String>,
}

/// The subjects of errors.
#[derive(Clone, Copy, PartialEq)]
enum Topic {
    /// A read that is not proven in bounds, which another mistake may explain.
    OutOfBounds,
    Other,
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
        self.found.push((Topic::Other, error));
        None
    }

    /// Reports a name that nothing declares, unless it was reported before.
    pub(super) fn unknown<T>(
        &mut self,
        name: &proc_macro2::Ident,
        message: impl std::fmt::Display,
    ) -> Option<T> {
        if self.unknown.insert(name.to_string()) {
            return self.at(name, message);
        }
        None
    }

    /// Reports a read that is not proven in bounds.
    pub(super) fn out_of_bounds(&mut self, location: Location, message: impl std::fmt::Display) {
        self.at_location::<()>(location, message);
        if let Some((topic, _)) = self.found.last_mut() {
            *topic = Topic::OutOfBounds;
        }
    }

    /// The number of errors so far.
    pub(super) fn mark(&self) -> usize {
        self.found.len()
    }

    /// Returns whether a read since a mark was not proven in bounds.
    pub(super) fn any_out_of_bounds(&self, mark: usize) -> bool {
        self.found[mark..].iter().any(|(topic, _)| *topic == Topic::OutOfBounds)
    }

    /// Replaces the errors since a mark, which are about a function of the crate, by the first of them, at
    /// the call.
    pub(super) fn move_to(&mut self, mark: usize, call: Location, function: &str) {
        let since = self.found.split_off(mark);
        if let Some((_, error)) = since.first() {
            self.at_location::<()>(call, format!("in `{function}`: {error}"));
        }
    }

    /// Forgets the reads since a mark that were not proven in bounds: one error explains them all.
    pub(super) fn forget_out_of_bounds(&mut self, mark: usize) {
        let since = self.found.split_off(mark);
        self.found.extend(since.into_iter().filter(|(topic, _)| *topic != Topic::OutOfBounds));
    }

    /// `value`, if nothing was wrong.
    pub(super) fn finish<T>(self, value: Option<T>) -> syn::Result<T> {
        let combined = self.found.into_iter().map(|(_, error)| error).reduce(|mut all, it| {
            all.combine(it);
            all
        });
        match (combined, value) {
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

/// `i, j, k`: as many plain names for axes.
pub(super) fn axis_names(rank: usize) -> String {
    ["i", "j", "k", "l", "m"].into_iter().cycle().take(rank).collect::<Vec<_>>().join(", ")
}

/// `` `a`, `b`, `c` ``
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|it| format!("`{it}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
