//! `numerics = "fixed"`: every schedule gives the same bits. `order = "lanes(32)"`: so does this, with
//! reductions in that order.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::LitStr;
use syn::parse::ParseStream;

use super::Program;
use super::errors::Errors;
use super::options::{Options, expect_equals};
use crate::dag::{Dag, Numerics, WrittenOrder};

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

/// Parses `= "lanes(32)"`, the order of reductions, with its place.
pub(super) fn order(
    input: ParseStream<'_>,
    errors: &mut Errors,
) -> syn::Result<Option<(Span, WrittenOrder)>> {
    expect_equals(input, "`order = \"lanes(32)\"`")?;
    let text: LitStr = input.parse()?;
    Ok(match text.value().parse() {
        Ok(order) => Some((text.span(), order)),
        Err(_) => errors.at(
            &text,
            "expected `order = \"sequence\"`, `order = \"lanes(32)\"` with a power of two from 2 to \
             1024, `order = \"blocks(256)\"` with a number from 2 to 1048576, or \
             `order = \"blocks(256, lanes(32))\"`",
        ),
    })
}

/// Reports an order beside free numerics.
pub(super) fn check_options(options: &Options, errors: &mut Errors) {
    if let (Some((span, _)), Some((_, Numerics::Free))) = (options.order, options.numerics) {
        let message = "an order fixes numerics: remove `order`, or `numerics = \"free\"`";
        errors.add::<()>(syn::Error::new(span, message));
    }
}

/// Refuses fixed numerics beside a tolerance, and for programs whose reductions have no fixed order; and an
/// order that would change nothing.
pub(super) fn check(program: &Program, dag: Dag) -> syn::Result<Dag> {
    if program.options.numerics() == Numerics::Free {
        return Ok(dag);
    }
    let (order, numerics) = (program.options.order, program.options.numerics);
    let span = order.map(|it| it.0).or(numerics.map(|it| it.0)).unwrap_or_else(Span::call_site);
    let advice = match (order, numerics) {
        (None, _) => "say `numerics = \"free\"`",
        (Some(_), None) => "remove `order`",
        (Some(_), Some(_)) => "remove `order`, and say `numerics = \"free\"`",
    };
    let refused = |message: String| Err(syn::Error::new(span, message));
    if program.options.rel.is_some() || program.options.abs.is_some() {
        return refused(format!(
            "results with fixed numerics equal the definition: remove `tol(..)`, or {advice}"
        ));
    }
    if program.kernel_template.is_some() {
        return refused(format!(
            "the order of operations in a hand-written kernel is not known, so its numerics cannot \
             be fixed: {advice}"
        ));
    }
    if let Some(tensor) = dag.without_fixed_order() {
        return refused(format!(
            "`{}` is a sum from an index on, of several ranges, or in another order than a sequence, which has no \
             fixed order yet: {advice}",
            dag.tensor(tensor).name
        ));
    }
    match dag.idle_order() {
        Some(why) => refused(format!("{why}: remove `order`, or write another one")),
        None => Ok(dag),
    }
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

    /// Returns the dag of a sum of rows with these options.
    fn rows(options: &str) -> syn::Result<Dag> {
        let sum = "compute(|i| sum(0..N, |j| x[[i, j]]))";
        of(options, &format!("(x: Tensor<f32, M, N>) -> Tensor<f32, M> {{ {sum} }}"))
    }

    fn of(options: &str, function: &str) -> syn::Result<Dag> {
        let dims = "dims(M = 1..=9, N = 200)";
        crate::dsl::program(&format!("#[autotune({dims}, {options})] fn f{function}"))
    }

    #[test]
    fn a_written_order_fixes_numerics() {
        for order in ["sequence", "lanes(32)", "blocks(64)", "blocks(64, lanes(32))"] {
            let option = format!("order = \"{order}\"");
            let dag = rows(&option).unwrap();
            assert_eq!((dag.numerics, dag.written_order), (Numerics::Fixed, order.parse().ok()));
            assert_eq!(rows(&format!("{option}, numerics = \"fixed\"")).unwrap(), dag);
        }
        assert_eq!(rows("numerics = \"fixed\"").unwrap().written_order, None);
    }

    #[track_caller]
    fn refused(found: syn::Result<Dag>, text: &str, expected: &str) {
        let error = found.unwrap_err();
        let place = error.span().source_text();
        assert_eq!((place.as_deref(), error.to_string().as_str()), (Some(text), expected));
    }

    #[test]
    fn orders_that_say_nothing_are_errors_at_the_option() {
        for order in [
            "lanes(0)",
            "lanes(3)",
            "lanes(1000000)",
            "blocks(1)",
            "blocks(0)",
            "fast",
            "",
            "blocks(8, lanes(3))",
        ] {
            refused(
                rows(&format!("order = \"{order}\"")),
                &format!("\"{order}\""),
                "expected `order = \"sequence\"`, `order = \"lanes(32)\"` with a power of two from 2 to \
                 1024, `order = \"blocks(256)\"` with a number from 2 to 1048576, or \
                 `order = \"blocks(256, lanes(32))\"`",
            );
        }
        refused(rows("order(\"lanes(32)\")"), "(", "expected `=`, as in `order = \"lanes(32)\"`");
        let free = "an order fixes numerics: remove `order`, or `numerics = \"free\"`";
        refused(rows("numerics = \"free\", order = \"lanes(8)\""), "\"lanes(8)\"", free);
        refused(
            rows("order = \"blocks(200)\""),
            "\"blocks(200)\"",
            "no reduction of floats has more than 200 iterations of its first range, so none has \
             several blocks: remove `order`, or write another one",
        );
        let columns = "(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
            compute(|j| sum(0..M, |i| x[[i, j]]))
        }";
        refused(
            of("order = \"lanes(8)\"", columns),
            "\"lanes(8)\"",
            "no reduction of floats has terms that lie side by side in memory along its innermost \
             range, so none has lanes: remove `order`, or write another one",
        );
        let integers = "(x: Tensor<i32, M, N>) -> Tensor<i32, M> {
            compute(|i| sum(0..N, |j| x[[i, j]]))
        }";
        let none = "this op has no reduction of floats: remove `order`, or write another one";
        refused(of("order = \"sequence\"", integers), "\"sequence\"", none);
    }

    #[test]
    fn what_numerics_refuse_orders_refuse_as_well() {
        let option = "order = \"lanes(8)\"";
        refused(
            rows(&format!("{option}, tol(rel = 1e-3)")),
            "\"lanes(8)\"",
            "results with fixed numerics equal the definition: remove `tol(..)`, or remove `order`",
        );
        let prefix = "(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| sum(0..=i, |j| x[[j]]))
        }";
        let found = crate::dsl::program(&format!(
            "#[autotune(dims(N = 40), {option}, numerics = \"fixed\")] fn f{prefix}"
        ));
        refused(
            found,
            "\"lanes(8)\"",
            "`out` is a sum from an index on, of several ranges, or in another order than a sequence, which has no \
             fixed order yet: remove `order`, and say `numerics = \"free\"`",
        );
    }
}
