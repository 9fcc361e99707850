//! Dispatch: the choice of a variant by bucket and instruction set.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Variant;
use crate::{Cpu, Error, Isa, PlanInfo, Tier};

/// The code of a program for a range of its dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// The range of each dynamic dimension, both ends included.
    pub ranges: &'static [(usize, usize)],
    /// Machine code, the fastest first.
    pub variants: &'static [Variant],
}

/// A program loaded for a CPU: a variant for each bucket, or portable code.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<const N: usize> {
    buckets: &'static [Bucket; N],
    chosen: [Option<&'static Variant>; N],
}

impl<const N: usize> Kernel<N> {
    /// Chooses variants for the instruction set that `cpu` allows.
    pub fn new(cpu: &Cpu, buckets: &'static [Bucket; N]) -> Self {
        let fits = |it: &&Variant| it.isa <= cpu.isa();
        let chosen = buckets.each_ref().map(|it| it.variants.iter().find(fits));
        Self { buckets, chosen }
    }

    /// Returns the variant for these dimensions on `cpu`; `None` for portable code.
    pub fn variant(&self, cpu: &Cpu, dims: &[i64]) -> Option<&'static Variant> {
        let bucket = self.bucket(dims)?;
        let fits = |it: &&Variant| it.isa <= cpu.isa();
        // A `Cpu` may allow less than the one that the kernel was loaded for.
        let other = || self.buckets[bucket].variants.iter().find(fits);
        self.chosen[bucket].filter(fits).or_else(other)
    }

    /// Returns the chosen variants, by bucket.
    pub fn chosen(&self) -> &[Option<&'static Variant>] {
        &self.chosen
    }

    /// Describes what runs for these dimensions.
    pub fn plan(&self, dims: &[i64]) -> PlanInfo {
        let bucket = self.bucket(dims);
        let ranges = bucket.map_or(&[] as &[_], |it| self.buckets[it].ranges);
        match bucket.and_then(|it| self.chosen[it]) {
            Some(variant) => PlanInfo {
                tier: variant.tier,
                bucket: ranges,
                isa: variant.isa,
                median_ns: variant.median_ns,
                artifact: variant.artifact,
            },
            None => PlanInfo {
                tier: Tier::Default,
                bucket: ranges,
                isa: Isa::Portable,
                median_ns: None,
                artifact: "",
            },
        }
    }

    fn bucket(&self, dims: &[i64]) -> Option<usize> {
        let inside = |(dim, (lo, hi)): (&i64, &(usize, usize))| {
            (*lo..=*hi).contains(&usize::try_from(*dim).unwrap_or(0))
        };
        self.buckets.iter().position(|it| dims.iter().zip(it.ranges).all(inside))
    }
}

/// Runs portable code; a panic in it, which would be a bug of tvmtune, becomes an error.
///
/// # Errors
///
/// [`Error::Panicked`]
pub fn portable(kernel: &'static str, code: impl FnOnce()) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| Error::Panicked { kernel })
}
