//! Limits of programs: below them, arithmetic on extents, offsets and indices stays within 64 bits.
//!
//! A program is checked once, where it is read: by the language, which reports the place, and by
//! [`verify`](super::verify), for whatever else makes a dag. Every later number is made of these: a
//! length is a product of extents, an offset a sum of subscripts times such products, a tile at most
//! twice an extent. All have room above the limits, and what a launch checks is computed from the same
//! numbers.
//!
//! Sizes are those at the largest extents, by [`magnitude`], which bounds partial sums as well.

use super::{Compute, DType, Expr, Subscript};
use crate::poly::{Atom, Facts, Poly};

/// The largest extent of a dimension.
pub const MAX_EXTENT: i64 = i32::MAX as i64;
/// The largest magnitude of an index, and of the offset of an element.
pub const MAX_INDEX: i64 = 1 << 53;
/// The most bytes of a tensor, and the most iterations of an axis: what a machine can address.
pub const MAX_BYTES: i64 = 1 << 46;
/// The most dimensions of a tensor.
pub const MAX_RANK: usize = 16;
/// The most axes of a compute, those that it reduces included.
pub const MAX_AXES: usize = 32;
/// The most computes of a program: each is scheduled beside the others.
pub const MAX_COMPUTES: usize = 256;
/// The most parameters and results of a function.
pub const MAX_OPERANDS: usize = 128;
/// The most dimensions of a program.
pub const MAX_DIMS: usize = 64;
/// The most terms of an index, and the most factors of a term: proofs go through all of them.
pub const MAX_TERMS: usize = 64;
/// See [`MAX_TERMS`].
pub const MAX_FACTORS: usize = 8;
/// The most quotients, remainders, minima and maxima in one another in an index: proofs try each in
/// several ways.
pub const MAX_QUOTIENTS: usize = 6;
/// The most bytes of canonical text.
pub const MAX_TEXT_BYTES: usize = 1 << 16;

/// Returns an upper bound of the magnitude of a polynomial, and of all parts of it.
pub fn magnitude(poly: &Poly, facts: &Facts) -> f64 {
    let atom = |it: &Atom| {
        let range = Poly::atom(it.clone()).interval(facts);
        (range.lo as f64).abs().max((range.hi as f64).abs()).max(1.0)
    };
    let term = |(atoms, value): (&[Atom], i64)| {
        value.unsigned_abs() as f64 * atoms.iter().map(atom).product::<f64>()
    };
    poly.terms().map(term).sum()
}

/// Returns whether an index is within the limit.
pub fn is_index(poly: &Poly, facts: &Facts) -> bool {
    magnitude(poly, facts) <= MAX_INDEX as f64
}

/// Returns whether an index, of any magnitude, is short enough for proofs.
pub fn is_short(poly: &Poly) -> bool {
    fn is_within(poly: &Poly, depth: usize) -> bool {
        poly.terms().count() <= MAX_TERMS
            && poly.terms().all(|(atoms, _)| {
                let nested = |it: &Atom| match it {
                    Atom::Var(_) | Atom::Dim(_) => true,
                    Atom::Div(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                        depth < MAX_QUOTIENTS && is_within(a, depth + 1) && is_within(b, depth + 1)
                    }
                };
                atoms.len() <= MAX_FACTORS && atoms.iter().all(nested)
            })
    }
    is_within(poly, 0)
}

/// Returns whether an extent of an axis is within the limit.
pub fn is_axis(extent: &Poly, facts: &Facts) -> bool {
    magnitude(extent, facts) <= MAX_BYTES as f64
}

/// Returns whether a tensor has no more bytes than the limit, whatever the extents of a launch.
pub fn is_addressable(shape: &[Poly], dtype: DType, facts: &Facts) -> bool {
    let extents = shape.iter().map(|it| magnitude(it, facts).max(1.0));
    extents.product::<f64>() * dtype.bytes() as f64 <= MAX_BYTES as f64
}

/// Returns whether offsets into a tensor are within the limit: what a schedule adds may be larger than
/// what a program has, as it may be computed part by part.
pub fn is_indexable<'a>(shape: impl IntoIterator<Item = &'a Poly>, facts: &Facts) -> bool {
    let extents = shape.into_iter().map(|it| magnitude(it, facts).max(1.0));
    extents.product::<f64>() <= MAX_INDEX as f64
}

/// Returns whether the offset of an element is an index within the limit, also where a condition keeps
/// the read from being evaluated.
pub fn is_offset(index: &[Subscript], shape: &[Poly], facts: &Facts) -> bool {
    let offset = index.iter().zip(shape).fold(0.0, |offset, (subscript, extent)| {
        let extent = magnitude(extent, facts).max(1.0);
        let at = match subscript {
            Subscript::Affine(poly) => magnitude(poly, facts),
            // Data is an integer of the machine; where it is read, it is below the extent.
            Subscript::Value(_) => extent,
        };
        offset * extent + at
    });
    offset <= MAX_INDEX as f64
}

/// Returns the first index in an expression that is beyond the limit.
pub(super) fn index_beyond(expr: &Expr, facts: &Facts) -> Option<Poly> {
    let mut found = None;
    expr.for_each_poly(&mut |poly| {
        if found.is_none() && !(is_index(poly, facts) && is_short(poly)) {
            found = Some(poly.clone());
        }
    });
    found
}

/// Returns whether the axes of a compute are within the limits.
pub(super) fn has_axes(compute: &Compute, facts: &Facts) -> bool {
    compute.axes.len() <= MAX_AXES
        && compute.n_spatial <= MAX_RANK
        && compute.axes.iter().all(|it| is_axis(&it.extent, facts))
}
