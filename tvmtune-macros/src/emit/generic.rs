//! A program for several element types: a function that is generic in them, and in a module of its
//! name the expansion of each, named by its types.
//!
//! ```text
//! pub fn linear<W, Q>(queue: &Q, x: .., w: &impl Constant<W, Q>, out: ..) -> Result<(), Error>
//! where linear::Program: linear::Instance<W> { .. }
//!
//! pub mod linear {
//!     pub struct Program;
//!     pub trait Instance<W> { fn launch(..); }
//!     pub struct Dims { .. }
//!     impl Instance<f32> for Program { .. }    pub fn f32(..) { .. }    pub mod f32 { .. }
//!     impl Instance<bf16> for Program { .. }   pub fn bf16(..) { .. }   pub mod bf16 { .. }
//! }
//! ```
//!
//! A module is named as a primitive type, so code beside it spells types by their paths.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::parse_quote;
use tvmtune_ir::dsl::{self, Instance};

use super::Emitter;
use crate::expand::Planned;
use crate::operand::Operand;

/// The function that is generic in the element types.
struct Generic<'a> {
    function: &'a syn::ItemFn,
    /// The type parameters.
    types: Vec<&'a Ident>,
    /// The operands of the first program, with type parameters where the function has them.
    operands: Vec<Operand>,
    /// The emitters of the programs, in order.
    instances: Vec<Emitter<'a>>,
}

/// The expansion of a function with type parameters, none of whose programs has errors.
pub(crate) fn generic(
    function: &syn::ItemFn,
    instances: &[Instance],
    planned: &[Planned],
) -> TokenStream {
    let types: Vec<&Ident> = instances[0].types.iter().map(|(ident, _)| ident).collect();
    let emitters = instances.iter().zip(planned).map(|(instance, planned)| {
        let named: Vec<String> =
            instance.types.iter().map(|(ident, dtype)| format!("`{ident}` = `{dtype}`")).collect();
        let doc = format!("The program with {}.", named.join(" and "));
        Emitter {
            ident: format_ident!("{}", instance.suffix()),
            visibility: parse_quote!(pub),
            attributes: vec![parse_quote!(#[doc = #doc])],
            shares_dims: true,
            ..Emitter::new(planned)
        }
    });
    let emitters: Vec<Emitter<'_>> = emitters.collect();
    let mut operands = crate::operand::operands(&planned[0].program);
    for (operand, written) in operands.iter_mut().zip(dsl::element_types(function)) {
        operand.parameter =
            types.iter().find(|it| written.as_ref() == Some(**it)).map(|it| (*it).clone());
    }
    let generic = Generic { function, types, operands, instances: emitters };
    let (function, module) = (generic.function(), generic.module());
    quote! { #function #module }
}

impl Generic<'_> {
    /// The emitter of the first program: dimensions and names are those of all.
    fn first(&self) -> &Emitter<'_> {
        &self.instances[0]
    }

    /// `dims: Dims,` where a launch needs them, with the module that has `Dims`.
    fn dims_param(&self, module: &TokenStream) -> Option<TokenStream> {
        let Emitter { dims, steps, .. } = self.first();
        steps.is_none().then(|| quote!(#dims: #module Dims,))
    }

    fn dims_argument(&self) -> Option<TokenStream> {
        let Emitter { dims, steps, .. } = self.first();
        steps.is_none().then(|| quote!(#dims,))
    }

    /// `queue: &Q, dims: Dims, x: &impl Input<W, Q>, ..`
    fn params(&self, operands: &[Operand], rt: &TokenStream, module: &TokenStream) -> TokenStream {
        let Emitter { queue, q, .. } = self.first();
        let dims = self.dims_param(module);
        let params = operands.iter().map(|it| {
            let (name, ty) = (&it.ident, it.ty(rt, &q.to_token_stream()));
            quote!(#name: #ty)
        });
        quote!(#queue: &#q, #dims #(#params),*)
    }

    /// `queue, dims, x, ..`
    fn arguments(&self) -> TokenStream {
        let (queue, dims, names) =
            (&self.first().queue, self.dims_argument(), self.first().names());
        quote!(#queue, #dims #(#names),*)
    }

    fn function(&self) -> TokenStream {
        let syn::ItemFn { attrs, vis, sig, .. } = self.function;
        let attributes = attrs.iter().filter(|it| !it.path().is_ident("autotune"));
        let (ident, types) = (&sig.ident, &self.types);
        let (rt, q) = (self.first().runtime(), &self.first().q);
        let params = self.params(&self.operands, &rt, &quote!(#ident::));
        let arguments = self.arguments();
        let modules = self
            .instances
            .iter()
            .map(|it| format!("[`{ident}::{}`](mod@{ident}::{})", it.ident, it.ident));
        let doc = format!(
            "One program for each list of element types: {}.",
            modules.collect::<Vec<_>>().join(", ")
        );
        quote! {
            #(#attributes)*
            ///
            #[doc = #doc]
            ///
            /// # Errors
            ///
            /// If a length does not fit, or a dimension is out of range.
            #[allow(clippy::too_many_arguments)]
            #vis fn #ident<#(#types: #rt::Element,)* #q: #rt::Queue>(#params)
                -> ::core::result::Result<(), #rt::Error>
            where
                #ident::Program: #ident::Instance<#(#types),*>,
            {
                <#ident::Program as #ident::Instance<#(#types),*>>::launch(#arguments)
            }
        }
    }

    fn module(&self) -> TokenStream {
        let (visibility, ident) = (&self.function.vis, &self.function.sig.ident);
        let (path, name, q) = (self.first().runtime(), ident.to_string(), &self.first().q);
        let doc = format!("The programs of [`{ident}`](fn@{ident}), by their element types.");
        let (types, dims) = (&self.types, self.first().dims());
        let params = self.params(&self.operands, &quote!(rt), &TokenStream::new());
        let listed: Vec<String> = self.instances.iter().map(|it| it.ident.to_string()).collect();
        let message = format!("`{name}` has no program for these element types");
        let label = format!("listed in `types(..)` of `{name}`: {}", listed.join(", "));
        let note = "convert the argument, or add its type to the list";
        let constant = dims.is_some().then(|| quote!(const NAME: &::core::primitive::str = #name;));
        let programs = self.instances.iter().map(|it| self.program(it));
        quote! {
            #[doc = #doc]
            #visibility mod #ident {
                use #path as rt;

                #constant

                /// All programs: [`Instance`] says for which element types there is one.
                #[derive(Clone, Copy, Debug)]
                pub struct Program;

                /// There is a program for these element types.
                #[diagnostic::on_unimplemented(message = #message, label = #label, note = #note)]
                pub trait Instance<#(#types: rt::Element),*> {
                    /// Launches the program.
                    ///
                    /// # Errors
                    ///
                    /// If a length does not fit, or a dimension is out of range.
                    #[allow(clippy::too_many_arguments)]
                    fn launch<#q: rt::Queue>(#params) -> ::core::result::Result<(), rt::Error>;
                }

                #dims
                #(#programs)*
            }
        }
    }

    /// One program: the implementation of the trait, the function and the module.
    fn program(&self, emitter: &Emitter<'_>) -> TokenStream {
        let (ident, q, arguments) = (&emitter.ident, &self.first().q, self.arguments());
        let params = self.params(&emitter.operands, &quote!(rt), &TokenStream::new());
        let types = self.types.iter().map(|parameter| {
            let position =
                self.operands.iter().position(|it| it.parameter.as_ref() == Some(parameter));
            let position = position.expect("each type parameter has an operand");
            emitter.operands[position].element()
        });
        let (function, module) = (emitter.function(), emitter.module());
        quote! {
            impl Instance<#(#types),*> for Program {
                fn launch<#q: rt::Queue>(#params) -> ::core::result::Result<(), rt::Error> {
                    #ident(#arguments)
                }
            }

            #function
            #module
        }
    }
}
