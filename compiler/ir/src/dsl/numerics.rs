//! `numerics = "fixed"`: every schedule gives the same bits.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::LitStr;
use syn::parse::ParseStream;

use super::Program;
use super::errors::Errors;
use crate::dag::{Dag, Numerics};

/// The name of the option.
pub(super) const OPTION: &str = "numerics";

/// Returns an attribute's arguments with the numerics that a crate asks for, unless they say some.
pub fn with_numerics(options: TokenStream, of_crate: Numerics) -> TokenStream {
    let is_comma = |it: &TokenTree| matches!(it, TokenTree::Punct(it) if it.as_char() == ',');
    let is_own = |it: &TokenTree| matches!(it, TokenTree::Ident(it) if it == OPTION);
    let tokens: Vec<TokenTree> = options.clone().into_iter().collect();
    let says_some = tokens.split(is_comma).any(|it| it.first().is_some_and(is_own));
    if of_crate == Numerics::default() || says_some {
        return options;
    }
    let comma = tokens.last().filter(|it| !is_comma(it)).map(|_| quote!(,));
    let word = of_crate.name();
    quote!(#options #comma numerics = #word)
}

/// Parses the value of the option, with its place.
pub(super) fn mode(
    input: ParseStream<'_>,
    errors: &mut Errors,
) -> syn::Result<Option<(Span, Numerics)>> {
    let word: LitStr = input.parse()?;
    Ok(match word.value().parse() {
        Ok(mode) => Some((word.span(), mode)),
        Err(_) => errors.at(&word, "expected `numerics = \"fixed\"` or `numerics = \"free\"`"),
    })
}

/// Refuses fixed numerics beside a tolerance, and for programs whose reductions have no fixed order.
pub(super) fn check(program: &Program, dag: Dag) -> syn::Result<Dag> {
    let Some((span, Numerics::Fixed)) = program.options.numerics else { return Ok(dag) };
    if program.options.rel.is_some() || program.options.abs.is_some() {
        let message = "results with fixed numerics equal the definition: remove `tol(..)`, or say \
                       `numerics = \"free\"`";
        return Err(syn::Error::new(span, message));
    }
    if program.kernel_template.is_some() {
        let message = "the order of operations in a hand-written kernel is not known, so its \
                       numerics cannot be fixed: say `numerics = \"free\"`";
        return Err(syn::Error::new(span, message));
    }
    if let Some(tensor) = dag.without_fixed_order() {
        let message = format!(
            "`{}` is a sum up to an index, or from one on, which has no fixed order yet: say \
             `numerics = \"free\"`",
            dag.tensor(tensor).name
        );
        return Err(syn::Error::new(span, message));
    }
    Ok(dag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_has_a_say_where_the_attribute_has_none() {
        let check = |options: &str, of_crate, expected: &str| {
            let options = with_numerics(options.parse().unwrap(), of_crate).to_string();
            assert_eq!(options.replace(' ', ""), expected);
        };
        let fixed = Numerics::Fixed;
        check("", fixed, "numerics=\"fixed\"");
        check("dims(N = 4)", fixed, "dims(N=4),numerics=\"fixed\"");
        check("dims(N = 4),", fixed, "dims(N=4),numerics=\"fixed\"");
        check("numerics = \"free\", dims(N = 4)", fixed, "numerics=\"free\",dims(N=4)");
        check("dims(N = numerics)", fixed, "dims(N=numerics),numerics=\"fixed\"");
        check("dims(N = 4)", Numerics::Free, "dims(N=4)");
    }
}
