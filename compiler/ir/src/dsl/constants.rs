//! Constants in `dims(..)` and `buckets(..)`: each is replaced by its value before anything else reads
//! the attribute, so that a program is that of the number.
//!
//! A macro cannot evaluate a constant; whoever calls this reads the sources, and has the compiler check
//! what was read. Where a value is not known, `compile_error!(..)` stands in its place, which the
//! options report like any other mistake.

use proc_macro2::{Group, Ident, Literal, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Path, Token};

use crate::similar;

/// `name = value`
struct Assignment {
    name: Ident,
    equals: Token![=],
    value: Expr,
}

/// Replaces the constants in an attribute's arguments by their values, as `read` knows them; its error
/// is the reason why it does not. The rest stays as it is, mistakes included.
pub fn with_constants(
    options: TokenStream,
    read: &mut dyn FnMut(&Path) -> Result<i128, String>,
) -> TokenStream {
    let mut tokens = Vec::new();
    for token in options {
        let list = match tokens.last() {
            Some(TokenTree::Ident(it)) if it == "dims" => Some(true),
            Some(TokenTree::Ident(it)) if it == "buckets" => Some(false),
            _ => None,
        };
        tokens.push(match (token, list) {
            (TokenTree::Group(group), Some(declares)) => {
                let inside = assignments(group.stream(), declares, read);
                let mut replaced =
                    Group::new(group.delimiter(), inside.unwrap_or_else(|| group.stream()));
                replaced.set_span(group.span());
                replaced.into()
            }
            (token, _) => token,
        });
    }
    tokens.into_iter().collect()
}

/// The same in `M = .., N = ..`; `None` if these are no assignments.
fn assignments(
    tokens: TokenStream,
    declares: bool,
    read: &mut dyn FnMut(&Path) -> Result<i128, String>,
) -> Option<TokenStream> {
    let parser = Punctuated::<Assignment, Token![,]>::parse_terminated_with;
    let parser = |input: ParseStream<'_>| parser(input, Assignment::parse);
    let mut list = parser.parse2(tokens).ok()?;
    let all: Vec<Ident> = list.iter().filter(|_| declares).map(|it| it.name.clone()).collect();
    for (n, it) in list.iter_mut().enumerate() {
        let (before, later) = (&all[..n.min(all.len())], all.get(n + 1..).unwrap_or_default());
        replace(&mut it.value, &mut |path| {
            let is = |it: &Ident| path.is_ident(it);
            if before.iter().any(is) {
                return None;
            }
            match read(path) {
                Ok(value) => Some(number(value, path)),
                // The options say that it comes too late.
                Err(_) if later.iter().any(is) => None,
                Err(why) => Some(unknown(path, before, &why)),
            }
        });
    }
    Some(list.to_token_stream())
}

/// Replaces the paths of an expression where `f` has something else.
fn replace(expr: &mut Expr, f: &mut dyn FnMut(&Path) -> Option<Expr>) {
    match expr {
        Expr::Path(it) if it.qself.is_none() => {
            if let Some(value) = f(&it.path) {
                *expr = value;
            }
        }
        Expr::Paren(it) => replace(&mut it.expr, f),
        Expr::Group(it) => replace(&mut it.expr, f),
        Expr::Cast(it) => replace(&mut it.expr, f),
        Expr::Array(it) => it.elems.iter_mut().for_each(|it| replace(it, f)),
        Expr::Binary(it) => {
            replace(&mut it.left, f);
            replace(&mut it.right, f);
        }
        Expr::Range(it) => {
            for end in [&mut it.start, &mut it.end].into_iter().flatten() {
                replace(end, f);
            }
        }
        _ => {}
    }
}

fn number(value: i128, path: &Path) -> Expr {
    let mut number = Literal::i128_unsuffixed(value.saturating_abs());
    number.set_span(path.span());
    let number = Expr::Lit(syn::ExprLit { attrs: Vec::new(), lit: syn::Lit::new(number) });
    if value >= 0 {
        return number;
    }
    let minus = syn::parse_quote_spanned!(path.span()=> (0 - #number));
    minus
}

/// A report in the place of a value.
fn unknown(path: &Path, dims: &[Ident], why: &str) -> Expr {
    let name = path.to_token_stream().to_string().replace(' ', "");
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    let message = match similar::suggestion(&name, dims.iter().map(String::as_str)) {
        Some(meant) => format!("`{name}` is no dimension declared before{meant}"),
        None => format!(
            "{why}: write the number, and have the compiler compare them: `const _: () = \
             assert!({name} == 1024);`"
        ),
    };
    let tokens = quote_spanned!(path.span()=> compile_error!(#message));
    Expr::Verbatim(tokens)
}

impl Assignment {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        Ok(Self { name, equals: input.parse()?, value: input.parse()? })
    }
}

impl ToTokens for Assignment {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.name.to_tokens(tokens);
        self.equals.to_tokens(tokens);
        self.value.to_tokens(tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments with `H` = 1024 and `config::M` = 64, and no other constant known.
    #[track_caller]
    fn check(options: &str, expected: &str) {
        let mut read = |path: &Path| {
            let name = path.to_token_stream().to_string().replace(' ', "");
            match name.as_str() {
                "H" => Ok(1024),
                "config::M" => Ok(64),
                "NEGATIVE" => Ok(-3),
                _ => Err("reason".to_owned()),
            }
        };
        let replaced = with_constants(options.parse().unwrap(), &mut read).to_string();
        let expected: TokenStream = expected.parse().unwrap();
        assert_eq!(replaced, expected.to_string());
    }

    #[test]
    fn constants_are_replaced_where_extents_stand() {
        check("dims(K = H, F = H * 4 + K)", "dims(K = 1024, F = 1024 * 4 + K)");
        check("dims(M = 1..=config::M), tol(rel = H)", "dims(M = 1..=64), tol(rel = H)");
        check("buckets(M = [16, config::M])", "buckets(M = [16, 64])");
        check("dims(H = H as usize, T = (H))", "dims(H = 1024 as usize, T = (H))");
        check("dims(N = NEGATIVE + 4)", "dims(N = (0 - 3) + 4)");
    }

    #[test]
    fn unknown_ones_are_reported_in_their_place() {
        check(
            "dims(K = 4, N = KK, T = K)",
            r#"dims(K = 4, N = compile_error!("`KK` is no dimension declared before: did you mean `K`?"), T = K)"#,
        );
        let options = with_constants("dims(K = OTHER)".parse().unwrap(), &mut |_| Err("so".into()));
        assert!(options.to_string().contains("so: write the number"), "{options}");
    }

    #[test]
    fn mistakes_stay_for_others_to_report() {
        for text in ["dims(K = N, N = 3)", "dims(K N)", "dims", "dims = H", "dims(K = f(H))"] {
            check(text, text);
        }
    }
}
