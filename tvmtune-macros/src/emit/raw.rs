//! `launch_raw`: for memory that is known by its address.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::Emitter;
use crate::operand::{Kind, Operand, in_dims, local};

impl Emitter<'_> {
    pub(super) fn launch_raw(&self) -> TokenStream {
        let param = |it: &Operand| {
            let (name, element) = (&it.ident, it.element());
            match it.kind {
                Kind::Input | Kind::Weight => quote!(#name: *const #element),
                Kind::Output => quote!(#name: *mut #element),
                Kind::Scalar => quote!(#name: #element),
            }
        };
        let params = self.operands.iter().map(param);
        let tensors: Vec<&Operand> = self.operands.iter().filter(|it| it.is_tensor()).collect();
        let aligned = tensors.iter().map(|it| {
            let (ident, arg) = (&it.ident, it.name());
            quote!(rt::raw::pointer(NAME, #arg, #ident)?;)
        });
        let disjoint = pairs(&tensors).into_iter().map(|(result, other)| {
            let (result, other) = (region(result), region(other));
            quote!(rt::raw::disjoint(NAME, #result, #other)?;)
        });
        let slices = tensors.iter().map(|it| slice(it));
        let names: Vec<&Ident> = self.names();
        let (dims_param, dims_argument) = (self.dims_param(), self.dims_argument());
        let checked = self.checked_dims();
        let (cpu, dims, original) = (&self.cpu, &self.dims, local("original"));
        let has_dims = !self.fields.is_empty();
        let kept = has_dims.then(|| quote!(let #original = #dims;));
        let restored = has_dims.then(|| quote!(let #dims = #original;));
        quote! {
            /// As `launch`, for memory that is known by its address. Weights are packed in each
            /// launch that needs it.
            ///
            /// # Errors
            ///
            /// If a dimension is out of range, an address is null or misaligned, or a result
            /// overlaps another argument.
            ///
            /// # Safety
            ///
            /// Each address must be that of as many elements as the dimensions say, initialized,
            /// that nobody else writes, nor for results reads, until this returns.
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn launch_raw(&self, #cpu: &rt::Cpu, #dims_param #(#params),*)
                -> ::core::result::Result<(), rt::Error>
            {
                #kept
                #checked
                #(#aligned)*
                #(#disjoint)*
                #(#slices)*
                #restored
                self.launch(#cpu, #dims_argument #(#names),*)
            }
        }
    }
}

/// Each result with each argument that it must not overlap, each pair once.
fn pairs<'a>(tensors: &[&'a Operand]) -> Vec<(&'a Operand, &'a Operand)> {
    let mut pairs = Vec::new();
    for (n, result) in tensors.iter().enumerate() {
        if result.kind == Kind::Output {
            pairs.extend(tensors[..n].iter().map(|other| (*result, *other)));
        }
    }
    pairs
}

/// `(name, address, bytes)`
fn region(operand: &Operand) -> TokenStream {
    let (ident, name) = (&operand.ident, operand.name());
    let (len, bytes) = (in_dims(&operand.len()), operand.dtype.bytes() as usize);
    quote!((#name, #ident.addr(), (#len) as ::core::primitive::usize * #bytes))
}

fn slice(operand: &Operand) -> TokenStream {
    let (ident, len) = (&operand.ident, in_dims(&operand.len()));
    // The contract of `launch_raw` is that of these functions.
    match operand.kind {
        Kind::Output => quote! {
            let #ident = unsafe {
                rt::raw::slice_mut(#ident, (#len) as ::core::primitive::usize)
            };
        },
        _ => quote! {
            let #ident = unsafe { rt::raw::slice(#ident, (#len) as ::core::primitive::usize) };
        },
    }
}
