//! The function and the module that take a program's place.
//!
//! # Invariants
//!
//! - What is generated compiles in a crate that forbids `unsafe` code: the lint looks at spans,
//!   so no token in or around an `unsafe` block has a span of the user's.
//! - Before a launch, dimensions are in range and lengths are what they say, by checks that stand
//!   in the generated code.

mod generic;
mod launch;
mod raw;
mod spec;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use tvmtune_ir::dag::Numerics;
use tvmtune_ir::dsl::{DynamicDim, Program};

use crate::expand::Planned;
use crate::infer::{self, Step};
use crate::operand::{self, Kind, Operand, field, in_dims, local};
use crate::plan::Plan;

pub(crate) use generic::generic;

/// The input of all parts of the expansion.
struct Emitter<'a> {
    program: &'a Program,
    /// The name of the function and of the module.
    ident: Ident,
    visibility: syn::Visibility,
    /// The attributes of the function.
    attributes: Vec<syn::Attribute>,
    /// `Dims` is that of the module around, for all element types.
    shares_dims: bool,
    operands: Vec<Operand>,
    /// Steps that infer the dimensions; `None` if the caller must pass them.
    steps: Option<Vec<Step>>,
    /// The fields of `Dims`.
    fields: Vec<Ident>,
    /// Parameters of the generated functions, and the type of the first one.
    queue: Ident,
    dims: Ident,
    q: Ident,
    id: &'a str,
    numerics: Numerics,
    plan: &'a Plan,
}

/// The expansion of a program that has no errors.
pub(crate) fn kernel(planned: &Planned) -> TokenStream {
    let emitter = Emitter::new(planned);
    let (function, module) = (emitter.function(), emitter.module());
    quote! { #function #module }
}

impl<'a> Emitter<'a> {
    fn new(planned: &'a Planned) -> Self {
        let Planned { program, dag, id, plan } = planned;
        let operands = operand::operands(program);
        let steps = infer::steps(dag, &operands);
        let fields = program.dims.iter().map(|it| field(&it.ident)).collect();
        let [queue, dims, q] = ["queue", "dims", "Q"].map(local);
        let Program { ident, visibility, attributes, .. } = program;
        Self {
            program,
            ident: ident.clone(),
            visibility: visibility.clone(),
            attributes: attributes.clone(),
            shares_dims: false,
            operands,
            steps,
            fields,
            queue,
            dims,
            q,
            id,
            numerics: dag.numerics,
            plan,
        }
    }
}

impl Emitter<'_> {
    /// The crate `tvmtune_runtime`, as seen from where the function stands.
    fn runtime(&self) -> TokenStream {
        match &self.program.options.krate {
            Some(path) => path.to_token_stream(),
            None => quote!(::tvmtune_runtime),
        }
    }

    /// `dims: Dims,` where there are any.
    fn dims_param(&self) -> Option<TokenStream> {
        let dims = &self.dims;
        (!self.fields.is_empty()).then(|| quote!(#dims: Dims,))
    }

    /// `dims,` where there are any.
    fn dims_argument(&self) -> Option<TokenStream> {
        let dims = &self.dims;
        (!self.fields.is_empty()).then(|| quote!(#dims,))
    }

    /// Turns `dims: Dims` into an array, checked.
    fn checked_dims(&self) -> TokenStream {
        let (n_dims, dims) = (self.fields.len(), &self.dims);
        if n_dims == 0 {
            return quote!(let #dims: [::core::primitive::i64; 0] = [];);
        }
        quote!(let #dims: [::core::primitive::i64; #n_dims] = #dims.checked()?;)
    }

    fn names(&self) -> Vec<&Ident> {
        self.operands.iter().map(|it| &it.ident).collect()
    }

    /// `x: &(impl Input<f32, Q> + ?Sized), ..`
    fn params(&self, rt: &TokenStream, queue: &TokenStream) -> Vec<TokenStream> {
        let param = |it: &Operand| {
            let (name, ty) = (&it.ident, it.ty(rt, queue));
            quote!(#name: #ty)
        };
        self.operands.iter().map(param).collect()
    }

    /// The function under the program's name.
    fn function(&self) -> TokenStream {
        let Self { ident, visibility, attributes, .. } = self;
        let (rt, names) = (self.runtime(), self.names());
        let (queue, dims, q) = (&self.queue, &self.dims, &self.q);
        let params = self.params(&rt, &q.to_token_stream());
        let docs = self.docs();
        let (dims_param, inferred) = match &self.steps {
            _ if self.fields.is_empty() => (None, None),
            None => (Some(quote!(#dims: #ident::Dims,)), None),
            Some(steps) => {
                let steps = steps.iter().map(|it| self.inferred(it, &rt));
                let fields = &self.fields;
                let n_dims = fields.len();
                let positions = 0..n_dims;
                let inferred = quote! {
                    let mut #dims = [0_i64; #n_dims];
                    #(#steps)*
                    let #dims = #ident::Dims {
                        #(#fields: #dims[#positions] as ::core::primitive::usize),*
                    };
                };
                (None, Some(inferred))
            }
        };
        let dims_argument = self.dims_argument();
        quote! {
            #(#attributes)*
            #(#[doc = #docs])*
            #[allow(clippy::too_many_arguments)]
            #visibility fn #ident<#q: #rt::Queue>(#queue: &#q, #dims_param #(#params),*)
                -> ::core::result::Result<(), #rt::Error>
            {
                #inferred
                #ident::load(#queue)?.launch(#queue, #dims_argument #(#names),*)
            }
        }
    }

    /// `dims[n] = ..`, from the length of an argument.
    fn inferred(&self, step: &Step, rt: &TokenStream) -> TokenStream {
        let operand = &self.operands[step.operand];
        let position = step.dim.0 as usize;
        let kernel = self.program.ident.to_string();
        let (arg, shape) = (operand.name(), &operand.spelled);
        let dim = self.program.dims[position].ident.to_string();
        let (factor, rest) = (in_dims(&step.factor), in_dims(&step.rest));
        let n_elements = operand.n_elements(rt, &self.q);
        let (range, dims, found) = (self.range(position), &self.dims, local("found"));
        quote! {
            let #found = #rt::raw::infer(
                #kernel, (#arg, #shape), #dim, #n_elements, (#factor, #rest),
            )?;
            #dims[#position] = #rt::raw::range(#kernel, #dim, #found, #range)?;
        }
    }

    /// `(lo, hi)` of a dimension.
    fn range(&self, dim: usize) -> TokenStream {
        let range = self.program.dims[dim].range;
        let (lo, hi) = (range.lo as usize, range.hi as usize);
        quote!((#lo, #hi))
    }

    /// The documentation that an editor shows.
    fn docs(&self) -> Vec<String> {
        let mut docs = vec![String::new()];
        if !self.program.dims.is_empty() {
            let dims = self.program.dims.iter();
            let dims = dims.map(|it| format!("`{}` in {}", it.ident, range(it)));
            docs.push(format!("Dynamic dimensions: {}.", dims.collect::<Vec<_>>().join(", ")));
            docs.push(String::new());
        }
        docs.extend(self.plan.summary.iter().map(|line| format!("- {line}")));
        let error = "If a length does not fit, or a dimension is out of range.";
        docs.extend(["", "# Errors", "", error].map(str::to_owned));
        docs
    }

    /// The module under the program's name.
    fn module(&self) -> TokenStream {
        let Self { ident, visibility, .. } = self;
        let doc = format!("What there is of [`{ident}`](fn@{ident}) beside the function.");
        let (path, items, tracked) = (self.runtime(), &self.plan.items, &self.plan.tracked);
        let name = self.program.ident.to_string();
        let dims = if self.shares_dims { self.shared_dims() } else { self.dims() };
        let (spec, kernel) = (self.spec(), self.kernel());
        let (dims_param, dims_argument) = (self.dims_param(), self.dims_argument());
        let (names, params) = (self.names(), self.params(&quote!(rt), &quote!(rt::Cpu)));
        let (queue, q, n_buckets) = (&self.queue, &self.q, self.plan.n_buckets);
        let cuda = if self.plan.has_cuda { quote!(code::CUDA) } else { quote!([&[]; #n_buckets]) };
        quote! {
            #[doc = #doc]
            #visibility mod #ident {
                use #path as rt;

                #tracked

                #[allow(clippy::all, dead_code)]
                mod code {
                    use super::rt;
                    #items
                }

                const NAME: &::core::primitive::str = #name;

                static PROGRAM: rt::raw::Program<#n_buckets> =
                    rt::raw::Program { buckets: &code::BUCKETS, cuda: &#cuda };

                static TRACED: rt::raw::Traced =
                    rt::raw::Traced { spec: &SPEC, buckets: &code::BUCKETS };

                #dims
                #spec
                #kernel

                /// Chooses the code for a queue: on the CPU, for the instruction set that it
                /// allows; on a CUDA stream, for the device, which loads it now unless it has.
                ///
                /// # Errors
                ///
                /// On the CPU none; on a CUDA stream, if there is no code for the device, or if it
                /// cannot be loaded.
                pub fn load<#q: rt::Queue>(#queue: &#q)
                    -> ::core::result::Result<Kernel<#q>, rt::Error>
                {
                    let kernel = rt::raw::Backend::load(#queue, NAME, &PROGRAM)?;
                    ::core::result::Result::Ok(Kernel { kernel })
                }

                /// Returns the plan of a launch on the CPU of this machine.
                ///
                /// # Errors
                ///
                /// If a dimension is out of range.
                pub fn plan(#dims_param) -> ::core::result::Result<rt::PlanInfo, rt::Error> {
                    load(&rt::Cpu::new())?.plan(#dims_argument)
                }

                /// The same program as portable Rust, on the calling thread: what tuned code is
                /// compared with.
                ///
                /// # Errors
                ///
                /// Those of a launch.
                #[allow(clippy::too_many_arguments)]
                pub fn reference(#dims_param #(#params),*)
                    -> ::core::result::Result<(), rt::Error>
                {
                    let #queue = rt::Cpu::new().at_most(rt::Isa::Portable);
                    load(&#queue)?.launch(&#queue, #dims_argument #(#names),*)
                }
            }
        }
    }

    fn shared_dims(&self) -> Option<TokenStream> {
        (!self.fields.is_empty()).then(|| {
            quote!(
                pub use super::Dims;
            )
        })
    }

    fn dims(&self) -> Option<TokenStream> {
        if self.fields.is_empty() {
            return None;
        }
        let (fields, n_dims, dims) = (&self.fields, self.fields.len(), local("dims"));
        let docs = self.program.dims.iter().map(|it| format!("`{}`, in {}.", it.ident, range(it)));
        let spelled = self.program.dims.iter().map(|it| it.ident.to_string());
        let ranges = (0..n_dims).map(|it| self.range(it));
        let at_least = self.program.dims.iter().enumerate().filter_map(|(n, dim)| {
            let (name, end) = (dim.ident.to_string(), dim.lower_end.as_ref()?);
            let (spelled, least) = (&end.spelled, in_dims(&end.value));
            Some(quote!(rt::raw::at_least(NAME, (#name, #spelled), #dims[#n], #least)?;))
        });
        Some(quote! {
            /// The dimensions that are known at launch only.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct Dims {
                #(#[doc = #docs] pub #fields: ::core::primitive::usize),*
            }

            impl Dims {
                fn checked(self)
                    -> ::core::result::Result<[::core::primitive::i64; #n_dims], rt::Error>
                {
                    let #dims =
                        [#(rt::raw::range(NAME, #spelled, self.#fields, #ranges)?),*];
                    #(#at_least)*
                    ::core::result::Result::Ok(#dims)
                }
            }
        })
    }

    fn kernel(&self) -> TokenStream {
        let (q, n_buckets) = (&self.q, self.plan.n_buckets);
        let (dims_param, checked, dims) = (self.dims_param(), self.checked_dims(), &self.dims);
        let (launch, prepare, launch_raw) = (self.launch(), self.prepare(), self.launch_raw());
        quote! {
            /// The program, with the code for one machine or device chosen.
            pub struct Kernel<#q: rt::Queue = rt::Cpu> {
                kernel: <#q as rt::raw::Backend>::Kernel<#n_buckets>,
            }

            impl<#q: rt::Queue> ::core::clone::Clone for Kernel<#q> {
                fn clone(&self) -> Self {
                    Self { kernel: ::core::clone::Clone::clone(&self.kernel) }
                }
            }

            impl ::core::marker::Copy for Kernel<rt::Cpu> {}

            impl<#q: rt::Queue> ::core::fmt::Debug for Kernel<#q> {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    f.debug_tuple(NAME).field(&self.kernel).finish()
                }
            }

            impl<#q: rt::Queue> Kernel<#q> {
                #launch
                #prepare

                /// Returns the plan of a launch.
                ///
                /// # Errors
                ///
                /// If a dimension is out of range.
                pub fn plan(&self, #dims_param)
                    -> ::core::result::Result<rt::PlanInfo, rt::Error>
                {
                    #checked
                    ::core::result::Result::Ok(
                        <#q as rt::raw::Backend>::plan::<#n_buckets>(&SPEC, &self.kernel, &#dims),
                    )
                }
            }

            #launch_raw
        }
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Operand> {
        self.operands.iter().filter(move |it| it.kind == kind)
    }

    fn tensors(&self) -> Vec<&Operand> {
        self.operands.iter().filter(|it| it.is_tensor()).collect()
    }

    /// `let scalars = [..];`
    fn scalars(&self) -> TokenStream {
        let scalars: Vec<&Ident> = self.of_kind(Kind::Scalar).map(|it| &it.ident).collect();
        let (n_scalars, name) = (scalars.len(), local("scalars"));
        quote! {
            let #name: [::core::primitive::u64; #n_scalars] =
                [#(rt::raw::Scalar::bits(#scalars)),*];
        }
    }
}

/// The range of a dimension, as the program spells it.
fn range(dim: &DynamicDim) -> String {
    match &dim.lower_end {
        Some(end) => format!("{}..={}", end.spelled, dim.range.hi),
        None => format!("{}..={}", dim.range.lo, dim.range.hi),
    }
}
