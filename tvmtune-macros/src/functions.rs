//! Functions of the crate that an op calls: they are bound in front of its body, and checked.
//!
//! In: an annotated function. Out: the same with the functions that it calls, read in the sources of the
//! crate by the rules of the build script ([`tvmtune_plan::source`]), and items by which the compiler
//! compares the text that was read with that which it compiles. Next: the program is read.
//!
//! # Invariants
//!
//! - A wrong reading does not compile.
//! - A function that calls none but those of the language costs nothing: no source is read.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::ItemFn;
use syn::spanned::Spanned;
use tvmtune_ir::dsl::{self, Called};
use tvmtune_plan::source::Place;

use crate::constants::{position, with_sources};

/// Binds the functions that a function calls; returns items that compare what was read.
pub(crate) fn resolve(function: &mut ItemFn, options: &TokenStream) -> TokenStream {
    if !dsl::calls_others(function) {
        return TokenStream::new();
    }
    let ident = function.sig.ident.clone();
    let (file, line) = position(ident.span());
    let place = Place {
        name: ident.to_string(),
        options: options.to_string(),
        written: file.clone(),
        file,
        line,
    };
    let called = with_sources(|sources| sources.with_functions(&place, function));
    called.iter().map(|it| check(it, &ident.to_string())).collect()
}

/// An item that does not compile if a function has another text than was read, or is another one.
fn check(called: &Called, caller: &str) -> TokenStream {
    let Called { path, ty, fingerprint } = called;
    let written = path.to_string().replace(' ', "");
    let message = format!(
        "`{written}` was read as another function for `{caller}`: give it a name that is found without \
         knowing `cfg`s and macros"
    );
    quote_spanned! {path.span()=>
        #[allow(clippy::all, clippy::pedantic, clippy::restriction)]
        const _: () = {
            let _: #ty = #path;
            ::core::assert!(#path::FINGERPRINT == #fingerprint, #message);
        };
    }
}
