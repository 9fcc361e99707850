//! Ids in the types that Rust indexes by: slices of `u64` and `usize` for a tensor of `i64`.
//!
//! # Invariant
//!
//! - An id is read as `as i64` converts it. From 2^63 on it is negative, and so outside of every
//!   tensor, as it is as an index in Rust.

#![expect(unsafe_code, reason = "slices of one integer type are read as another")]

use std::slice;

use crate::{Cpu, Input, Unfit};

macro_rules! ids {
    ($($id:ident)*) => {
        $(
            /// The same bits as `i64`.
            fn $id(ids: &[::core::primitive::$id]) -> &[i64] {
                const { assert!(size_of::<i64>() == size_of::<::core::primitive::$id>()) }
                const { assert!(align_of::<i64>() == align_of::<::core::primitive::$id>()) }
                // SAFETY: both types are integers of one size and alignment, by the lines above, and
                // any bits are an `i64`; the result borrows from the slice, of which it has the length.
                unsafe { slice::from_raw_parts(ids.as_ptr().cast(), ids.len()) }
            }

            readable!($id [] [::core::primitive::$id]);
            readable!($id [const N: usize] [::core::primitive::$id; N]);
            readable!($id [] Vec<::core::primitive::$id>);
        )*
    };
}

macro_rules! readable {
    ($id:ident [$($generics:tt)*] $container:ty) => {
        impl<$($generics)*> Input<i64> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn elements<'a>(&'a self, _: &'a Cpu) -> Result<&'a [i64], Unfit> {
                Ok($id(self))
            }
        }
    };
}

ids!(u64);
#[cfg(target_pointer_width = "64")]
ids!(usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ids: &(impl Input<i64> + ?Sized)) -> Vec<i64> {
        assert_eq!(ids.n_elements(), 3);
        ids.elements(&Cpu::new()).map(<[i64]>::to_vec).unwrap_or_default()
    }

    #[test]
    fn ids_are_read_as_they_are_converted() {
        let ids = [0_u64, 7, u64::MAX - 1];
        assert_eq!(read(&ids), [0, 7, -2]);
        assert_eq!(read(&ids[..]), [0, 7, -2]);
        assert_eq!(read(&ids.map(|it| it as usize).to_vec()), [0, 7, -2]);
    }
}
