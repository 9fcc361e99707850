//! Knobs in the attribute: macros of a kernel template, each with the values that tuning may give it.
//!
//! ```text
//! knobs(BLOCK in [256, 2 * WARP], ITEMS in 1..=MOST)
//! ```
//!
//! Values are integers of literals, fixed dimensions and constants of the header, so they are known once
//! dimensions have their numbers.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprRange, RangeLimits, Token};

use super::elaborate::{Elaborator, collect_idents};
use super::errors::Errors;
use super::options::Options;
use super::template::parenthesized;
use super::template_expr::Scope;
use crate::dag::kernel_template::{Knob, MAX_KNOBS, MAX_VALUE, MAX_VALUES};

/// `BLOCK in [256, 128]`
#[derive(Clone)]
pub(super) struct KnobDeclaration {
    pub(super) ident: Ident,
    /// A list in brackets, or a range.
    pub(super) values: Expr,
}

/// Reads `(BLOCK in [256, 128, 64], ITEMS in 1..=8)`.
pub(super) fn option(
    input: ParseStream<'_>,
    options: &mut Options,
    errors: &mut Errors,
) -> syn::Result<()> {
    let example = "`knobs(BLOCK in [256, 128, 64], ITEMS in 1..=8)`";
    let inside = parenthesized(input, example)?;
    let mut declared = Vec::new();
    let parse = |input: ParseStream<'_>| {
        while !input.is_empty() {
            let ident = input.call(Ident::parse_any)?;
            if input.parse::<Option<Token![in]>>()?.is_none() {
                return Err(input.error(format!("expected `in`, as in {example}")));
            }
            declared.push(KnobDeclaration { ident, values: input.parse()? });
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    };
    parse.parse2(inside)?;
    for knob in declared {
        let (known, ident) = (&mut options.template.knobs, &knob.ident);
        if known.len() == MAX_KNOBS {
            errors.at::<()>(ident, format!("a template has at most {MAX_KNOBS} knobs"));
            break;
        }
        if known.iter().any(|it| it.ident == *ident) {
            errors.at::<()>(ident, format!("knob `{ident}` is declared twice: remove one"));
            continue;
        }
        known.push(knob);
    }
    Ok(())
}

/// Adds the words in the values of knobs, not their names.
pub(super) fn collect_words(knobs: TokenStream, words: &mut Vec<Ident>) {
    let mut is_value = false;
    for token in knobs {
        match &token {
            TokenTree::Ident(it) if it == "in" => is_value = true,
            TokenTree::Punct(it) if it.as_char() == ',' => is_value = false,
            _ if is_value => collect_idents(token.into(), words),
            _ => {}
        }
    }
}

impl Elaborator {
    /// Returns a knob with its values; `None` after an error.
    pub(super) fn knob(&mut self, declared: &KnobDeclaration) -> Option<Knob> {
        let KnobDeclaration { ident, values } = declared;
        let list: Vec<Option<i64>> = match values {
            Expr::Array(list) => list.elems.iter().map(|it| self.knob_value(it)).collect(),
            Expr::Range(ExprRange {
                start: Some(lo),
                limits: RangeLimits::Closed(_),
                end: Some(hi),
                ..
            }) => {
                let (lo, hi) = (self.knob_value(lo), self.knob_value(hi));
                let (lo, hi) = lo.zip(hi)?;
                (lo..=hi).take(MAX_VALUES + 1).map(Some).collect()
            }
            _ => {
                let message = format!(
                    "expected values in brackets or a range with its end, as in `{ident} in [256, 128]` \
                     or `{ident} in 1..=8`"
                );
                return self.errors.at(values, message);
            }
        };
        let list = list.into_iter().collect::<Option<Vec<i64>>>()?;
        let usable = list.iter().filter_map(|it| u64::try_from(*it).ok());
        let found: Vec<u64> = usable.filter(|it| *it <= MAX_VALUE).collect();
        if found.len() != list.len() || !(1..=MAX_VALUES).contains(&found.len()) {
            let message =
                format!("a knob has 1 to {MAX_VALUES} values, each from 0 to {MAX_VALUE}");
            return self.errors.at(values, message);
        }
        let mut sorted = found.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|it| it[0] == it[1]).map(|it| it[0]) {
            return self.errors.at(values, format!("value {twice} stands twice: remove one"));
        }
        Some(Knob { name: ident.to_string(), values: found })
    }

    fn knob_value(&mut self, expr: &Expr) -> Option<i64> {
        let value = self.launch_expr(expr, Scope::Knobs, 0)?.constant(&[]);
        value.or_else(|| self.errors.at(expr, "this integer is out of range"))
    }
}
