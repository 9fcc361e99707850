//! `launch` and `prepare`: from arguments that were checked to a call of the runtime.

use proc_macro2::TokenStream;
use quote::quote;

use super::Emitter;
use crate::operand::{Kind, Operand, in_dims, local};

impl Emitter<'_> {
    pub(super) fn launch(&self) -> TokenStream {
        let (queue, dims, q) = (&self.queue, &self.dims, &self.q);
        let (dims_param, checked_dims) = (self.dims_param(), self.checked_dims());
        let params = self.params(&quote!(rt), &quote!(#q));
        let tensors = self.tensors();
        let taken = tensors.iter().map(|it| self.taken(it));
        let (args, slices) = tensors.iter().map(|it| self.passed(it)).collect::<(Vec<_>, Vec<_>)>();
        let arg_names = tensors.iter().map(|it| it.name());
        let (scalars, n_buckets) = (self.scalars(), self.plan.n_buckets);
        let scalar_names = self.of_kind(Kind::Scalar).map(|it| &it.ident);
        let dim_values = (0..self.fields.len()).map(|it| quote!(#dims[#it]));
        let [args_name, scalars_name, variant] = ["args", "scalars", "variant"].map(local);
        quote! {
            /// Checks everything, and runs: on the CPU now; on a CUDA stream after what was put
            /// there before.
            ///
            /// # Errors
            ///
            /// If a length does not fit, or a dimension is out of range; on a CUDA stream also if
            /// memory is not where the kernel needs it, or the driver refuses.
            #[allow(clippy::too_many_arguments)]
            pub fn launch(&self, #queue: &#q, #dims_param #(#params),*)
                -> ::core::result::Result<(), rt::Error>
            {
                #checked_dims
                #(#taken)*
                match rt::raw::Backend::choose::<#n_buckets>(#queue, NAME, &self.kernel, &#dims)? {
                    ::core::option::Option::Some(#variant) => {
                        let #args_name = [#(#args),*];
                        #scalars
                        let call = rt::raw::Call {
                            kernel: NAME,
                            names: &[#(#arg_names),*],
                            dims: &#dims,
                            args: &#args_name,
                            scalars: &#scalars_name,
                            traced: ::core::option::Option::Some(&TRACED),
                        };
                        // SAFETY: the variant is of this program and chosen for this queue and these
                        // dimensions, which were checked to be in their ranges, and so were the
                        // lengths of all arguments.
                        unsafe { rt::raw::Backend::run(#queue, #variant, &call) }
                    }
                    ::core::option::Option::None => rt::raw::portable(&TRACED, &#dims, || {
                        code::portable(#(#dim_values,)* #(#scalar_names,)* #(#slices),*);
                    }),
                }
            }
        }
    }

    /// Checks that an argument has as many elements as its shape.
    fn length(&self, operand: &Operand, n_elements: &TokenStream) -> TokenStream {
        let (arg, shape, want) = (operand.name(), &operand.spelled, in_dims(&operand.len()));
        quote!(rt::raw::len(NAME, (#arg, #shape), #n_elements, #want)?;)
    }

    /// Turns an argument into what the queue takes, and checks how long that is: what a type says of
    /// itself is not relied on.
    fn taken(&self, operand: &Operand) -> TokenStream {
        let (ident, element, arg) = (&operand.ident, operand.element(), operand.name());
        let (queue, q) = (&self.queue, &self.q);
        let fit = |taken| quote!(rt::raw::fit(NAME, #arg, #taken)?);
        let backend = quote!(<#q as rt::raw::Backend>);
        match operand.kind {
            Kind::Scalar => TokenStream::new(),
            Kind::Input => {
                let elements = fit(quote!(rt::Input::<#element, #q>::elements(#ident, #queue)));
                let length = self.length(operand, &quote!(#backend::n_read::<#element>(&#ident)));
                quote!(let #ident = #elements; #length)
            }
            Kind::InOut | Kind::Output => {
                let taken = quote!(rt::Output::<#element, #q>::elements_mut(#ident, #queue));
                let elements = fit(taken);
                let n_written = quote!(#backend::n_written::<#element>(&#ident));
                let length = self.length(operand, &n_written);
                quote!(let mut #ident = #elements; #length)
            }
            Kind::Weight => {
                let (shape, extents) = shape(operand);
                let held = fit(quote!(rt::Constant::<#element, #q>::held(#ident, #queue)));
                let length = self.length(operand, &quote!(#ident.n_elements()));
                quote! {
                    #extents
                    let #ident = #held;
                    #length
                    let #ident = #backend::constant::<#element>(#ident, &#shape);
                }
            }
        }
    }

    /// An argument as code on the queue takes it, and as portable code does.
    fn passed(&self, operand: &Operand) -> (TokenStream, TokenStream) {
        let (ident, element) = (&operand.ident, operand.element());
        let q = &self.q;
        let backend = quote!(<#q as rt::raw::Backend>);
        match operand.kind {
            Kind::Weight => (
                quote!(#backend::weight::<#element>(&#ident)),
                quote!(#backend::weight_slice::<#element>(&#ident)),
            ),
            Kind::InOut | Kind::Output => (
                quote!(#backend::output::<#element>(&mut #ident)),
                quote!(#backend::slice_mut::<#element>(&mut #ident)),
            ),
            Kind::Input | Kind::Scalar => (
                quote!(#backend::input::<#element>(&#ident)),
                quote!(#backend::slice::<#element>(&#ident)),
            ),
        }
    }

    /// Packs weights ahead of launches; there is nothing to generate where there is no weight, or
    /// where the shape of one depends on a launch.
    pub(super) fn prepare(&self) -> Option<TokenStream> {
        let weights: Vec<&Operand> = self.of_kind(Kind::Weight).collect();
        let fixed = |it: &&Operand| it.len().as_constant().is_some();
        if weights.is_empty() || !weights.iter().all(fixed) {
            return None;
        }
        let param = |it: &&Operand| {
            let (name, element) = (&it.ident, it.element());
            quote!(#name: &rt::Weight<#element>)
        };
        let params = weights.iter().map(param);
        let lengths = weights.iter().map(|it| {
            let ident = &it.ident;
            self.length(it, &quote!(#ident.len()))
        });
        let (q, n_buckets, tensors) = (&self.q, self.plan.n_buckets, self.tensors());
        let positions = tensors.iter().enumerate().filter(|(_, it)| it.kind == Kind::Weight);
        let packed = positions.map(|(n, it)| {
            let (ident, element) = (&it.ident, it.element());
            let (shape, extents) = shape(it);
            quote! {
                #extents
                <#q as rt::raw::Backend>::prepare::<#n_buckets, #element>(
                    NAME, &self.kernel, #n, #ident, &#shape,
                )?;
            }
        });
        Some(quote! {
            /// Packs weights now, instead of at the first launch, and brings them to the device.
            ///
            /// # Errors
            ///
            /// If a length does not fit, or the device has no room.
            pub fn prepare(&self, #(#params),*) -> ::core::result::Result<(), rt::Error> {
                #(#lengths)*
                #(#packed)*
                ::core::result::Result::Ok(())
            }
        })
    }
}

/// The name of an array with the extents of an operand, and the statement that makes it.
fn shape(operand: &Operand) -> (proc_macro2::Ident, TokenStream) {
    let extents = operand.shape.iter().map(in_dims);
    let n_extents = operand.shape.len();
    let name = local(&format!("{}_shape", operand.name()));
    let statement = quote! {
        let #name: [::core::primitive::usize; #n_extents] =
            [#((#extents) as ::core::primitive::usize),*];
    };
    (name, statement)
}
