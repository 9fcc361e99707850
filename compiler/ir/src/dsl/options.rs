//! The arguments of the attribute: `#[autotune(dims(M = 1..=512, N = 64), tol(rel = 1e-3))]`.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Lit, RangeLimits, Token};

use super::errors::{Errors, quoted};
use crate::dag::DType;
use crate::poly::Interval;

/// The largest extent of a dimension.
pub(super) const MAX_EXTENT: i64 = i32::MAX as i64;

const EXPECTED: &str =
    "`dims(..)`, `buckets(..)`, `accum = ..`, `tol(rel = .., abs = ..)` or `crate = ..`";

/// The tolerance of results: `abs + rel * |reference|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In units of the reference's magnitude.
    pub rel: f64,
    /// In units of the result.
    pub abs: f64,
}

/// The arguments of the attribute.
#[derive(Clone, Default)]
pub struct Options {
    /// In the order in which the attribute declares them.
    pub(super) dims: Vec<DimDeclaration>,
    /// Upper ends of buckets, ascending, by name of dimension.
    pub(super) buckets: Vec<(Ident, Vec<i64>)>,
    /// The type in which sums and products of `f32` and narrower floats accumulate.
    pub accum: Option<DType>,
    /// The relative tolerance, if stated.
    pub(super) rel: Option<f64>,
    /// The absolute tolerance, if stated.
    pub(super) abs: Option<f64>,
    /// The path of the run-time crate, where it goes by another name.
    pub krate: Option<syn::Path>,
    /// True if a syntax error may have hidden declarations.
    pub(super) incomplete: bool,
}

/// A dimension of the program: `N = 1536` or `M = 1..=512`.
#[derive(Clone)]
pub struct DimDeclaration {
    /// Its name, where it is declared.
    pub ident: Ident,
    /// Its extents; one only if it is fixed.
    pub range: Interval,
    /// True if it is known at launch only: declared as a range.
    pub dynamic: bool,
}

/// `name = value`
struct Assignment {
    name: Ident,
    value: Expr,
}

/// Parses the arguments; erroneous ones are reported and omitted.
pub(super) fn parse(tokens: TokenStream, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    let mut seen = BTreeSet::new();
    let parser = |input: ParseStream<'_>| {
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            if !seen.insert(name.to_string()) {
                errors.at::<()>(&name, format!("option `{name}` is given twice"));
            }
            option(&name, input, &mut options, errors)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    };
    if let Err(error) = parser.parse2(tokens) {
        options.incomplete = true;
        errors.add::<()>(error);
    }
    check_buckets(&options, errors);
    options
}

fn option(
    name: &Ident,
    input: ParseStream<'_>,
    options: &mut Options,
    errors: &mut Errors,
) -> syn::Result<()> {
    match name.to_string().as_str() {
        "dims" => {
            for it in assignments(input)? {
                let declared = declare(&it, options, errors);
                options.incomplete |= declared.is_none();
                options.dims.extend(declared);
            }
        }
        "buckets" => {
            for it in assignments(input)? {
                let edges = edges(&it, errors).map(|edges| (it.name, edges));
                options.buckets.extend(edges);
            }
        }
        "tol" => {
            for it in assignments(input)? {
                let value = tolerance(&it.value, errors);
                match it.name.to_string().as_str() {
                    "rel" => options.rel = value,
                    "abs" => options.abs = value,
                    other => {
                        let message =
                            format!("unknown tolerance `{other}`; expected `rel` or `abs`");
                        errors.at::<()>(&it.name, message);
                    }
                }
            }
        }
        "accum" => {
            input.parse::<Token![=]>()?;
            let dtype = input.call(Ident::parse_any)?;
            options.accum = match dtype.to_string().as_str() {
                "f32" => Some(DType::F32),
                "f64" => Some(DType::F64),
                other => errors.at(
                    &dtype,
                    format!(
                        "cannot accumulate in `{other}`; expected `f32` or `f64` (integers \
                             accumulate in their own type: cast them in the body)"
                    ),
                ),
            };
        }
        "crate" => {
            input.parse::<Token![=]>()?;
            options.krate = Some(input.call(syn::Path::parse_mod_style)?);
        }
        other => {
            errors.at::<()>(name, format!("unknown option `{other}`; expected {EXPECTED}"));
            // It may have been `dims`, misspelled.
            options.incomplete = true;
            while !input.is_empty() && !input.peek(Token![,]) {
                input.parse::<proc_macro2::TokenTree>()?;
            }
        }
    }
    Ok(())
}

fn assignments(input: ParseStream<'_>) -> syn::Result<Punctuated<Assignment, Token![,]>> {
    let content;
    syn::parenthesized!(content in input);
    content.parse_terminated(
        |input| {
            let name = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            Ok(Assignment { name, value: input.parse()? })
        },
        Token![,],
    )
}

fn declare(it: &Assignment, options: &Options, errors: &mut Errors) -> Option<DimDeclaration> {
    let Assignment { name, value } = it;
    if options.dims.iter().any(|other| other.ident == *name) {
        return errors.at(name, format!("dimension `{name}` is declared twice"));
    }
    let (range, dynamic) = match value {
        Expr::Range(range) => {
            let (Some(lo), Some(hi)) = (&range.start, &range.end) else {
                return errors.at(value, "a dynamic dimension needs both ends, as in `1..=512`");
            };
            let (lo, hi) = (constant(lo, options, errors), constant(hi, options, errors));
            let open = matches!(range.limits, RangeLimits::HalfOpen(_));
            (Interval { lo: lo?, hi: hi?.saturating_sub(i64::from(open)) }, true)
        }
        _ => (Interval::point(constant(value, options, errors)?), false),
    };
    if range.lo < 1 {
        return errors.at(value, format!("extents are at least 1; `{name}` could be {}", range.lo));
    }
    if range.hi < range.lo {
        return errors.at(value, format!("no extent is in this range of `{name}`"));
    }
    if range.hi > MAX_EXTENT {
        return errors.at(value, format!("extents are at most {MAX_EXTENT}"));
    }
    Some(DimDeclaration { ident: name.clone(), range, dynamic })
}

/// The value of integer arithmetic on literals and the fixed dimensions so far.
fn constant(expr: &Expr, options: &Options, errors: &mut Errors) -> Option<i64> {
    let value = match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(it) => it.base10_parse().ok(),
            _ => return errors.at(expr, "expected an integer"),
        },
        Expr::Paren(it) => return constant(&it.expr, options, errors),
        Expr::Group(it) => return constant(&it.expr, options, errors),
        Expr::Path(path) => {
            let found = options.dims.iter().find(|it| path.path.is_ident(&it.ident));
            match found {
                Some(it) if !it.dynamic => Some(it.range.lo),
                Some(it) => {
                    let message = format!(
                        "`{}` is known at launch only; write the expression where the extent \
                         stands, as in `Tensor<f32, {{ {} * 2 }}>`",
                        it.ident, it.ident
                    );
                    return errors.at(expr, message);
                }
                None => {
                    return errors.at(expr, "expected an integer or a dimension declared before");
                }
            }
        }
        Expr::Binary(it) => {
            let (a, b) =
                (constant(&it.left, options, errors), constant(&it.right, options, errors));
            let (a, b) = (a?, b?);
            match it.op {
                syn::BinOp::Add(_) => a.checked_add(b),
                syn::BinOp::Sub(_) => a.checked_sub(b),
                syn::BinOp::Mul(_) => a.checked_mul(b),
                syn::BinOp::Div(_) => a.checked_div(b),
                syn::BinOp::Rem(_) => a.checked_rem(b),
                _ => return errors.at(expr, "expected an integer"),
            }
        }
        _ => return errors.at(expr, "expected an integer, a range, or arithmetic on integers"),
    };
    if value.is_none() {
        return errors.at(expr, "this integer is out of range");
    }
    value
}

fn edges(it: &Assignment, errors: &mut Errors) -> Option<Vec<i64>> {
    let Expr::Array(array) = &it.value else {
        return errors.at(&it.value, "expected the buckets' upper ends, as in `[16, 64, 512]`");
    };
    let none = Options::default();
    let edges: Vec<Option<i64>> =
        array.elems.iter().map(|it| constant(it, &none, errors)).collect();
    edges.into_iter().collect()
}

fn tolerance(value: &Expr, errors: &mut Errors) -> Option<f64> {
    let number = match value {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Float(it) => it.base10_parse().ok(),
            Lit::Int(it) => it.base10_parse().ok(),
            _ => None,
        },
        _ => None,
    };
    match number {
        Some(it) if f64::is_finite(it) => Some(it),
        _ => errors.at(value, "expected a number that is not negative, as in `1e-3`"),
    }
}

fn check_buckets(options: &Options, errors: &mut Errors) {
    for (name, edges) in &options.buckets {
        let Some(dim) = options.dims.iter().find(|it| it.ident == *name) else {
            if !options.incomplete {
                let declared = options.dims.iter().map(|it| it.ident.to_string());
                undeclared(name, declared, errors);
            }
            continue;
        };
        if !dim.dynamic {
            errors.at::<()>(name, format!("`{name}` is fixed: only ranges have buckets"));
        } else if edges.is_empty() || !edges.is_sorted_by(|a, b| a < b) {
            errors.at::<()>(name, "buckets are upper ends in ascending order");
        } else if edges[0] < dim.range.lo || edges[edges.len() - 1] > dim.range.hi {
            let Interval { lo, hi } = dim.range;
            errors.at::<()>(name, format!("`{name}` is in {lo}..={hi}; a bucket ends outside"));
        }
    }
}

/// Reports a dimension that no option declares.
pub(super) fn undeclared(
    name: &Ident,
    declared: impl Iterator<Item = String>,
    errors: &mut Errors,
) {
    let declared: Vec<String> = declared.collect();
    let declared = quoted(declared.iter().map(String::as_str));
    let message =
        format!("dimension `{name}` is not declared; add it to `dims(..)` (declared: {declared})");
    errors.at::<()>(name, message);
}
