//! The arguments of the attribute: `#[autotune(dims(M = 1..=512, N = 64), tol(rel = 1e-3))]`.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Lit, Token};

use super::errors::{Errors, quoted};
use super::extents::{self, constant};
use super::lower_end::LowerEnd;
use super::numerics;
use super::residence::{Residence, operands};
use super::template::{self, TemplateDeclaration};
use crate::dag::{DType, Numerics, WrittenOrder};
use crate::poly::Interval;
use crate::similar;

/// The names of options.
const NAMES: [&str; 17] = [
    "dims",
    "buckets",
    "types",
    "accum",
    "tol",
    "cold",
    "warm",
    "weight",
    "numerics",
    "order",
    "crate",
    template::NAMES[0],
    template::NAMES[1],
    template::NAMES[2],
    template::NAMES[3],
    template::NAMES[4],
    template::NAMES[5],
];

const EXPECTED: &str = "`dims(..)`, `buckets(..)`, `types(..)`, `accum = ..`, \
                        `tol(rel = .., abs = ..)`, `cold(..)`, `warm(..)`, `weight = ..`, \
                        `numerics = ..`, `order = ..`, `crate = ..`, `template = ..`, \
                        `params(..)`, `knobs(..)`, `constraints(..)`, `kernels(..)` or \
                        `reference(..)`";

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
    /// Dimensions that are declared after the one being read.
    pub(super) later: Vec<String>,
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
    /// The places of operands when a launch begins, as far as they are stated.
    pub(super) residence: Vec<(Ident, Residence)>,
    /// The number of its runs, relative to other ops, if stated.
    pub weight: Option<f64>,
    /// The results that schedules may give, with the place where that is stated, if it is.
    pub(super) numerics: Option<(Span, Numerics)>,
    /// The order of its reductions, with the place where it is stated, if it is.
    pub(super) order: Option<(Span, WrittenOrder)>,
    /// The path of the run-time crate, where it goes by another name.
    pub krate: Option<syn::Path>,
    /// Hand-written kernels, as far as they are stated.
    pub(super) template: TemplateDeclaration,
    /// True if a syntax error may have hidden declarations.
    pub(super) incomplete: bool,
    /// Dimensions that others are computed from.
    pub(super) used: BTreeSet<String>,
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
    /// Its lower bound, where the range begins at another dimension.
    pub(super) lower_end: Option<LowerEnd>,
}

/// `name = value`
pub(super) struct Assignment {
    pub(super) name: Ident,
    pub(super) value: Expr,
}

/// Parses the arguments; erroneous ones are reported and omitted.
pub(super) fn parse(tokens: TokenStream, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    let mut seen = BTreeSet::new();
    let parser = |input: ParseStream<'_>| {
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            if !seen.insert(name.to_string()) {
                errors.at::<()>(&name, format!("option `{name}` is given twice: remove one"));
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
    numerics::check_options(&options, errors);
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
            let dims = assignments(input, "`dims(M = 1..=512, N = 64)`")?;
            for (n, it) in dims.iter().enumerate() {
                options.later = dims[n + 1..].iter().map(|it| it.name.to_string()).collect();
                let declared = extents::declare(&it.name, &it.value, options, errors);
                options.incomplete |= declared.is_none();
                options.dims.extend(declared);
            }
        }
        "buckets" => {
            for it in assignments(input, "`buckets(M = [16, 512])`")? {
                if options.buckets.iter().any(|(name, _)| *name == it.name) {
                    let message = format!("buckets of `{}` are given twice: remove one", it.name);
                    errors.at::<()>(&it.name, message);
                }
                let edges = edges(&it, errors).map(|edges| (it.name, edges));
                options.buckets.extend(edges);
            }
        }
        "tol" => {
            for it in assignments(input, "`tol(rel = 1e-3, abs = 1e-4)`")? {
                tolerance_part(&it, options, errors);
            }
        }
        "accum" => {
            expect_equals(input, "`accum = f64`")?;
            let dtype = input.parse::<proc_macro2::TokenTree>()?;
            options.accum = match dtype.to_string().as_str() {
                "f32" => Some(DType::F32),
                "f64" => Some(DType::F64),
                other => errors.at(
                    &dtype,
                    format!(
                        "cannot accumulate in `{other}`: write `accum = f32` or `accum = f64` \
                         (integers accumulate in their own type: cast them in the body)"
                    ),
                ),
            };
        }
        "cold" => options.residence.extend(operands(input, Residence::Cold)?),
        "warm" => options.residence.extend(operands(input, Residence::Warm)?),
        "weight" => {
            expect_equals(input, "`weight = 12`")?;
            options.weight = weight(&input.parse()?, errors);
        }
        "numerics" => {
            expect_equals(input, "`numerics = \"fixed\"`")?;
            options.numerics = numerics::mode(input, errors)?;
        }
        "order" => options.order = numerics::order(input, errors)?,
        "crate" => {
            expect_equals(input, "`crate = ::path`")?;
            options.krate = Some(input.call(syn::Path::parse_mod_style)?);
        }
        // With parentheses, `instances` has taken it away.
        "types" => return Err(input.error("expected `types(W in [f32, bf16])`")),
        _ if template::option(name, input, options, errors)? => {}
        _ => return unknown(name, input, options, errors),
    }
    Ok(())
}

/// Reports an option that does not exist, and skips its value.
fn unknown(
    name: &Ident,
    input: ParseStream<'_>,
    options: &mut Options,
    errors: &mut Errors,
) -> syn::Result<()> {
    let meant = similar::suggestion(&name.to_string(), NAMES);
    let meant = meant.unwrap_or_else(|| format!("; expected {EXPECTED}"));
    errors.at::<()>(name, format!("unknown option `{name}`{meant}"));
    // It may have been `dims`, misspelled.
    options.incomplete = true;
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

/// Parses `(name = value, ..)`, of which `example` is one.
pub(super) fn assignments(input: ParseStream<'_>, example: &str) -> syn::Result<Vec<Assignment>> {
    let content;
    if !input.peek(syn::token::Paren) {
        return Err(input.error(format!("expected parentheses, as in {example}")));
    }
    syn::parenthesized!(content in input);
    let mut assignments = Vec::new();
    while !content.is_empty() {
        let name = content.call(Ident::parse_any)?;
        expect_equals(&content, example)?;
        assignments.push(Assignment { name, value: content.parse()? });
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(assignments)
}

pub(super) fn expect_equals(input: ParseStream<'_>, example: &str) -> syn::Result<()> {
    if input.parse::<Option<Token![=]>>()?.is_none() {
        return Err(input.error(format!("expected `=`, as in {example}")));
    }
    Ok(())
}

fn edges(it: &Assignment, errors: &mut Errors) -> Option<Vec<i64>> {
    let Expr::Array(array) = &it.value else {
        return errors.at(&it.value, "expected upper ends in brackets, as in `[16, 64, 512]`");
    };
    let mut none = Options::default();
    let edges: Vec<Option<i64>> =
        array.elems.iter().map(|it| constant(it, &mut none, errors)).collect();
    edges.into_iter().collect()
}

/// Reads `rel = 1e-3` or `abs = 1e-4`.
fn tolerance_part(it: &Assignment, options: &mut Options, errors: &mut Errors) {
    let value = tolerance(&it.value, errors);
    match it.name.to_string().as_str() {
        "rel" => options.rel = value,
        "abs" => options.abs = value,
        other => {
            let message =
                format!("unknown tolerance `{other}`: write `rel = 1e-3` or `abs = 1e-4`");
            errors.at::<()>(&it.name, message);
        }
    }
}

fn tolerance(value: &Expr, errors: &mut Errors) -> Option<f64> {
    number(value)
        .or_else(|| errors.at(value, "expected a number that is not negative, as in `1e-3`"))
}

fn weight(value: &Expr, errors: &mut Errors) -> Option<f64> {
    number(value).filter(|it| *it > 0.0).or_else(|| {
        errors.at(
            value,
            "expected a positive number, as in `weight = 12`: how often the op runs, relative to others",
        )
    })
}

/// Reads a finite number without a sign.
fn number(value: &Expr) -> Option<f64> {
    let Expr::Lit(lit) = value else { return None };
    let number: f64 = match &lit.lit {
        Lit::Float(it) => it.base10_parse().ok()?,
        Lit::Int(it) => it.base10_parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

fn check_buckets(options: &Options, errors: &mut Errors) {
    for (name, edges) in &options.buckets {
        let Some(dim) = options.dims.iter().find(|it| it.ident == *name) else {
            if !options.incomplete {
                options.undeclared(name, errors);
            }
            continue;
        };
        let Interval { lo, hi } = dim.range;
        let mut sorted = edges.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let outside = edges.iter().find(|it| !(lo..=hi).contains(*it));
        if !dim.dynamic {
            let message = format!(
                "`{name}` is fixed, and only ranges have buckets: remove them, or declare \
                 `{name} = 1..={hi}`"
            );
            errors.at::<()>(name, message);
        } else if let Some(outside) = outside {
            let message = format!(
                "`{name}` is in {lo}..={hi}, and a bucket ends at {outside}: write upper ends in \
                 that range"
            );
            errors.at::<()>(name, message);
        } else if sorted.is_empty() || sorted != *edges {
            let example = if sorted.is_empty() { vec![hi] } else { sorted };
            let message =
                format!("buckets are upper ends in ascending order: write `{name} = {example:?}`");
            errors.at::<()>(name, message);
        }
    }
}

impl Options {
    /// The range of a dimension that is declared.
    pub(super) fn range(&self, name: &Ident) -> Interval {
        let dim = self.dims.iter().find(|it| it.ident == *name);
        dim.map_or(Interval::point(1), |it| it.range)
    }

    /// The results that schedules may give: an order that is stated fixes them.
    pub(super) fn numerics(&self) -> Numerics {
        let stated = self.numerics.map_or(Numerics::Free, |it| it.1);
        if self.order.is_some() { Numerics::Fixed } else { stated }
    }

    /// Reports a dimension that no option declares.
    pub(super) fn undeclared(&self, name: &Ident, errors: &mut Errors) {
        let declared: Vec<String> = self.dims.iter().map(|it| it.ident.to_string()).collect();
        let declared = || declared.iter().map(String::as_str);
        let meant = similar::suggestion(&name.to_string(), declared());
        let meant = meant.unwrap_or_else(|| {
            format!(
                ": add it to `dims(..)`, as `{name} = 64`, or `{name} = 1..=64` if a launch \
                 decides (declared: {})",
                quoted(declared())
            )
        });
        errors.unknown::<()>(name, format!("dimension `{name}` is not declared{meant}"));
    }

    /// Reports and removes dimensions that neither the function nor another dimension mentions.
    pub(super) fn check_unused(&mut self, mentioned: &[Ident], errors: &mut Errors) {
        let used = &self.used;
        self.dims.retain(|dim| {
            let name = &dim.ident;
            let is_used = mentioned.contains(name) || used.contains(&name.to_string());
            if !is_used {
                let message =
                    format!("dimension `{name}` is used nowhere: remove it from `dims(..)`");
                errors.at::<()>(name, message);
            }
            is_used
        });
    }
}
