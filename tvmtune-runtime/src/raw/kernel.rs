//! Dispatch: the choice of a variant by bucket and instruction set.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Traced, Variant};
use crate::cpu::modes::RustModes;
use crate::trace::{self, LaunchedCode};
use crate::{Cpu, Effort, Error, Isa, PlanInfo, Spec, Tier};

/// The code of a program for a range of its dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// The range of each dynamic dimension, both ends included.
    pub ranges: &'static [(usize, usize)],
    /// Returns the minimum work of a launch for given dimensions: operations, and bytes.
    pub work: fn(&[i64]) -> [f64; 2],
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
    pub fn plan(&self, spec: &'static Spec, dims: &[i64]) -> PlanInfo {
        let bucket = self.bucket(dims);
        let variant = bucket.and_then(|it| self.chosen[it]);
        PlanInfo {
            tier: variant.map_or(Tier::Default, |it| it.tier),
            bucket: bucket.map_or(&[], |it| self.buckets[it].ranges),
            isa: variant.map_or(Isa::Portable, |it| it.isa),
            numerics: spec.numerics,
            median_ns: variant.and_then(|it| it.median_ns),
            effort: variant.map_or(Effort::NONE, |it| it.effort),
            artifact: variant.map_or("", |it| it.artifact),
        }
    }

    fn bucket(&self, dims: &[i64]) -> Option<usize> {
        self.buckets.iter().position(|it| are_inside(it.ranges, dims))
    }
}

/// Returns whether dimensions are in these ranges.
pub(crate) fn are_inside(ranges: &[(usize, usize)], dims: &[i64]) -> bool {
    let is_inside = |(dim, (lo, hi)): (&i64, &(usize, usize))| {
        usize::try_from(*dim).is_ok_and(|it| (*lo..=*hi).contains(&it))
    };
    dims.iter().zip(ranges).all(is_inside)
}

/// Runs portable code; a panic in it, which would be a bug of tvmtune, becomes an error.
///
/// # Errors
///
/// [`Error::Panicked`]
pub fn portable(traced: &'static Traced, dims: &[i64], code: impl FnOnce()) -> Result<(), Error> {
    let kernel = traced.spec.name;
    let run = || {
        let _modes = RustModes::begin();
        catch_unwind(AssertUnwindSafe(code)).map_err(|_| Error::Panicked { kernel })
    };
    let (isa, tier) = (Isa::Portable, Tier::Default);
    let code = || LaunchedCode { isa, tier, threads: Some(1), artifact: "" };
    trace::launch(Some(traced), dims, run, code)
}
