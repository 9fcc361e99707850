//! Stubs for programs with errors: the same name and arity, arguments of any type.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ItemFn, Path, ReturnType, Token, Type, token};

use tvmtune_ir::dsl;

use crate::operand::field;

/// The stub of a function. Its own errors are reported elsewhere; calls to it get none.
pub(crate) fn stub(options: &TokenStream, function: &ItemFn) -> TokenStream {
    let (name, visibility) = (&function.sig.ident, &function.vis);
    let n_operands = function.sig.inputs.len() + n_outputs(&function.sig);
    let operands: Vec<Ident> = (0..n_operands).map(|n| format_ident!("_operand_{n}")).collect();
    let weights = (0..function.sig.inputs.iter().filter(|it| is_of(it, "Weight")).count())
        .map(|n| format_ident!("_weight_{n}"));
    let anything = quote!(impl ::core::marker::Sized);
    let Readable { dims: fields, krate } = read(options);
    let rt = krate.unwrap_or_else(|| quote!(::tvmtune_runtime));
    let result = quote!(::core::result::Result<(), #rt::Error>);
    let dims = (!fields.is_empty()).then(|| {
        quote! {
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct Dims { #(pub #fields: ::core::primitive::usize),* }
        }
    });
    let takes_dims = (!fields.is_empty()).then(|| quote!(_dims: Dims,));
    if let Some(receiver) = function.sig.receiver() {
        // A method: no module can stand beside it.
        let operands = &operands[1..];
        return quote! {
            #visibility fn #name(#receiver, _cpu: #anything, #(#operands: #anything),*) -> #result {
                ::core::unreachable!()
            }
        };
    }
    let shared = (!fields.is_empty()).then(|| quote!(Dims,));
    let instances = dsl::instances(options.clone(), function).unwrap_or_default();
    let instances = instances.iter().filter(|it| !it.types.is_empty()).map(|it| {
        let name = format_ident!("{}", it.suffix());
        quote! {
            pub fn #name(_cpu: #anything, #(#operands: #anything),*) -> #result {
                ::core::unreachable!()
            }

            pub mod #name {
                pub use super::{#shared Kernel, load, reference};
            }
        }
    });
    quote! {
        #visibility fn #name(_cpu: #anything, #(#operands: #anything),*) -> #result {
            ::core::unreachable!()
        }

        #visibility mod #name {
            #(#instances)*

            #dims

            #[derive(Clone, Copy, Debug)]
            pub struct Kernel;

            pub fn load(_cpu: #anything) -> ::core::result::Result<Kernel, #rt::Error> {
                ::core::unreachable!()
            }

            pub fn reference(#takes_dims #(#operands: #anything),*) -> #result {
                ::core::unreachable!()
            }

            impl Kernel {
                pub fn launch(&self, _cpu: #anything, #takes_dims #(#operands: #anything),*)
                    -> #result
                {
                    ::core::unreachable!()
                }

                pub fn prepare(&self, #(#weights: #anything),*) -> #result {
                    ::core::unreachable!()
                }
            }
        }
    }
}

fn n_outputs(sig: &syn::Signature) -> usize {
    match &sig.output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::Tuple(tuple) => tuple.elems.len(),
            _ => 1,
        },
        ReturnType::Default => usize::from(!sig.inputs.iter().any(|it| is_of(it, "InOut"))),
    }
}

/// Returns whether an argument is declared as `Weight<..>`, or by another such name.
fn is_of(argument: &syn::FnArg, name: &str) -> bool {
    let syn::FnArg::Typed(typed) = argument else { return false };
    let Type::Path(path) = &*typed.ty else { return false };
    path.path.segments.last().is_some_and(|it| it.ident == name)
}

/// The options that a stub needs, as far as they parse.
#[derive(Default)]
struct Readable {
    /// The names in `dims(M = 1..=512, N = 64)` that have a range, lower-case.
    dims: Vec<Ident>,
    /// The path in `crate = ::path`.
    krate: Option<TokenStream>,
}

fn read(options: &TokenStream) -> Readable {
    let mut readable = Readable::default();
    let parser = |input: ParseStream<'_>| {
        while !input.is_empty() {
            let option = input.call(Ident::parse_any)?;
            if option == "crate" {
                input.parse::<Token![=]>()?;
                readable.krate = Some(input.call(Path::parse_mod_style)?.into_token_stream());
            } else if input.peek(token::Paren) {
                let content;
                syn::parenthesized!(content in input);
                if option == "dims" {
                    read_dims(&content, &mut readable.dims)?;
                }
                content.parse::<TokenStream>()?;
            }
            while !input.is_empty() && input.parse::<Option<Token![,]>>()?.is_none() {
                input.parse::<TokenTree>()?;
            }
        }
        Ok(())
    };
    // Parse errors were reported already.
    let _ = parser.parse2(options.clone());
    readable
}

fn read_dims(input: ParseStream<'_>, dims: &mut Vec<Ident>) -> syn::Result<()> {
    while !input.is_empty() {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        let field = field(&name);
        if let Expr::Range(_) = input.parse()?
            && !dims.contains(&field)
        {
            dims.push(field);
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(())
}
