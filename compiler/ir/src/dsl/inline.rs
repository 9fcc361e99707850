//! Functions of the crate: `#[autotune::inline] fn gate(x: f32) -> f32 { .. }`.
//!
//! A program sees its own tokens only. So whoever reads it finds the functions that it calls in the sources
//! of the crate ([`Functions`]), and [`with_functions`] binds each in front of the body, as a closure:
//!
//! ```text
//! compute(|i| act::gate(x[[i]]))
//!     =>  let act_gate = #[autotune::inline = "act::gate"] |x: f32| -> f32 { x * sigmoid(1.702 * x) };
//!         compute(|i| act_gate(x[[i]]))
//! ```
//!
//! From there on nobody needs the sources: the program is that of its tokens.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, FnArg, ItemFn, ReturnType, Signature};

use super::call::is_known_name;
use super::called_paths::{self as calls, CalledPath};
use super::errors::Errors;
use super::nesting::{self, MAX_TOKENS};
use super::signature::type_name;
use crate::dag::DType;
use crate::digest::Digest;

/// The functions of a crate, as its sources tell.
pub trait Functions {
    /// A place where names have meanings: the module of a program, or of a function.
    type Scope: Clone;

    /// Finds the function that a path names in a scope. Returns its text, without attributes, and its
    /// scope; none if there is no such function.
    ///
    /// # Errors
    ///
    /// The reason why a function of that name cannot be read.
    fn find(
        &mut self,
        scope: &Self::Scope,
        path: &[String],
    ) -> Result<Option<(Self::Scope, String)>, String>;
}

/// A function of the crate that a program calls.
pub struct Called {
    /// Its path, where the program calls it first.
    pub path: TokenStream,
    /// The signature as a type: `fn(f32) -> f32`, with full names.
    pub ty: TokenStream,
    /// The [`fingerprint`] of the text that was read.
    pub fingerprint: u64,
}

/// Binds the functions of the crate that a program calls in front of its body; returns those that it
/// calls itself. A reason why one cannot be read stands in its place, and is reported with the program.
pub fn with_functions<F: Functions>(
    item: &mut ItemFn,
    scope: &F::Scope,
    functions: &mut F,
) -> Vec<Called> {
    if nesting::check(&item.to_token_stream()).is_err() {
        return Vec::new();
    }
    let mut insertion = Insertion { functions, open: Vec::new(), n_tokens: 0, called: Vec::new() };
    insertion.insert(item, scope);
    insertion.called
}

/// Returns whether a function calls others than those of the language, and that it binds.
pub fn calls_others(item: &ItemFn) -> bool {
    !calls::of(&item.block.to_token_stream()).is_empty()
}

/// Returns whether attributes say that a function is for inlining: `#[autotune::inline]`, by any path.
pub fn is_inline(path: &syn::Path) -> bool {
    let names: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
    matches!(names.as_slice(), [.., of, inline] if of == "autotune" && inline == "inline")
}

/// The path of the function that a closure stands for, as its attributes say.
pub(super) fn path_of(attributes: &[Attribute]) -> Option<String> {
    let marked = attributes.iter().find(|it| is_inline(it.path()))?;
    match &marked.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }),
            ..
        }) => Some(path.value()),
        _ => None,
    }
}

/// The text of a function without attributes and visibility, which say nothing about its values.
pub fn bare_text(function: &ItemFn) -> String {
    let bare = ItemFn { attrs: Vec::new(), vis: syn::Visibility::Inherited, ..function.clone() };
    bare.to_token_stream().to_string()
}

/// Tells texts of functions apart: that which the sources show, and that which the compiler compiles.
/// White space says nothing: it is another one where tokens come from a compiler.
pub fn fingerprint(function: &ItemFn) -> u64 {
    let text: String = bare_text(function).chars().filter(|it| !it.is_whitespace()).collect();
    Digest::of([text.as_bytes()]).prefix()
}

/// Returns the program of one number that a function computes of its parameters.
///
/// # Errors
///
/// All that keeps it from being one, but what is wrong with its body.
pub fn inline_program(function: &ItemFn) -> syn::Result<ItemFn> {
    const NUMBERS: &str = "a function that is inlined takes and returns numbers, as in \
                           `fn f(x: f32) -> f32`, 16-bit floats as `f32`; tensors are read where it is \
                           called, as in `f(x[[i]])`";
    let mut errors = Errors::default();
    let ident = &function.sig.ident;
    if is_known_name(&ident.to_string()) {
        let message = format!("`{ident}` is a function of the language: choose another name");
        errors.at::<()>(ident, message);
    }
    for it in &function.sig.inputs {
        if !matches!(it, FnArg::Typed(it) if is_number(&it.ty)) {
            errors.at::<()>(it, NUMBERS);
        }
    }
    let result = match &function.sig.output {
        ReturnType::Type(_, ty) if is_number(ty) => Some(ty),
        ReturnType::Type(_, ty) => errors.at(ty, NUMBERS),
        ReturnType::Default => errors.at(ident, NUMBERS),
    };
    let result = errors.finish(result)?;
    let block = &function.block;
    let mut program = function.clone();
    program.sig.output = syn::parse2(quote!(-> Tensor<#result, 1>))?;
    program.block = Box::new(syn::parse2(quote!({ compute(|_| #block) }))?);
    Ok(program)
}

fn is_number(ty: &syn::Type) -> bool {
    let dtype = type_name(ty).and_then(|it| it.parse::<DType>().ok());
    dtype.is_some_and(|it| it == it.compute())
}

/// The insertion of functions into one program.
struct Insertion<'a, F> {
    functions: &'a mut F,
    /// The texts of the functions whose bodies are being read, outermost first.
    open: Vec<String>,
    /// The tokens of the functions that were read.
    n_tokens: usize,
    /// The functions that the program itself calls.
    called: Vec<Called>,
}

impl<F: Functions> Insertion<'_, F> {
    /// Binds the functions that a body calls in front of it.
    fn insert(&mut self, item: &mut ItemFn, scope: &F::Scope) {
        let block = item.block.to_token_stream();
        let (mut names, mut bound) = (BTreeMap::new(), TokenStream::new());
        for CalledPath { path, tokens, name } in calls::of(&block) {
            let span = calls::span(&tokens);
            let value = match self.function(scope, &path, &tokens) {
                Ok(None) => continue,
                Ok(Some(closure)) => closure,
                Err(reason) => quote_spanned!(span=> compile_error!(#reason)),
            };
            let name = Ident::new(&name, span);
            bound.extend(quote!(let #name = #value;));
            names.insert(path, name);
        }
        if names.is_empty() {
            return;
        }
        let Some(TokenTree::Group(body)) = block.into_iter().next() else { return };
        bound.extend(calls::renamed(body.stream(), &names));
        let mut body = Group::new(Delimiter::Brace, bound);
        body.set_span(item.block.brace_token.span.join());
        // A body that does not parse now did not parse before, either.
        if let Ok(block) = syn::parse2(TokenTree::from(body).into()) {
            *item.block = block;
        }
    }

    /// The function that a path names, as a closure.
    fn function(
        &mut self,
        scope: &F::Scope,
        path: &[String],
        tokens: &TokenStream,
    ) -> Result<Option<TokenStream>, String> {
        let Some((inside, text)) = self.functions.find(scope, path)? else { return Ok(None) };
        let name = path.join("::");
        if self.open.contains(&text) {
            return Err(format!("`{name}` calls itself, so it cannot be inlined"));
        }
        let refused =
            || format!("`{name}` is no function that can be inlined: see the error there");
        let parsed: TokenStream = text.parse().map_err(|_| refused())?;
        self.n_tokens += calls::n_tokens(&parsed);
        if self.n_tokens > MAX_TOKENS {
            return Err(format!(
                "the functions that this program calls have more than {MAX_TOKENS} tokens together, \
                 each counted as often as others call it"
            ));
        }
        nesting::check(&parsed).map_err(|_| refused())?;
        let mut function: ItemFn = syn::parse2(parsed).map_err(|_| refused())?;
        inline_program(&function).map_err(|_| refused())?;
        if self.open.is_empty() {
            let (path, ty) = (tokens.clone(), pointer_type(&function.sig));
            self.called.push(Called { path, ty, fingerprint: fingerprint(&function) });
        }
        self.open.push(text);
        self.insert(&mut function, &inside);
        self.open.pop();
        let (inputs, output, block) = (&function.sig.inputs, &function.sig.output, &function.block);
        Ok(Some(quote!(#[autotune::inline = #name] |#inputs| #output #block)))
    }
}

/// `fn(f32) -> f32`, where names of types may mean something else.
fn pointer_type(signature: &Signature) -> TokenStream {
    let types = signature.inputs.iter().filter_map(|it| match it {
        FnArg::Typed(it) => Some(&it.ty),
        FnArg::Receiver(_) => None,
    });
    let output = match &signature.output {
        ReturnType::Type(_, ty) => quote!(-> ::core::primitive::#ty),
        ReturnType::Default => TokenStream::new(),
    };
    quote!(fn(#(::core::primitive::#types),*) #output)
}
