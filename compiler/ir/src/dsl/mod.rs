//! The language: elaborates a function annotated with `#[autotune]`.
//!
//! ```text
//! [dsl] -> dag -> schedule -> nest -> cpu or cuda -> compile -> measure -> ...
//! ```
//!
//! In: the attribute's arguments and the function, as tokens. Out: a [`Program`], in which every
//! name is resolved, every type is known, every read is proven in bounds, and reductions are computes
//! of their own. Next: [`build`] brings it into the form whose text is its identity.
//!
//! `docs/language.md` describes the language for its users. This file holds the data of a program,
//! which every file of the module uses.
//!
//! # Invariants
//!
//! - All errors are reported at once, each at its location, none as a consequence of another.
//! - No tokens make the elaboration panic, or take long.

mod activations;
mod bindings;
mod bits;
mod body;
mod call;
mod called_paths;
mod constants;
mod derived_reductions;
mod differences;
mod elaborate;
mod errors;
mod expr;
mod extents;
mod function;
mod hints;
mod in_place;
mod index;
mod infer;
mod inline;
mod library;
mod instances;
mod knobs;
mod lower_end;
#[cfg(any(test, feature = "arbitrary"))]
pub mod mutants;
mod nesting;
mod numerics;
mod options;
mod read;
mod reduce;
mod reference;
mod residence;
mod scan;
mod signature;
mod syntax;
mod template;
mod template_expr;
mod top;
mod value;

use proc_macro2::{Ident, TokenStream};

use crate::dag::limits::MAX_TEXT_BYTES;
use crate::dag::{
    Compute, DType, Dag, Dim, KernelTemplate, Numerics, Scalar, ScalarId, Tensor, TensorId, print,
    simplify, verify,
};
use crate::poly::{Interval, Poly};

pub use constants::with_constants;
pub use inline::{
    Called, Functions, bare_text, calls_others, fingerprint, inline_program, is_inline,
    with_functions,
};
pub use instances::{Instance, element_types, for_each_instance, instances};
pub use nesting::{check as check_nesting, without_deep_groups};
pub use numerics::with_numerics;
pub use options::{DimDeclaration, Options, Tolerance};
pub use residence::Residence;
pub use syntax::{Unreadable, function};
pub use template::{NamedText, with_templates};

/// One `#[autotune]` function. See the [module documentation](self).
pub struct Program {
    /// The function's name.
    pub ident: Ident,
    /// The function's visibility.
    pub visibility: syn::Visibility,
    /// The function's other attributes, its documentation among them.
    pub attributes: Vec<syn::Attribute>,
    /// The arguments of the attribute.
    pub options: Options,
    /// The dynamic dimensions, by [`DimId`](crate::poly::DimId): in order of appearance in the
    /// parameters' shapes.
    pub dims: Vec<DynamicDim>,
    /// The parameters, in order.
    pub params: Vec<Param>,
    /// The results, in order: those of `InOut` parameters, then those that the function returns.
    pub outputs: Vec<Output>,
    /// The tensors of the parameters, in order, then those of the computes.
    pub tensors: Vec<Tensor>,
    /// The run-time scalars, in order.
    pub scalars: Vec<Scalar>,
    /// The definitions, in order, as written: nothing is simplified yet.
    pub computes: Vec<Compute>,
    /// Hand-written kernels for GPUs, if the attribute names some.
    pub kernel_template: Option<KernelTemplate>,
}

/// A dimension that is known at launch only.
pub struct DynamicDim {
    /// Its name, where it is declared.
    pub ident: Ident,
    /// The extents for which kernels must be right.
    pub range: Interval,
    /// Its lower bound at each launch, where that depends on another dimension.
    pub lower_end: Option<DynamicEnd>,
    /// The intervals in which schedules may differ: they cover `range`, in order.
    pub buckets: Vec<Interval>,
}

/// The lower bound of a dimension, as a polynomial in another one.
pub struct DynamicEnd {
    /// Its value.
    pub value: Poly,
    /// As the program spells it: `(T + 3) / 4`.
    pub spelled: String,
}

/// A parameter of the function.
pub struct Param {
    /// Its name.
    pub ident: Ident,
    /// Its type, as written.
    pub ty: syn::Type,
    /// The type of its elements, or its own.
    pub dtype: DType,
    /// Its kind.
    pub kind: ParamKind,
}

/// The kinds of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// `Tensor<..>`.
    Input(TensorId),
    /// `Weight<..>`.
    Weight(TensorId),
    /// `InOut<..>`: its memory receives a result.
    InOut(TensorId),
    /// A plain scalar.
    Scalar(ScalarId),
}

/// A result of the function.
pub struct Output {
    /// Its type, as written.
    pub ty: syn::Type,
    /// The type of its elements.
    pub dtype: DType,
    /// Its extents, outermost first.
    pub shape: Vec<Poly>,
    /// The tensor of [`Program::tensors`] that it is.
    pub tensor: TensorId,
}

impl Program {
    /// For each dynamic dimension, the intervals in which schedules may differ.
    pub fn buckets(&self) -> Vec<Vec<Interval>> {
        self.dims.iter().map(|it| it.buckets.clone()).collect()
    }

    /// For each tensor among the parameters, the place where it is when a launch begins; `None` where
    /// its size tells.
    pub fn residence(&self) -> Vec<Option<Residence>> {
        residence::of_params(&self.options.residence, self.params.iter())
    }

    /// The number of its runs, relative to other ops: 1 where the attribute states none.
    pub fn weight(&self) -> f64 {
        self.options.weight.unwrap_or(1.0)
    }

    /// The tolerance of results; by element type where the attribute states none. None where numerics are
    /// fixed.
    pub fn tolerance(&self) -> Tolerance {
        if self.options.numerics() == Numerics::Fixed {
            return Tolerance { rel: 0.0, abs: 0.0 };
        }
        let coarsest =
            self.outputs.iter().map(|it| default_tolerance(it.dtype)).fold(0.0, f64::max);
        Tolerance {
            rel: self.options.rel.unwrap_or(coarsest),
            abs: self.options.abs.unwrap_or(coarsest),
        }
    }
}

/// Some ten units in the last place of a sum of terms around 1.
fn default_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::Bf16 => 2e-2,
        DType::F16 => 2e-3,
        DType::F32 => 1e-4,
        DType::F64 => 1e-9,
        DType::I8 | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::Bool => 0.0,
    }
}

/// Elaborates a function and the arguments of its attribute.
///
/// # Errors
///
/// All errors of the program, combined.
pub fn parse(options: TokenStream, function: &syn::ItemFn) -> syn::Result<Program> {
    let mut errors = errors::Errors::default();
    let options = options::parse(options, &mut errors);
    elaborate::program(options, function, errors)
}

/// Returns the arguments of a function's `#[autotune]`, named by any path; `None` without one.
pub fn attribute(function: &syn::ItemFn) -> Option<syn::Result<TokenStream>> {
    let attribute = function.attrs.iter().find(|it| is_autotune(it))?;
    Some(match &attribute.meta {
        syn::Meta::Path(_) => Ok(TokenStream::new()),
        syn::Meta::List(list) => Ok(list.tokens.clone()),
        meta @ syn::Meta::NameValue(_) => {
            Err(syn::Error::new_spanned(meta, "expected `#[autotune(dims(..))]`"))
        }
    })
}

fn is_autotune(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|it| it.ident == "autotune")
}

/// Builds the dag of a program: simplified, without dead code.
///
/// # Errors
///
/// If the dag is not well formed, which is a bug of tvmtune, not of the program.
pub fn build(program: &Program) -> Result<Dag, syn::Error> {
    let dims = program.dims.iter().map(|it| Dim {
        name: it.ident.to_string(),
        range: it.range,
        lower_end: it.lower_end.as_ref().map(|it| it.value.clone()),
    });
    let mut dag = Dag {
        name: program.ident.to_string(),
        dims: dims.collect(),
        scalars: program.scalars.clone(),
        tensors: program.tensors.clone(),
        computes: program.computes.clone(),
        outputs: program.outputs.iter().map(|it| it.tensor).collect(),
        numerics: Numerics::Free,
        written_order: None,
        orders: Vec::new(),
        kernel_template: program.kernel_template.clone(),
    };
    // Computes that only say types and extents may be alike.
    if dag.reference().is_none() {
        simplify::simplify(&mut dag);
    }
    if program.options.numerics() == Numerics::Fixed {
        dag.written_order = program.options.order.map(|it| it.1);
        dag.fix_numerics();
    }
    let n_bytes = print::canonical(&dag).len();
    if n_bytes > MAX_TEXT_BYTES {
        let message = format!(
            "this program is too long: {n_bytes} bytes of canonical text, and at most \
             {MAX_TEXT_BYTES} are kept; write several functions"
        );
        return Err(syn::Error::new(program.ident.span(), message));
    }
    let findings: Vec<String> = verify(&dag).iter().map(ToString::to_string).collect();
    if findings.is_empty() {
        return numerics::check(program, dag);
    }
    let message = format!(
        "tvmtune read this program wrongly; please report it, with the program: {}",
        findings.join("; ")
    );
    Err(syn::Error::new(program.ident.span(), message))
}

/// Builds the dag of the text of one function, attribute included.
///
/// # Errors
///
/// All errors of the program; syntax errors of Rust come first and alone.
pub fn program(source: &str) -> syn::Result<Dag> {
    let tokens: TokenStream = source.parse()?;
    check_nesting(&tokens)?;
    let function: syn::ItemFn = syn::parse2(tokens)?;
    let options = attribute(&function).transpose()?.unwrap_or_default();
    build(&parse(options, &function)?)
}

#[cfg(test)]
mod tests;
