//! Expands `#[autotune::inline]`: the function that ops may call, as a function of Rust.
//!
//! Its body is of the language of programs, in which `exp(x)` needs no import. So what takes its place is
//! its portable code, which computes the same bits as ops that call it do in portable code; and a module
//! of its name, in which ops find out whether they read the text that is compiled.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{FnArg, ItemFn, Pat, Token};
use tvmtune_cpu::rust;
use tvmtune_ir::dsl;
use tvmtune_plan::contain::contained;
use tvmtune_plan::embed;

use crate::functions;

/// Expands `#[autotune::inline(options)] item`. Errors become `compile_error!`; next to them stands a
/// function with the same signature.
pub(crate) fn inline(options: TokenStream, item: TokenStream) -> TokenStream {
    let function = dsl::check_nesting(&item).and_then(|()| syn::parse2::<ItemFn>(item));
    let function = match function {
        Ok(function) => function,
        Err(error) => return error.into_compile_error(),
    };
    let ItemFn { attrs, vis, sig, .. } = &function;
    let (ident, fingerprint) = (&sig.ident, dsl::fingerprint(&function));
    let (code, value, checks) = match code(&options, &function) {
        Ok(Code { module, value, checks }) => (module, value, checks),
        Err(error) => {
            (TokenStream::new(), quote!(::core::unreachable!()), error.into_compile_error())
        }
    };
    quote! {
        #(#attrs)*
        #[allow(unused_variables)]
        #vis #sig {
            #value
        }

        #[doc(hidden)]
        #[allow(clippy::all, clippy::pedantic, clippy::restriction, unused)]
        #vis mod #ident {
            /// Tells the text of the function from others.
            pub const FINGERPRINT: ::core::primitive::u64 = #fingerprint;
            #code
        }

        #checks
    }
}

/// The expansion of a function without errors.
struct Code {
    /// The items of its module.
    module: TokenStream,
    /// The expression of its value.
    value: TokenStream,
    checks: TokenStream,
}

fn code(options: &TokenStream, function: &ItemFn) -> syn::Result<Code> {
    let rt = runtime(options)?;
    let mut bound = function.clone();
    let checks = functions::resolve(&mut bound, options);
    let ident = &function.sig.ident;
    let print = || {
        let program = dsl::inline_program(&bound)?;
        let dag = dsl::build(&dsl::parse(TokenStream::new(), &program)?)?;
        let text = rust::print(&embed::portable(&dag));
        text.parse::<TokenStream>().map_err(|it| syn::Error::new(ident.span(), it))
    };
    let text = || dsl::bare_text(function);
    let portable = contained(&ident.to_string(), text, print)
        .map_err(|it| syn::Error::new(ident.span(), it))??;
    let names = function.sig.inputs.iter().filter_map(parameter);
    let value = quote! {
        let mut result = [::core::default::Default::default()];
        #ident::portable(#(#names,)* &mut result);
        result[0]
    };
    Ok(Code { module: quote! { use #rt as rt; #portable }, value, checks })
}

/// The crate `tvmtune_runtime`, as seen from where the function stands.
fn runtime(options: &TokenStream) -> syn::Result<TokenStream> {
    let parse = |input: ParseStream<'_>| {
        if input.is_empty() {
            return Ok(quote!(::tvmtune_runtime));
        }
        if !input.peek(Token![crate]) {
            return Err(input.error("expected nothing here, or `crate = ::path`"));
        }
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        let path = input.call(syn::Path::parse_mod_style)?;
        Ok(quote!(#path))
    };
    parse.parse2(options.clone())
}

fn parameter(argument: &FnArg) -> Option<&Ident> {
    match argument {
        FnArg::Typed(it) => match &*it.pat {
            Pat::Ident(it) => Some(&it.ident),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    }
}
