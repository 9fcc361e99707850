//! Kernel templates in the attribute: a file of CUDA C++, its knobs, and its launches.
//!
//! ```text
//! template = "kernels/histogram.cu",
//! params("kernels/histogram.h", histogram_params),
//! knobs(BLOCK in [256, 128, 64], ITEMS in 1..=8),
//! constraints(BLOCK * ITEMS <= 2048),
//! kernels(histogram(grid = (N + BLOCK - 1) / BLOCK, block = BLOCK, shared = BINS * 4)),
//! reference("kernels/histogram.rs", histogram),
//! ```
//!
//! Nothing here reads a file: whoever has the sources of the crate puts the text of the file behind its
//! name first ([`with_templates`]), so that a function with its attribute is all of a program. Next:
//! `template_expr` gives the expressions their meaning, once dimensions have their numbers.

use proc_macro2::{Delimiter, Group, Ident, Literal, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, LitStr, Token};

use super::bindings::Bindings;
use super::elaborate::collect_idents;
use super::errors::Errors;
use super::knobs::{self, KnobDeclaration};
use super::options::{Assignment, Options, assignments};
use super::reference::{self, ReferenceDeclaration};
use crate::dag::kernel_template::{MAX_KERNELS, MAX_LINES};

/// The options that say something about a template.
pub(super) const NAMES: [&str; 6] =
    ["template", "params", "knobs", "constraints", "kernels", "reference"];

/// A template as the attribute has it.
#[derive(Clone, Default)]
pub(super) struct TemplateDeclaration {
    /// The options that were given, in order.
    pub(super) given: Vec<Ident>,
    /// The name of the file.
    pub(super) file: Option<LitStr>,
    /// Its text, once somebody has read it.
    pub(super) source: Option<String>,
    pub(super) params: Option<ParamsDeclaration>,
    pub(super) knobs: Vec<KnobDeclaration>,
    pub(super) constraints: Vec<Expr>,
    pub(super) kernels: Vec<KernelDeclaration>,
    pub(super) reference: Option<ReferenceDeclaration>,
}

impl TemplateDeclaration {
    /// The value of a constant of the header.
    pub(super) fn constant(&self, name: &str) -> Option<i64> {
        let constants = &self.params.as_ref()?.bindings.as_ref()?.constants;
        constants.iter().find(|it| it.0 == name).map(|it| it.1)
    }
}

/// `params("kernels/histogram.h", histogram_params)`
#[derive(Clone)]
pub(super) struct ParamsDeclaration {
    pub(super) ident: Ident,
    /// The layout and the constants of the header, once it was read.
    pub(super) bindings: Option<Bindings>,
}

/// A text that an attribute names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedText {
    /// The template of that file name.
    Template(String),
    /// The file of that name, in Rust.
    Reference(String),
    /// Bindings of a header for the struct of that name, and for constants that have one of some names.
    Bindings {
        /// The name of the header.
        header: String,
        /// The name of the struct.
        name: String,
        /// Words of the attribute, sorted: constants of these names may be meant.
        words: Vec<String>,
    },
}

/// `histogram(grid = .., block = .., shared = ..)`
#[derive(Clone)]
pub(super) struct KernelDeclaration {
    pub(super) ident: Ident,
    pub(super) grid: Option<Expr>,
    pub(super) block: Option<Expr>,
    pub(super) shared: Option<Expr>,
}

/// Puts the texts of templates, and the bindings of headers, behind their names in an attribute's
/// arguments, as `read` knows them; its error is the reason why it does not, and is reported where the
/// name stands.
pub fn with_templates(
    options: TokenStream,
    read: &mut dyn FnMut(&NamedText) -> Result<String, String>,
) -> TokenStream {
    let words = words(&options);
    let mut tokens: Vec<TokenTree> = Vec::new();
    for token in options {
        let before = match tokens.as_slice() {
            [.., TokenTree::Ident(name), TokenTree::Punct(it)] if it.as_char() == '=' => Some(name),
            [.., TokenTree::Ident(name)] => Some(name),
            _ => None,
        };
        let named = match (&token, before) {
            (TokenTree::Literal(it), Some(name)) if name == "template" => {
                string(it).map(NamedText::Template)
            }
            (TokenTree::Group(it), Some(name)) if name == "params" => bindings(it, &words),
            (TokenTree::Group(it), Some(name)) if name == "reference" => {
                first_string(it).map(NamedText::Reference)
            }
            _ => None,
        };
        let span = token.span();
        tokens.push(token);
        let Some(named) = named else { continue };
        let inside = match read(&named) {
            Ok(text) => {
                let mut text = Literal::string(&text);
                text.set_span(span);
                TokenTree::from(text).into()
            }
            Err(why) => quote_spanned!(span=> compile_error!(#why)),
        };
        let mut group = Group::new(Delimiter::Parenthesis, inside);
        group.set_span(span);
        tokens.push(group.into());
    }
    tokens.into_iter().collect()
}

/// The words in constraints, launches and the values of knobs, sorted.
fn words(options: &TokenStream) -> Vec<String> {
    let (mut idents, mut before) = (Vec::new(), None);
    for token in options.clone() {
        if let (TokenTree::Group(it), Some(name)) = (&token, &before) {
            if name == "constraints" || name == "kernels" {
                collect_idents(it.stream(), &mut idents);
            } else if name == "knobs" {
                knobs::collect_words(it.stream(), &mut idents);
            }
        }
        before = match token {
            TokenTree::Ident(it) => Some(it),
            _ => None,
        };
    }
    let mut words: Vec<String> = idents.iter().map(ToString::to_string).collect();
    words.sort();
    words.dedup();
    words
}

/// The value of a literal, if it is a string.
fn string(literal: &Literal) -> Option<String> {
    syn::parse_str::<LitStr>(&literal.to_string()).ok().map(|it| it.value())
}

/// The string that a group begins with.
fn first_string(group: &Group) -> Option<String> {
    match group.stream().into_iter().next()? {
        TokenTree::Literal(it) => string(&it),
        _ => None,
    }
}

/// `("kernels/histogram.h", histogram_params)`
fn bindings(group: &Group, words: &[String]) -> Option<NamedText> {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let [TokenTree::Literal(header), TokenTree::Punct(_), TokenTree::Ident(name)] = &tokens[..]
    else {
        return None;
    };
    let (header, name) = (string(header)?, name.to_string());
    Some(NamedText::Bindings { header, name, words: words.to_vec() })
}

/// Reads one of the options of a template; `false` if `name` is another one.
pub(super) fn option(
    name: &Ident,
    input: ParseStream<'_>,
    options: &mut Options,
    errors: &mut Errors,
) -> syn::Result<bool> {
    match name.to_string().as_str() {
        "template" => file(input, options, errors)?,
        "params" => params(input, options, errors)?,
        "knobs" => knobs::option(input, options, errors)?,
        "constraints" => {
            let inside = parenthesized(input, "`constraints(BLOCK * ITEMS <= 4096)`")?;
            let parse = |input: ParseStream<'_>| input.parse_terminated(Expr::parse, Token![,]);
            let list = parse.parse2(inside)?;
            options.template.constraints.extend(list);
        }
        "kernels" => kernels(input, options, errors)?,
        "reference" => reference::option(input, options, errors)?,
        _ => return Ok(false),
    }
    let TemplateDeclaration { constraints, kernels, .. } = &options.template;
    if constraints.len() > MAX_LINES || kernels.len() > MAX_KERNELS {
        let message = format!(
            "a template has at most {MAX_KERNELS} kernels and {MAX_LINES} constraints: write \
             several functions"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    options.template.given.push(name.clone());
    Ok(true)
}

/// `= "kernels/histogram.cu"`, with the text behind it.
fn file(input: ParseStream<'_>, options: &mut Options, errors: &mut Errors) -> syn::Result<()> {
    let example = "`template = \"kernels/histogram.cu\"`";
    if input.parse::<Option<Token![=]>>()?.is_none() || !input.peek(LitStr) {
        return Err(input.error(format!("expected `=` and the name of a file, as in {example}")));
    }
    let name: LitStr = input.parse()?;
    if name.value().is_empty() || name.value().contains(['"', '\\', '\n', '\r']) {
        errors.at::<()>(&name, format!("expected the name of a file, as in {example}"));
    }
    options.template.source = text_of(input, &name, &name.value(), errors)?;
    options.template.file = Some(name);
    Ok(())
}

/// `("kernels/histogram.h", histogram_params)`, with the bindings behind it.
fn params(input: ParseStream<'_>, options: &mut Options, errors: &mut Errors) -> syn::Result<()> {
    let example = "`params(\"kernels/histogram.h\", histogram_params)`";
    let inside = parenthesized(input, example)?;
    let parse = |input: ParseStream<'_>| {
        if !input.peek(LitStr) {
            return Err(input.error(format!("expected the name of a header, as in {example}")));
        }
        let header: LitStr = input.parse()?;
        if input.parse::<Option<Token![,]>>()?.is_none() {
            return Err(input.error(format!("expected the name of a struct, as in {example}")));
        }
        Ok((header, input.parse::<Ident>()?))
    };
    let (header, ident) = parse.parse2(inside)?;
    let text = text_of(input, &header, &header.value(), errors)?;
    let bindings = text.and_then(|it| Bindings::read(&it, &ident, errors));
    options.template.params = Some(ParamsDeclaration { ident, bindings });
    Ok(())
}

/// The text that somebody put behind a name; `None` after an error.
pub(super) fn text_of(
    input: ParseStream<'_>,
    place: &LitStr,
    name: &str,
    errors: &mut Errors,
) -> syn::Result<Option<String>> {
    if !input.peek(syn::token::Paren) {
        return Ok(errors.at(place, format!("the text of `{name}` is not at hand")));
    }
    let inside = parenthesized(input, "a text in parentheses")?;
    if let Ok(text) = syn::parse2::<LitStr>(inside.clone()) {
        return Ok(Some(text.value()));
    }
    let why = syn::parse2::<syn::ExprMacro>(inside);
    let why = why.and_then(|it| it.mac.parse_body::<LitStr>());
    let unread = |_| format!("`{name}` cannot be read");
    Ok(errors.at(place, why.map_or_else(unread, |it| it.value())))
}

/// `(clear(grid = 1, block = 256), histogram(grid = .., block = .., shared = ..))`
fn kernels(input: ParseStream<'_>, options: &mut Options, errors: &mut Errors) -> syn::Result<()> {
    let example = "`kernels(histogram(grid = N / 256, block = 256))`";
    let inside = parenthesized(input, example)?;
    let mut declared = Vec::new();
    let parse = |input: ParseStream<'_>| {
        while !input.is_empty() {
            let ident = input.call(Ident::parse_any)?;
            declared.push((ident, assignments(input, example)?));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    };
    parse.parse2(inside)?;
    for (ident, parts) in declared {
        let mut kernel = KernelDeclaration { ident, grid: None, block: None, shared: None };
        for Assignment { name, value } in parts {
            let part = match name.to_string().as_str() {
                "grid" => &mut kernel.grid,
                "block" => &mut kernel.block,
                "shared" => &mut kernel.shared,
                other => {
                    let message = format!(
                        "unknown part `{other}` of a launch: write `grid = ..`, `block = ..` or \
                         `shared = ..`"
                    );
                    errors.at::<()>(&name, message);
                    continue;
                }
            };
            if part.replace(value).is_some() {
                errors.at::<()>(&name, format!("`{name}` is given twice: remove one"));
            }
        }
        options.template.kernels.push(kernel);
    }
    Ok(())
}

/// The tokens in parentheses.
pub(super) fn parenthesized(input: ParseStream<'_>, example: &str) -> syn::Result<TokenStream> {
    let content;
    if !input.peek(syn::token::Paren) {
        return Err(input.error(format!("expected parentheses, as in {example}")));
    }
    syn::parenthesized!(content in input);
    content.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(options: &str, expected: &str) {
        let mut read = |it: &NamedText| match it {
            NamedText::Template(name) if name == "a.cu" => Ok("a \"text\"\n".to_owned()),
            NamedText::Template(name) => Err(format!("no {name}")),
            NamedText::Reference(name) => Ok(format!("{name} of Rust")),
            NamedText::Bindings { header, name, words } => {
                Ok(format!("{header} {name} {}", words.join(" ")))
            }
        };
        let found = with_templates(options.parse().unwrap(), &mut read).to_string();
        let expected: TokenStream = expected.parse().unwrap();
        assert_eq!(found, expected.to_string());
    }

    #[test]
    fn the_text_of_a_file_stands_behind_its_name() {
        check(
            r#"dims(N = 3), template = "a.cu", knobs(B in [1])"#,
            r#"dims(N = 3), template = "a.cu" ("a \"text\"\n"), knobs(B in [1])"#,
        );
        check(r#"template = "b.cu""#, r#"template = "b.cu" (compile_error!("no b.cu"))"#);
        check(
            r#"params("a.h", a), kernels(a(grid = 1, block = B)), constraints(A < 3)"#,
            r#"params("a.h", a) ("a.h a A B a block grid"), kernels(a(grid = 1, block = B)), constraints(A < 3)"#,
        );
        check(
            r#"params("a.h", a), knobs(A in [B, 2 * C], D in E..=8)"#,
            r#"params("a.h", a) ("a.h a B C E"), knobs(A in [B, 2 * C], D in E..=8)"#,
        );
        check(r#"reference("a.rs", a)"#, r#"reference("a.rs", a) ("a.rs of Rust")"#);
        check(r#"templates = "a.cu", tol(rel = 1)"#, r#"templates = "a.cu", tol(rel = 1)"#);
    }
}
