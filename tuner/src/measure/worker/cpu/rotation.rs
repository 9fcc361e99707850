//! Copies of a parameter that launches take in turn, so that each finds it in memory.
//!
//! All copies together are larger than the last-level cache, as the weights of a network are. Evicting
//! one copy by instruction instead is not reliable: under some hypervisors a flushed line still comes
//! at the speed of a cache.
//!
//! # Source
//!
//! Rotating arguments: CUTLASS's guide to measuring matrix products.

use std::io;

use tvmtune_plan::device;
use tvmtune_runtime::raw::Guarded;

use super::memory::LINE_BYTES;

/// The bytes of all copies, at least and at most: a network of 128 MiB may well stay in a last-level
/// cache of 256.
const MIN_BYTES: u64 = 32 << 20;
const MAX_BYTES: u64 = 128 << 20;
/// The largest number of copies.
const MAX_COPIES: usize = 4096;

/// Copies of a parameter.
pub(super) struct Rotation {
    memory: Guarded,
    stride: usize,
}

impl Rotation {
    /// Returns the number of copies of parameters that are rotated together, of that size in bytes.
    pub(super) fn n_copies(n_bytes: usize) -> usize {
        // A copy is used again after twice the cache has passed through it.
        let cache = device::last_level_bytes().unwrap_or(MIN_BYTES);
        let all = (2 * cache).clamp(MIN_BYTES, MAX_BYTES) as usize;
        all.div_ceil(n_bytes.max(1)).clamp(2, MAX_COPIES)
    }

    /// Copies `bytes`; the memory of a former rotation serves if it is large enough, as new pages cost
    /// more than copying.
    pub(super) fn new(bytes: &[u8], n_copies: usize, spare: Option<Self>) -> io::Result<Self> {
        let stride = bytes.len().next_multiple_of(LINE_BYTES).max(LINE_BYTES);
        let n_bytes = stride * n_copies;
        let mut memory = match spare.filter(|it| it.memory.bytes().len() >= n_bytes) {
            Some(spare) => spare.memory,
            // A little more: layouts of other padding follow.
            None => Guarded::new(n_bytes + n_bytes / 16, LINE_BYTES)?,
        };
        for copy in memory.bytes_mut()[..n_bytes].chunks_exact_mut(stride) {
            copy[..bytes.len()].copy_from_slice(bytes);
        }
        Ok(Self { memory, stride })
    }

    /// Returns the address of a copy.
    pub(super) fn address(&self, n: usize) -> u64 {
        self.memory.address() + (n * self.stride) as u64
    }

    /// Returns the size of all copies, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        self.memory.bytes().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_larger_than_the_cache_together() {
        for n_bytes in [1, 4096, 300_000, 16 << 20, 1 << 30] {
            let n_copies = Rotation::n_copies(n_bytes);
            assert!(n_copies >= 2, "a launch would find the copy of the one before it");
            assert!(n_copies * n_bytes >= MIN_BYTES as usize || n_copies == MAX_COPIES);
            assert!((n_copies - 1) * n_bytes <= MAX_BYTES as usize || n_copies == 2);
        }
    }

    #[test]
    fn each_copy_is_aligned_and_has_the_bytes() {
        let check = |rotation: &Rotation, bytes: &[u8]| {
            for n in 0..3 {
                assert_eq!(rotation.address(n) % LINE_BYTES as u64, 0);
                let first = (rotation.address(n) - rotation.memory.address()) as usize;
                assert_eq!(&rotation.memory.bytes()[first..first + bytes.len()], bytes);
            }
        };
        let first = Rotation::new(&[7; 100], 3, None).unwrap();
        check(&first, &[7; 100]);
        let address = first.address(0);
        let second = Rotation::new(&[8; 90], 3, Some(first)).unwrap();
        check(&second, &[8; 90]);
        assert_eq!(second.address(0), address, "the memory is used again");
        check(&Rotation::new(&[9; 5000], 3, Some(second)).unwrap(), &[9; 5000]);
    }
}
