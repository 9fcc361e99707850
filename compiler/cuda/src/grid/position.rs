//! Positions of elements in a buffer.

use tvmtune_ir::poly::Poly;

/// Returns the row-major position of an element.
pub fn flat(index: &[Poly], shape: &[Poly]) -> Poly {
    let step =
        |position: Poly, (at, extent): (&Poly, &Poly)| position * extent.clone() + at.clone();
    index.iter().zip(shape).fold(Poly::default(), step)
}
