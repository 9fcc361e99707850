//! The constant `SPEC`.

use proc_macro2::TokenStream;
use quote::quote;
use tvmtune_ir::dag::Numerics;

use super::Emitter;
use crate::operand::{Kind, Operand};

impl Emitter<'_> {
    pub(super) fn spec(&self) -> TokenStream {
        let (name, id) = (self.program.ident.to_string(), self.id);
        let numerics = match self.numerics {
            Numerics::Free => quote!(rt::Numerics::Free),
            Numerics::Fixed => quote!(rt::Numerics::Fixed),
        };
        let dims = self.program.dims.iter().map(|it| {
            let (name, lo, hi) = (it.ident.to_string(), it.range.lo as usize, it.range.hi as usize);
            quote!((#name, #lo, #hi))
        });
        let (outputs, params): (Vec<&Operand>, Vec<&Operand>) = self
            .operands
            .iter()
            .filter(|it| it.is_tensor())
            .partition(|it| it.kind == Kind::Output);
        let (params, outputs) = (params.into_iter().map(tensor), outputs.into_iter().map(tensor));
        quote! {
            /// The program that this kernel computes.
            pub const SPEC: rt::Spec = rt::Spec {
                name: #name,
                workload: #id,
                numerics: #numerics,
                dims: &[#(#dims),*],
                params: &[#(#params),*],
                outputs: &[#(#outputs),*],
            };
        }
    }
}

fn tensor(operand: &Operand) -> TokenStream {
    let (name, dtype, shape) = (operand.name(), operand.dtype.name(), &operand.spelled);
    let (weight, in_place) = (operand.kind == Kind::Weight, operand.kind == Kind::InOut);
    quote! {
        rt::TensorSpec {
            name: #name, dtype: #dtype, shape: #shape, weight: #weight, in_place: #in_place,
        }
    }
}
