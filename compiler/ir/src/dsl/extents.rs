//! The extents in `dims(..)`: integers, ranges, and arithmetic on dimensions declared before.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{Expr, Lit, RangeLimits};

use super::errors::Errors;
use super::lower_end::{self, LowerEnd};
use super::options::{DimDeclaration, Options};
use crate::dag::dims::MAX_LOWER_ENDS;
use crate::dag::limits::{MAX_DIMS, MAX_EXTENT};
use crate::poly::Interval;
use crate::similar;

/// Reads one dimension.
pub(super) fn declare(
    name: &Ident,
    value: &Expr,
    options: &mut Options,
    errors: &mut Errors,
) -> Option<DimDeclaration> {
    if options.dims.iter().any(|other| other.ident == *name) {
        return errors.at(name, format!("dimension `{name}` is declared twice: remove one"));
    }
    if options.dims.len() == MAX_DIMS {
        let message = format!(
            "a program has at most {MAX_DIMS} dimensions: write the numbers of fixed ones where \
             they stand"
        );
        return errors.at(name, message);
    }
    let (range, lower_end) = match value {
        Expr::Range(range) => dynamic_range(name, range, options, errors)?,
        _ => (Interval::point(constant(value, options, errors)?), None),
    };
    let dynamic = matches!(value, Expr::Range(_));
    if let Some(end) = lower_end.as_ref().filter(|_| range.lo < 1) {
        let message = format!(
            "extents are at least 1, and `{name}` could be {} where `{}` is small: write a larger \
             lower end",
            range.lo, end.base
        );
        return errors.at(value, message);
    }
    if range.lo < 1 {
        let instead = if dynamic { format!("1..={}", range.hi.max(1)) } else { "1".to_owned() };
        let message = format!(
            "extents are at least 1, and `{name}` could be {}: write `{name} = {instead}`",
            range.lo
        );
        return errors.at(value, message);
    }
    if range.hi > MAX_EXTENT {
        return errors.at(value, format!("extents are at most {MAX_EXTENT}"));
    }
    Some(DimDeclaration { ident: name.clone(), range, dynamic, lower_end })
}

/// Reads `1..=512`, or `T..=512`.
fn dynamic_range(
    name: &Ident,
    range: &syn::ExprRange,
    options: &mut Options,
    errors: &mut Errors,
) -> Option<(Interval, Option<LowerEnd>)> {
    let (Some(start), Some(hi)) = (&range.start, &range.end) else {
        return errors.at(range, "a dynamic dimension needs both ends, as in `1..=512`");
    };
    if let Some(other) = lower_end::first_dynamic(hi, options) {
        let (start, most) = (start.to_token_stream(), options.range(&other).hi);
        let message = format!(
            "the upper end of `{name}` is a number: write `{name} = {start}..={most}, {other} = \
             {name}..={most}` if `{name}` is never larger than `{other}`"
        );
        return errors.at(hi, message);
    }
    if let Some(end) = lower_end::read(start, options, errors) {
        let hi = constant(hi, options, errors);
        let (end, hi) = (end?, hi?);
        return range_above(name, range, end, hi, options, errors);
    }
    let (lo, hi) = (constant(start, options, errors), constant(hi, options, errors));
    let (lo, hi) = (lo?, hi?);
    if hi < lo {
        let message =
            format!("no extent is in this range of `{name}`: write `{name} = {hi}..={lo}`");
        return errors.at(range, message);
    }
    if let RangeLimits::HalfOpen(_) = range.limits {
        // Whoever wrote `1..64` may have meant either, and kernels differ.
        let message = format!(
            "a range of extents includes its end: write `{name} = {lo}..={hi}`, or \
             `{name} = {lo}..={}` if {hi} is not among them",
            hi.saturating_sub(1).max(lo)
        );
        return errors.at(range, message);
    }
    Some((Interval { lo, hi }, None))
}

/// Checks `T..=512`: each extent of `T` leaves some.
fn range_above(
    name: &Ident,
    range: &syn::ExprRange,
    end: LowerEnd,
    hi: i64,
    options: &Options,
    errors: &mut Errors,
) -> Option<(Interval, Option<LowerEnd>)> {
    let start = &end.spelled;
    if let RangeLimits::HalfOpen(_) = range.limits {
        let message =
            format!("a range of extents includes its end: write `{name} = {start}..={hi}`");
        return errors.at(range, message);
    }
    let least = end.range(options.range(&end.base));
    if least.hi > hi {
        let message = format!(
            "`{name}` is at most {hi}, and `{start}` is up to {}: write `{name} = {start}..={}`, or \
             give `{}` a smaller range",
            least.hi, least.hi, end.base
        );
        return errors.at(range, message);
    }
    if options.dims.iter().filter(|it| it.lower_end.is_some()).count() == MAX_LOWER_ENDS {
        let message = format!(
            "at most {MAX_LOWER_ENDS} dimensions begin at others: write the least extent of \
             `{name}`, {}",
            least.lo
        );
        return errors.at(range, message);
    }
    Some((Interval { lo: least.lo, hi }, Some(end)))
}

/// The value of integer arithmetic on literals and the fixed dimensions so far.
pub(super) fn constant(expr: &Expr, options: &mut Options, errors: &mut Errors) -> Option<i64> {
    let value = match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(it) => it.base10_parse().ok(),
            _ => return errors.at(expr, "expected an integer, as in `64`"),
        },
        Expr::Paren(it) => return constant(&it.expr, options, errors),
        Expr::Group(it) => return constant(&it.expr, options, errors),
        Expr::Path(path) => Some(named(&path.path, options, errors)?),
        Expr::Cast(it) if EXTENT_TYPES.iter().any(|ty| is_type(&it.ty, ty)) => {
            return constant(&it.expr, options, errors);
        }
        Expr::Macro(it) if it.mac.path.is_ident("compile_error") => {
            let message = it.mac.parse_body::<syn::LitStr>();
            return errors.at(expr, message.map_or(NO_EXTENT.to_owned(), |it| it.value()));
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
                _ => return errors.at(expr, NO_EXTENT),
            }
        }
        _ => return errors.at(expr, NO_EXTENT),
    };
    if value.is_none() {
        return errors.at(expr, "this integer is out of range");
    }
    value
}

const NO_EXTENT: &str = "expected an integer, a range as in `1..=512`, or `+ - * / %` of integers, \
                         constants and dimensions declared before";

/// The types that any extent can be converted to.
const EXTENT_TYPES: [&str; 6] = ["usize", "isize", "u32", "i32", "u64", "i64"];

fn is_type(ty: &syn::Type, name: &str) -> bool {
    matches!(ty, syn::Type::Path(it) if it.qself.is_none() && it.path.is_ident(name))
}

/// The extent of a fixed dimension declared before.
fn named(path: &syn::Path, options: &mut Options, errors: &mut Errors) -> Option<i64> {
    let name = path.to_token_stream().to_string().replace(' ', "");
    let Some(dim) = options.dims.iter().find(|it| path.is_ident(&it.ident)) else {
        if options.later.contains(&name) {
            let message = format!("`{name}` is declared after this: move it before");
            options.used.insert(name);
            return errors.at(path, message);
        }
        let fixed = options.dims.iter().filter(|it| !it.dynamic).map(|it| it.ident.to_string());
        let fixed: Vec<String> = fixed.collect();
        let meant = similar::suggestion(&name, fixed.iter().map(String::as_str));
        let meant = meant.as_deref().unwrap_or(": write the number");
        return errors.at(path, format!("`{name}` is no dimension declared before{meant}"));
    };
    if dim.dynamic {
        let message = format!(
            "`{name}` is known at launch only: write the expression where the extent stands, as in \
             `Tensor<f32, {{ {name} * 2 }}>`"
        );
        return errors.at(path, message);
    }
    options.used.insert(name);
    Some(dim.range.lo)
}
