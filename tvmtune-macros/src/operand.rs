//! The arguments of generated functions, in order: names, kinds, types and lengths.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use tvmtune_ir::dag::DType;
use tvmtune_ir::dsl::{ParamKind, Program};
use tvmtune_ir::poly::{Atom, Poly};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Input,
    Weight,
    Scalar,
    /// Read, then replaced by a result.
    InOut,
    Output,
}

/// One argument of the generated functions.
pub(crate) struct Operand {
    pub(crate) ident: Ident,
    pub(crate) kind: Kind,
    pub(crate) dtype: DType,
    /// The type parameter that stands for its type, in a function that is generic in it.
    pub(crate) parameter: Option<Ident>,
    /// Extents; empty for a scalar.
    pub(crate) shape: Vec<Poly>,
    /// The shape as the program spells it: `[M, 384]`.
    pub(crate) spelled: String,
}

/// The parameters in order, then the results that have memory of their own.
pub(crate) fn operands(program: &Program) -> Vec<Operand> {
    let mut operands = Vec::new();
    for param in &program.params {
        let (kind, shape) = match param.kind {
            ParamKind::Input(tensor) => (Kind::Input, shape(program, tensor.0)),
            ParamKind::Weight(tensor) => (Kind::Weight, shape(program, tensor.0)),
            ParamKind::InOut(tensor) => (Kind::InOut, shape(program, tensor.0)),
            ParamKind::Scalar(_) => (Kind::Scalar, Vec::new()),
        };
        let (ident, spelled) = (param.ident.clone(), spelled(&param.ty));
        let (dtype, parameter) = (param.dtype, None);
        operands.push(Operand { ident, kind, dtype, parameter, shape, spelled });
    }
    let taken: Vec<String> = operands.iter().map(|it| it.ident.to_string()).collect();
    let mut stem = "out".to_owned();
    while taken.iter().any(|it| it.starts_with(&stem)) {
        stem.push('_');
    }
    let n_in_place = operands.iter().filter(|it| it.kind == Kind::InOut).count();
    let outputs = &program.outputs[n_in_place..];
    for (n, output) in outputs.iter().enumerate() {
        let ident = match outputs.len() {
            1 => format_ident!("{stem}"),
            _ => format_ident!("{stem}{n}"),
        };
        operands.push(Operand {
            ident,
            kind: Kind::Output,
            dtype: output.dtype,
            parameter: None,
            shape: output.shape.clone(),
            spelled: spelled(&output.ty),
        });
    }
    operands
}

fn shape(program: &Program, tensor: u32) -> Vec<Poly> {
    program.tensors[tensor as usize].shape.clone()
}

/// The extents in `Tensor<f32, M, { H / 2 }>`, as text.
fn spelled(ty: &syn::Type) -> String {
    let syn::Type::Path(path) = ty else { return String::new() };
    let Some(last) = path.path.segments.last() else { return String::new() };
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return String::new();
    };
    let extent = |it: &syn::GenericArgument| {
        let text = it.to_token_stream().to_string();
        text.trim_start_matches('{').trim_end_matches('}').trim().to_owned()
    };
    let extents: Vec<String> = arguments.args.iter().skip(1).map(extent).collect();
    format!("[{}]", extents.join(", "))
}

impl Operand {
    /// As the argument is named in errors.
    pub(crate) fn name(&self) -> String {
        self.ident.to_string().trim_start_matches("r#").to_owned()
    }

    pub(crate) fn is_tensor(&self) -> bool {
        self.kind != Kind::Scalar
    }

    /// Returns whether a launch writes it.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.kind, Kind::InOut | Kind::Output)
    }

    /// Returns the type of elements, or of the scalar, with the runtime at `rt`.
    pub(crate) fn element(&self) -> TokenStream {
        self.element_in(&quote!(rt))
    }

    /// Returns the type of elements, or of the scalar, with the runtime at a path.
    fn element_in(&self, rt: &TokenStream) -> TokenStream {
        if let Some(parameter) = &self.parameter {
            return parameter.to_token_stream();
        }
        match self.dtype {
            DType::F16 => quote!(#rt::half::f16),
            DType::Bf16 => quote!(#rt::half::bf16),
            other => {
                let name = format_ident!("{}", other.name());
                quote!(::core::primitive::#name)
            }
        }
    }

    /// The type of the argument of a kernel on a queue.
    pub(crate) fn ty(&self, rt: &TokenStream, queue: &TokenStream) -> TokenStream {
        let element = self.element_in(rt);
        let sized = quote!(?::core::marker::Sized);
        match self.kind {
            Kind::Input => quote!(&(impl #rt::Input<#element, #queue> + #sized)),
            Kind::Weight => quote!(&(impl #rt::Constant<#element, #queue> + #sized)),
            Kind::InOut | Kind::Output => {
                quote!(&mut (impl #rt::Output<#element, #queue> + #sized))
            }
            Kind::Scalar => element,
        }
    }

    /// The number of elements that were passed for a tensor.
    pub(crate) fn n_elements(&self, rt: &TokenStream, queue: &Ident) -> TokenStream {
        let (ident, element) = (&self.ident, self.element_in(rt));
        let of = match self.kind {
            Kind::Input => quote!(Input),
            Kind::Weight => quote!(Constant),
            Kind::InOut | Kind::Output => quote!(Output),
            Kind::Scalar => unreachable!("a scalar has no length"),
        };
        quote!(#rt::#of::<#element, #queue>::n_elements(#ident))
    }

    /// The number of elements, in the dimensions.
    pub(crate) fn len(&self) -> Poly {
        self.shape.iter().fold(Poly::constant(1), |len, extent| len * extent.clone())
    }
}

pub(crate) fn field(dim: &Ident) -> Ident {
    let name = dim.to_string().to_lowercase();
    syn::parse_str(&name).unwrap_or_else(|_| Ident::new_raw(&name, dim.span()))
}

/// Makes a hygienic variable of the generated code.
pub(crate) fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// A polynomial of the dimensions as Rust, with `dims[n]` for dimension `n`.
pub(crate) fn in_dims(value: &Poly) -> TokenStream {
    let text = tvmtune_cpu::rust::index(value, &|leaf| match leaf {
        Atom::Dim(dim) => format!("dims[{}]", dim.0),
        _ => unreachable!("an extent depends on dimensions only"),
    });
    let tokens: TokenStream = text.parse().expect("what is printed is Rust");
    with_locals(tokens)
}

/// The same tokens, with `dims` the local variable.
fn with_locals(tokens: TokenStream) -> TokenStream {
    let local = |token| match token {
        TokenTree::Ident(ident) if ident == "dims" => TokenTree::Ident(local("dims")),
        TokenTree::Group(group) => {
            TokenTree::Group(Group::new(group.delimiter(), with_locals(group.stream())))
        }
        other => other,
    };
    tokens.into_iter().map(local).collect()
}
