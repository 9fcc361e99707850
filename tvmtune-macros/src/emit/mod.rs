//! The function and the module that take a program's place.
//!
//! # Invariants
//!
//! - What is generated compiles in a crate that forbids `unsafe` code: the lint looks at spans,
//!   so no token in or around an `unsafe` block has a span of the user's.
//! - Before a launch, dimensions are in range and lengths are what they say, by checks that stand
//!   in the generated code.

mod raw;
mod spec;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use tvmtune_core::dag::Dag;
use tvmtune_core::dsl::Program;

use crate::infer::{self, Step};
use crate::operand::{self, Kind, Operand, field, in_dims, local};
use crate::plan::Plan;

/// What the parts of the expansion are made from.
struct Emitter<'a> {
    program: &'a Program,
    operands: Vec<Operand>,
    /// How the dimensions follow from the arguments; `None` if the caller must pass them.
    steps: Option<Vec<Step>>,
    /// The fields of `Dims`.
    fields: Vec<Ident>,
    /// Parameters of the generated functions.
    cpu: Ident,
    dims: Ident,
    id: &'a str,
    plan: &'a Plan,
}

/// The expansion of a program that has no errors.
pub(crate) fn kernel(program: &Program, dag: &Dag, id: &str, plan: &Plan) -> TokenStream {
    let operands = operand::operands(program);
    let steps = infer::steps(dag, &operands);
    let fields = program.dims.iter().map(|it| field(&it.ident)).collect();
    let (cpu, dims) = (local("cpu"), local("dims"));
    let emitter = Emitter { program, operands, steps, fields, cpu, dims, id, plan };
    let (function, module) = (emitter.function(), emitter.module());
    quote! { #function #module }
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

    /// `x: &(impl Input<f32> + ?Sized), ..`
    fn params(&self, rt: &TokenStream) -> Vec<TokenStream> {
        let param = |it: &Operand| {
            let (name, ty) = (&it.ident, it.ty(rt));
            quote!(#name: #ty)
        };
        self.operands.iter().map(param).collect()
    }

    /// The function under the program's name.
    fn function(&self) -> TokenStream {
        let Program { ident, visibility, attributes, .. } = self.program;
        let (rt, names) = (self.runtime(), self.names());
        let params = self.params(&rt);
        let docs = self.docs();
        let (cpu, dims) = (&self.cpu, &self.dims);
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
            #visibility fn #ident(#cpu: &#rt::Cpu, #dims_param #(#params),*)
                -> ::core::result::Result<(), #rt::Error>
            {
                #inferred
                #ident::load(#cpu)?.launch(#cpu, #dims_argument #(#names),*)
            }
        }
    }

    /// `dims[n] = ..`, from the length of an argument.
    fn inferred(&self, step: &Step, rt: &TokenStream) -> TokenStream {
        let operand = &self.operands[step.operand];
        let position = step.dim.0 as usize;
        let (kernel, ident) = (self.program.ident.to_string(), &operand.ident);
        let (arg, shape) = (operand.name(), &operand.spelled);
        let dim = self.program.dims[position].ident.to_string();
        let (factor, rest) = (in_dims(&step.factor), in_dims(&step.rest));
        let elements = match operand.kind {
            Kind::Input => quote!(#rt::Input::elements(#ident)),
            Kind::Weight => quote!(#rt::Constant::elements(#ident)),
            Kind::Output => quote!(#rt::Output::elements_mut(#ident)),
            Kind::Scalar => unreachable!("a scalar has no length"),
        };
        let (range, dims, found) = (self.range(position), &self.dims, local("found"));
        quote! {
            let #found = #rt::raw::infer(
                #kernel, (#arg, #shape), #dim, #elements.len(), (#factor, #rest),
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

    /// What an editor shows.
    fn docs(&self) -> Vec<String> {
        let mut docs = vec![String::new()];
        if !self.program.dims.is_empty() {
            let dims = self.program.dims.iter();
            let dims =
                dims.map(|it| format!("`{}` in {}..={}", it.ident, it.range.lo, it.range.hi));
            docs.push(format!("Dynamic dimensions: {}.", dims.collect::<Vec<_>>().join(", ")));
            docs.push(String::new());
        }
        for line in &self.plan.summary {
            docs.push(format!("- {line}"));
        }
        docs.push(String::new());
        docs.push("# Errors".to_owned());
        docs.push(String::new());
        docs.push("If a length does not fit, or a dimension is out of range.".to_owned());
        docs
    }

    /// The module under the program's name.
    fn module(&self) -> TokenStream {
        let Program { ident, visibility, .. } = self.program;
        let doc = format!("What there is of [`{ident}`](fn@{ident}) beside the function.");
        let (path, items, tracked) = (self.runtime(), &self.plan.items, &self.plan.tracked);
        let name = ident.to_string();
        let (dims, spec, kernel) = (self.dims(), self.spec(), self.kernel());
        let (dims_param, dims_argument) = (self.dims_param(), self.dims_argument());
        let (names, params) = (self.names(), self.params(&quote!(rt)));
        let cpu = &self.cpu;
        quote! {
            #[doc = #doc]
            #visibility mod #ident {
                use #path as rt;

                #tracked

                #[allow(clippy::all)]
                mod code {
                    use super::rt;
                    #items
                }

                const NAME: &::core::primitive::str = #name;

                #dims
                #spec
                #kernel

                /// Chooses the code for the instruction set that `cpu` allows.
                ///
                /// # Errors
                ///
                /// None yet.
                pub fn load(cpu: &rt::Cpu) -> ::core::result::Result<Kernel, rt::Error> {
                    ::core::result::Result::Ok(
                        Kernel { kernel: rt::raw::Kernel::new(cpu, &code::BUCKETS) },
                    )
                }

                /// What a launch on this machine runs.
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
                    let #cpu = rt::Cpu::new().at_most(rt::Isa::Portable);
                    load(&#cpu)?.launch(&#cpu, #dims_argument #(#names),*)
                }
            }
        }
    }

    /// The type `Dims`.
    fn dims(&self) -> Option<TokenStream> {
        if self.fields.is_empty() {
            return None;
        }
        let (fields, n_dims) = (&self.fields, self.fields.len());
        let dims = self.program.dims.iter();
        let docs = dims.map(|it| format!("`{}`, in {}..={}.", it.ident, it.range.lo, it.range.hi));
        let spelled = self.program.dims.iter().map(|it| it.ident.to_string());
        let ranges = (0..n_dims).map(|it| self.range(it));
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
                    ::core::result::Result::Ok(
                        [#(rt::raw::range(NAME, #spelled, self.#fields, #ranges)?),*],
                    )
                }
            }
        })
    }

    /// The type `Kernel`.
    fn kernel(&self) -> TokenStream {
        let n_buckets = self.plan.n_buckets;
        let (dims_param, checked, dims) = (self.dims_param(), self.checked_dims(), &self.dims);
        let (launch, prepare, launch_raw) = (self.launch(), self.prepare(), self.launch_raw());
        quote! {
            /// The program, with the code for one machine chosen.
            #[derive(Clone, Copy, Debug)]
            pub struct Kernel {
                kernel: rt::raw::Kernel<#n_buckets>,
            }

            impl Kernel {
                #launch
                #prepare
                #launch_raw

                /// What a launch runs.
                ///
                /// # Errors
                ///
                /// If a dimension is out of range.
                pub fn plan(&self, #dims_param)
                    -> ::core::result::Result<rt::PlanInfo, rt::Error>
                {
                    #checked
                    ::core::result::Result::Ok(self.kernel.plan(&#dims))
                }
            }
        }
    }

    fn launch(&self) -> TokenStream {
        let (dims_param, checked_dims) = (self.dims_param(), self.checked_dims());
        let params = self.params(&quote!(rt));
        let checked = self.operands.iter().map(checked);
        let argument = |it: &Operand| {
            let ident = &it.ident;
            match it.kind {
                Kind::Input => Some(quote!(rt::raw::Arg::input(#ident))),
                Kind::Weight => Some(quote!(rt::raw::Arg::weight(&#ident))),
                Kind::Output => Some(quote!(rt::raw::Arg::output(#ident))),
                Kind::Scalar => None,
            }
        };
        let args = self.operands.iter().filter_map(argument);
        let scalars: Vec<&Ident> = self.of_kind(Kind::Scalar).map(|it| &it.ident).collect();
        let n_scalars = scalars.len();
        let n_dims = self.fields.len();
        let (cpu, dims) = (&self.cpu, &self.dims);
        let [args_name, scalars_name, variant] = ["args", "scalars", "variant"].map(local);
        let dim_values = (0..n_dims).map(|it| quote!(#dims[#it]));
        let passed = |it: &Operand| {
            let ident = &it.ident;
            if it.kind == Kind::Weight { quote!(#ident.elements()) } else { quote!(#ident) }
        };
        let tensors = self.operands.iter().filter(|it| it.is_tensor()).map(passed);
        quote! {
            /// Checks everything, and runs.
            ///
            /// # Errors
            ///
            /// If a length does not fit, or a dimension is out of range.
            #[allow(clippy::too_many_arguments)]
            pub fn launch(&self, #cpu: &rt::Cpu, #dims_param #(#params),*)
                -> ::core::result::Result<(), rt::Error>
            {
                #checked_dims
                #(#checked)*
                match self.kernel.variant(#cpu, &#dims) {
                    ::core::option::Option::Some(#variant) => {
                        let #args_name = [#(#args),*];
                        let #scalars_name: [::core::primitive::u64; #n_scalars] =
                            [#(rt::raw::Scalar::bits(#scalars)),*];
                        // The variant is of this program and chosen for this CPU and these
                        // dimensions, and the lengths of all arguments were checked.
                        unsafe {
                            rt::raw::run(
                                #cpu, NAME, #variant, &#dims, &#args_name, &#scalars_name,
                            )
                        }
                    }
                    ::core::option::Option::None => rt::raw::portable(NAME, || {
                        code::portable(#(#dim_values,)* #(#scalars,)* #(#tensors),*);
                    }),
                }
            }
        }
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Operand> {
        self.operands.iter().filter(move |it| it.kind == kind)
    }

    /// Packs weights ahead of launches; there is nothing to generate where there is no weight, or
    /// where the shape of one depends on a launch.
    fn prepare(&self) -> Option<TokenStream> {
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
        let checked = weights.iter().copied().map(checked);
        let names = weights.iter().map(|it| &it.ident);
        let tensors: Vec<&Operand> = self.operands.iter().filter(|it| it.is_tensor()).collect();
        let positions = tensors.iter().enumerate();
        let positions = positions.filter(|(_, it)| it.kind == Kind::Weight).map(|(n, _)| n);
        Some(quote! {
            /// Packs weights now, instead of at the first launch.
            ///
            /// # Errors
            ///
            /// If a length does not fit.
            pub fn prepare(&self, #(#params),*) -> ::core::result::Result<(), rt::Error> {
                #(#checked)*
                #(#names.prepare(#positions, self.kernel.chosen());)*
                ::core::result::Result::Ok(())
            }
        })
    }
}

/// Turns an argument into a slice (or a weight) of the length that the dimensions say.
fn checked(operand: &Operand) -> TokenStream {
    let (ident, arg, shape) = (&operand.ident, operand.name(), &operand.spelled);
    let want = in_dims(&operand.len());
    match operand.kind {
        Kind::Scalar => TokenStream::new(),
        Kind::Input => quote! {
            let #ident = rt::Input::elements(#ident);
            rt::raw::len(NAME, (#arg, #shape), #ident.len(), #want)?;
        },
        Kind::Output => quote! {
            let #ident = rt::Output::elements_mut(#ident);
            rt::raw::len(NAME, (#arg, #shape), #ident.len(), #want)?;
        },
        Kind::Weight => {
            let extents = operand.shape.iter().map(in_dims);
            let n_extents = operand.shape.len();
            let extents_name = local(&format!("{}_shape", operand.name()));
            let element = operand.element();
            quote! {
                let #extents_name: [::core::primitive::usize; #n_extents] =
                    [#((#extents) as ::core::primitive::usize),*];
                let #ident = rt::raw::WeightArg::<#element>::new(#ident, &#extents_name);
                rt::raw::len(NAME, (#arg, #shape), #ident.elements().len(), #want)?;
            }
        }
    }
}
