//! `launch_raw`: for memory that is known by its address.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::Emitter;
use crate::operand::{Kind, Operand, in_dims, local};

impl Emitter<'_> {
    pub(super) fn launch_raw(&self) -> TokenStream {
        let on_cpu = self.launch_raw_on_cpu();
        let on_cuda = cfg!(feature = "cuda").then(|| self.launch_raw_on_cuda());
        quote! {
            impl Kernel<rt::Cpu> {
                #on_cpu
            }
            #on_cuda
        }
    }

    fn launch_raw_on_cpu(&self) -> TokenStream {
        let param = |it: &Operand| {
            let (name, element) = (&it.ident, it.element());
            match it.kind {
                Kind::Input | Kind::Weight => quote!(#name: *const #element),
                Kind::InOut | Kind::Output => quote!(#name: *mut #element),
                Kind::Scalar => quote!(#name: #element),
            }
        };
        let params = self.operands.iter().map(param);
        let tensors = self.tensors();
        let aligned = tensors.iter().map(|it| {
            let (ident, arg) = (&it.ident, it.name());
            quote!(rt::raw::pointer(NAME, #arg, #ident)?;)
        });
        let disjoint = disjoint(&tensors, &|ident| quote!(#ident.addr()));
        let slices = tensors.iter().map(|it| slice(it));
        let names: Vec<&Ident> = self.names();
        let (dims_param, dims_argument) = (self.dims_param(), self.dims_argument());
        let checked = self.checked_dims();
        let (queue, dims, original) = (&self.queue, &self.dims, local("original"));
        let has_dims = !self.fields.is_empty();
        let kept = has_dims.then(|| quote!(let #original = #dims;));
        let restored = has_dims.then(|| quote!(let #dims = #original;));
        quote! {
            /// As `launch`, for memory that is known by its address. Weights are packed in each
            /// launch that needs it.
            ///
            /// # Errors
            ///
            /// If a dimension is out of range, an address is null or misaligned, or an argument that is
            /// written overlaps another one.
            ///
            /// # Safety
            ///
            /// Each address must be that of as many elements as the dimensions say, initialized,
            /// that nobody else writes, nor reads if the launch writes it, until this returns.
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn launch_raw(&self, #queue: &rt::Cpu, #dims_param #(#params),*)
                -> ::core::result::Result<(), rt::Error>
            {
                #kept
                #checked
                #(#aligned)*
                #(#disjoint)*
                #(#slices)*
                #restored
                self.launch(#queue, #dims_argument #(#names),*)
            }
        }
    }

    fn launch_raw_on_cuda(&self) -> TokenStream {
        let param = |it: &Operand| {
            let (name, element) = (&it.ident, it.element());
            match it.kind {
                Kind::Scalar => quote!(#name: #element),
                _ => quote!(#name: ::core::primitive::u64),
            }
        };
        let params = self.operands.iter().map(param);
        let tensors = self.tensors();
        let disjoint = disjoint(&tensors, &|ident| quote!(#ident as ::core::primitive::usize));
        let (names, idents) =
            tensors.iter().map(|it| (it.name(), &it.ident)).collect::<(Vec<_>, Vec<_>)>();
        let (dims_param, checked) = (self.dims_param(), self.checked_dims());
        let (dims, scalars) = (&self.dims, self.scalars());
        let [stream, scalars_name] = ["stream", "scalars"].map(local);
        quote! {
            impl Kernel<rt::cuda::Stream> {
                /// As `launch`, for memory that is known by its address on the device, and for the
                /// stream with this handle, a `CUstream` of the context that the kernel was loaded
                /// in. Weights are row-major.
                ///
                /// # Errors
                ///
                /// If a dimension is out of range, an address is null or misaligned, an argument that
                /// is written overlaps another one, the kernel reads a weight in another layout, or
                /// the driver refuses.
                ///
                /// # Safety
                ///
                /// The stream must exist. Each address must be that of as many elements as the
                /// dimensions say, initialized, that nobody else writes, nor reads if the kernel writes
                /// it, until the kernel has run. Launches of one `Kernel` on several streams must not
                /// run at the same time.
                #[allow(clippy::too_many_arguments)]
                pub unsafe fn launch_raw(
                    &self,
                    #stream: *mut ::core::ffi::c_void,
                    #dims_param
                    #(#params),*
                ) -> ::core::result::Result<(), rt::Error> {
                    #checked
                    #(#disjoint)*
                    #scalars
                    let call = rt::raw::Call {
                        kernel: NAME,
                        names: &[#(#names),*],
                        dims: &#dims,
                        args: &[#(rt::raw::DeviceArg::raw(#idents)),*],
                        scalars: &#scalars_name,
                        traced: ::core::option::Option::Some(&TRACED),
                    };
                    // SAFETY: the contract of this function is that of the one called; addresses of
                    // what is written overlap no others, as was checked.
                    unsafe { rt::raw::run_raw(&self.kernel, #stream, &call) }
                }
            }
        }
    }
}

/// Checks each argument that is written against each that it must not overlap, each pair once.
fn disjoint(tensors: &[&Operand], address: &dyn Fn(&Ident) -> TokenStream) -> Vec<TokenStream> {
    // `(name, address, bytes)`
    let region = |it: &Operand| {
        let (name, address, len) = (it.name(), address(&it.ident), in_dims(&it.len()));
        let bytes = it.dtype.bytes() as usize;
        quote!((#name, #address, (#len) as ::core::primitive::usize * #bytes))
    };
    let mut checks = Vec::new();
    for (n, one) in tensors.iter().enumerate() {
        for other in tensors[..n].iter().filter(|it| it.is_written() || one.is_written()) {
            // Errors name what is written first.
            let (one, other) = if one.is_written() { (one, other) } else { (other, one) };
            let (one, other) = (region(one), region(other));
            checks.push(quote!(rt::raw::disjoint(NAME, #one, #other)?;));
        }
    }
    checks
}

fn slice(operand: &Operand) -> TokenStream {
    let (ident, len) = (&operand.ident, in_dims(&operand.len()));
    match operand.kind {
        // SAFETY: by the contract of `launch_raw`; the address was checked to be aligned and not null,
        // and the memory to overlap no other argument.
        Kind::InOut | Kind::Output => quote! {
            let #ident = unsafe {
                rt::raw::slice_mut(#ident, (#len) as ::core::primitive::usize)
            };
        },
        // SAFETY: by the contract of `launch_raw`; the address was checked to be aligned and not null,
        // and the memory to overlap none that is written.
        _ => quote! {
            let #ident = unsafe { rt::raw::slice(#ident, (#len) as ::core::primitive::usize) };
        },
    }
}
