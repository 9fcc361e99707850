//! The paths that a body calls and that are no functions of the language: `act::gate` of `act::gate(x)`.
//!
//! They are found by tokens, since a walk over syntax would have to know all of it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use super::call::is_known_name;

/// A path that is called.
pub(super) struct CalledPath {
    /// Its names.
    pub(super) path: Vec<String>,
    /// Its tokens, where it stands first.
    pub(super) tokens: TokenStream,
    /// An identifier for it that nothing else has, or its own name.
    pub(super) name: String,
}

/// Returns the paths that a body calls, each once, in order.
pub(super) fn of(body: &TokenStream) -> Vec<CalledPath> {
    let mut taken = BTreeSet::new();
    let mut bound = BTreeSet::new();
    idents(body, &mut taken, &mut bound);
    let mut found: Vec<CalledPath> = Vec::new();
    rewrite(body.clone(), &mut |path, tokens| {
        let is_name = path.len() == 1;
        let is_own = is_name && (is_known(&path[0]) || bound.contains(&path[0]));
        if !is_own && found.iter().all(|it| it.path != path) {
            let mut name = path.join("_").replace("r#", "");
            while !is_name && !taken.insert(name.clone()) {
                name.push('_');
            }
            found.push(CalledPath {
                path: path.to_vec(),
                tokens: tokens.iter().cloned().collect(),
                name,
            });
        }
        None
    });
    found
}

/// Replaces paths that are called by names.
pub(super) fn renamed(body: TokenStream, names: &BTreeMap<Vec<String>, Ident>) -> TokenStream {
    rewrite(body, &mut |path, tokens| {
        let name = names.get(path).filter(|_| path.len() > 1)?;
        let span = tokens.last().map_or_else(Span::call_site, TokenTree::span);
        Some(Ident::new(&name.to_string(), span))
    })
}

/// The place of the first token.
pub(super) fn span(tokens: &TokenStream) -> Span {
    tokens.clone().into_iter().next().map_or_else(Span::call_site, |it| it.span())
}

/// The number of tokens, those in groups included.
pub(super) fn n_tokens(tokens: &TokenStream) -> usize {
    let count = |it: TokenTree| match it {
        TokenTree::Group(it) => 1 + n_tokens(&it.stream()),
        _ => 1,
    };
    tokens.clone().into_iter().map(count).sum()
}

/// Names that are called and are no functions of anybody.
fn is_known(name: &str) -> bool {
    const OTHERS: [&str; 9] =
        ["compute", "if", "else", "in", "let", "match", "return", "while", "as"];
    OTHERS.contains(&name) || is_known_name(name)
}

/// Collects all identifiers, and those that a `let` binds.
fn idents(tokens: &TokenStream, all: &mut BTreeSet<String>, bound: &mut BTreeSet<String>) {
    let mut is_bound = false;
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(it) => {
                let name = it.to_string();
                if is_bound {
                    bound.insert(name.clone());
                }
                is_bound = name == "let";
                all.insert(name);
            }
            TokenTree::Group(it) => idents(&it.stream(), all, bound),
            TokenTree::Punct(_) | TokenTree::Literal(_) => is_bound = false,
        }
    }
}

/// Gets the names and the tokens of a path that is called; returns what takes its place, if anything does.
type Replace<'a> = &'a mut dyn FnMut(&[String], &[TokenTree]) -> Option<Ident>;

/// Calls `f` with the names and tokens of each path that is called; replaces it where `f` gives a name.
fn rewrite(tokens: TokenStream, f: Replace<'_>) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let TokenTree::Group(group) = token else {
            out.push(token);
            continue;
        };
        if group.delimiter() == Delimiter::Parenthesis {
            let start = path_start(&out);
            let path: Vec<String> = out[start..].iter().filter_map(name).collect();
            if let Some(name) = (!path.is_empty()).then(|| f(&path, &out[start..])).flatten() {
                out.truncate(start);
                out.push(name.into());
            }
        }
        let mut inside = Group::new(group.delimiter(), rewrite(group.stream(), f));
        inside.set_span(group.span());
        out.push(inside.into());
    }
    out.into_iter().collect()
}

fn name(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(it) => Some(it.to_string()),
        _ => None,
    }
}

/// The position at which the path begins that the tokens end in; their number if they end in none, or in the
/// name of a method or of a nested function.
fn path_start(tokens: &[TokenTree]) -> usize {
    let is =
        |at: usize, mark: char| matches!(&tokens[at], TokenTree::Punct(it) if it.as_char() == mark);
    let is_name = |at: usize| matches!(tokens[at], TokenTree::Ident(_));
    let end = tokens.len();
    let Some(mut start) = end.checked_sub(1).filter(|it| is_name(*it)) else { return end };
    while start >= 3 && is(start - 1, ':') && is(start - 2, ':') && is_name(start - 3) {
        start -= 3;
    }
    let before = start.checked_sub(1);
    let is_other = before.is_some_and(|it| {
        let is_fn = matches!(&tokens[it], TokenTree::Ident(it) if it == "fn");
        is_fn || (is(it, '.') && !(it > 0 && is(it - 1, '.')))
    });
    if is_other { end } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(body: &str) -> Vec<String> {
        of(&body.parse().unwrap())
            .iter()
            .map(|it| format!("{} = {}", it.name, it.path.join("::")))
            .collect()
    }

    #[test]
    fn functions_of_the_language_methods_and_bound_names_are_no_paths() {
        let body = "{ let own = |x| x; compute(|i| if (i < 3) { exp(own(x.get([i]).unwrap_or(0.0))) } \
                    else { sum(0..K, |k| gate(x[[k]])) }) }";
        assert_eq!(paths(body), ["gate = gate"]);
    }

    #[test]
    fn paths_get_names_that_nothing_has() {
        let body = "act_gate * act::gate(super::act::gate(x)) + (0..n()) + act::gate(y)";
        assert_eq!(
            paths(body),
            ["act_gate_ = act::gate", "super_act_gate = super::act::gate", "n = n"]
        );
        let names = BTreeMap::from([(
            vec!["act".to_owned(), "gate".to_owned()],
            Ident::new("m", Span::call_site()),
        )]);
        let renamed = renamed(body.parse().unwrap(), &names).to_string();
        let wanted: TokenStream =
            "act_gate * m(super::act::gate(x)) + (0..n()) + m(y)".parse().unwrap();
        assert_eq!(renamed, wanted.to_string());
    }
}
