//! `numerics = "fixed"`: every schedule gives the same bits.

use proc_macro2::Span;
use syn::LitStr;
use syn::parse::ParseStream;

use super::Program;
use super::errors::Errors;
use crate::dag::{Dag, Numerics};

/// Parses the value of the option, with its place.
pub(super) fn mode(
    input: ParseStream<'_>,
    errors: &mut Errors,
) -> syn::Result<Option<(Span, Numerics)>> {
    let word: LitStr = input.parse()?;
    let mode = [Numerics::Free, Numerics::Fixed].into_iter().find(|it| it.name() == word.value());
    Ok(match mode {
        Some(mode) => Some((word.span(), mode)),
        None => errors.at(&word, "expected `numerics = \"fixed\"` or `numerics = \"free\"`"),
    })
}

/// Refuses fixed numerics beside a tolerance, and for programs whose reductions have no fixed order.
pub(super) fn check(program: &Program, dag: Dag) -> syn::Result<Dag> {
    let Some((span, Numerics::Fixed)) = program.options.numerics else { return Ok(dag) };
    if program.options.rel.is_some() || program.options.abs.is_some() {
        let message = "results with `numerics = \"fixed\"` equal the definition: remove `tol(..)`";
        return Err(syn::Error::new(span, message));
    }
    if program.kernel_template.is_some() {
        let message = "the order of operations in a hand-written kernel is not known: \
                       remove `numerics = \"fixed\"`, or the template";
        return Err(syn::Error::new(span, message));
    }
    if let Some(tensor) = dag.without_fixed_order() {
        let message = format!(
            "`{}` is a sum up to an index, or from one on, which has no fixed order yet: remove \
             `numerics = \"fixed\"`",
            dag.tensor(tensor).name
        );
        return Err(syn::Error::new(span, message));
    }
    Ok(dag)
}
