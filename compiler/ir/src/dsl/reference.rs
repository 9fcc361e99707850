//! The reference of a kernel template in Rust: `reference("kernels/sort.rs", sort)`.
//!
//! It takes the place of the body where the language has no words for what the kernels compute. The
//! program has computes all the same, which say the types and extents of its results; their elements are
//! never computed.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{Block, LitStr, Token};

use super::elaborate::Elaborator;
use super::errors::Errors;
use super::options::Options;
use super::reduce::Axes;
use super::signature::Declared;
use super::template::{parenthesized, text_of};
use super::template_expr::reads;
use crate::dag::kernel_template::is_identifier;
use crate::dag::{DType, Expr, Literal, RustFunction, TensorId};
use crate::poly::{Poly, VarId};

/// A function of Rust, as the attribute names it.
#[derive(Clone)]
pub(super) struct ReferenceDeclaration {
    file: LitStr,
    pub(super) ident: Ident,
    /// The text of the file, once somebody has read it.
    source: Option<String>,
}

/// Reads `("kernels/sort.rs", sort)`, with the text behind it.
pub(super) fn option(
    input: ParseStream<'_>,
    options: &mut Options,
    errors: &mut Errors,
) -> syn::Result<()> {
    let example = "`reference(\"kernels/sort.rs\", sort)`";
    let inside = parenthesized(input, example)?;
    let parse = |input: ParseStream<'_>| {
        if !input.peek(LitStr) {
            return Err(input.error(format!("expected the name of a file, as in {example}")));
        }
        let file: LitStr = input.parse()?;
        if input.parse::<Option<Token![,]>>()?.is_none() {
            return Err(input.error(format!("expected the name of a function, as in {example}")));
        }
        Ok((file, input.parse::<Ident>()?))
    };
    let (file, ident) = parse.parse2(inside)?;
    let source = text_of(input, &file, &file.value(), errors)?;
    options.template.reference = Some(ReferenceDeclaration { file, ident, source });
    Ok(())
}

impl Elaborator {
    /// Elaborates the definition of the results: the body, or the function that takes its place.
    pub(super) fn defined(
        &mut self,
        function: &syn::ItemFn,
        declared: Option<&[Declared]>,
    ) -> Option<Vec<TensorId>> {
        let (block, template) = (&function.block, &self.options.template);
        if let Some(reference) = template.reference.clone() {
            return self.results_of_reference(&reference, block, declared);
        }
        if block.stmts.is_empty() && self.options.incomplete {
            // A reference may be among the options that cannot be read.
            return None;
        }
        if block.stmts.is_empty() && template.file.is_some() {
            let name = &function.sig.ident;
            let message = format!(
                "nothing defines the results: write the definition, or add \
                 `reference(\"kernels/{name}.rs\", {name})`"
            );
            return self.errors.at(block, message);
        }
        self.body(block, declared)
    }

    /// Gives each result a compute that says its type and extents; `block` is the empty body of the
    /// function.
    fn results_of_reference(
        &mut self,
        reference: &ReferenceDeclaration,
        block: &Block,
        declared: Option<&[Declared]>,
    ) -> Option<Vec<TensorId>> {
        let ReferenceDeclaration { ident, .. } = reference;
        if !block.stmts.is_empty() {
            let message = format!("`{ident}` defines the results: write `{{}}` for the body");
            self.errors.at::<()>(block, message);
        }
        for it in &mut self.in_place {
            // Nothing can be assigned in an empty body, and one error says so.
            it.new = Some(None);
            let name = &it.name;
            let message = format!(
                "the results of `{ident}` have memory of their own: declare `{name}` as `Tensor<..>`"
            );
            self.errors.at::<()>(ident, message);
        }
        let declared = declared?;
        let name = |n: usize| match declared.len() {
            1 => "out".to_owned(),
            _ => format!("out{n}"),
        };
        Some(declared.iter().enumerate().map(|(n, it)| self.undefined(name(n), it)).collect())
    }

    /// A compute of zeros.
    fn undefined(&mut self, name: String, declared: &Declared) -> TensorId {
        let n_around = self.around.len();
        let axis = |it: &Poly| self.enter_axis(None, Poly::constant(0), it.clone());
        let spatial: Vec<VarId> = declared.shape.iter().map(axis).collect();
        let zero = match declared.dtype {
            DType::Bool => Literal::Bool(false),
            it if it.is_float() => Literal::Float(0.0),
            _ => Literal::Int(0),
        };
        let body = Expr::Const(zero, declared.dtype);
        let axes = Axes { spatial: &spatial, reduce: &[] };
        let tensor = self.define(name, axes, None, &body, declared.dtype);
        self.around.truncate(n_around);
        tensor
    }

    /// Returns the function; `None` after an error.
    pub(super) fn rust_function(&mut self, it: &ReferenceDeclaration) -> Option<RustFunction> {
        let ReferenceDeclaration { file, ident, source } = it;
        let (source, name) = (source.as_ref()?, ident.to_string());
        if !reads(source, &name) {
            let message = format!(
                "`{}` has no function `{name}`: write `pub fn {name}(..)` there",
                file.value()
            );
            return self.errors.at(ident, message);
        }
        if let Some(n) = source.lines().position(is_inner_attribute) {
            let message = format!(
                "`{}` is included in a module, which line {} does not begin: write `//` for `//!`, \
                 and leave out `#![..]`",
                file.value(),
                n + 1
            );
            return self.errors.at(file, message);
        }
        if !is_identifier(&name) {
            return self
                .errors
                .at(ident, format!("`{}` is no name: rename it", ident.to_token_stream()));
        }
        Some(RustFunction { file: file.value(), name, source: source.clone() })
    }
}

/// Returns whether a line is an attribute, or documentation, of the file that it stands in.
fn is_inner_attribute(line: &str) -> bool {
    ["//!", "/*!", "#!["].iter().any(|it| line.trim_start().starts_with(it))
}
