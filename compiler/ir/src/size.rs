//! Sizes of iteration spaces, for estimates and choices: they stop growing where no machine gets.
//!
//! The axes of a compute may together have far more iterations than 64 bits count, if dimensions have
//! wide ranges. Nobody runs so many, and nothing that is compared with them is near.

use std::borrow::Borrow;

/// The largest size: a few factors more still fit 64 bits, and an `f64` has it exactly.
const LARGEST: u64 = 1 << 53;

/// Iterators over extents.
pub trait Size {
    /// Multiplies the extents; at most 2^53.
    fn size(self) -> u64;
}

impl<I: Iterator<Item: Borrow<u64>>> Size for I {
    fn size(self) -> u64 {
        self.fold(1, |size: u64, it| size.saturating_mul(*it.borrow()).min(LARGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_products_up_to_a_limit() {
        assert_eq!([3_u64, 4, 5].iter().size(), 60);
        assert_eq!(std::iter::empty::<u64>().size(), 1);
        assert_eq!([1_u64 << 31, 256, 1 << 31].iter().size(), LARGEST);
        assert_eq!([u64::MAX, u64::MAX, 0].iter().size(), 0);
    }
}
