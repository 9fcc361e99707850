//! Adaptation of split factors to a loop of another extent.

use std::fmt;

use tvmtune_ir::poly::{Facts, Poly};

/// The adaptation of factors where extents differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactorPolicy {
    /// They stay: the outermost loop takes the rest, and tails are guarded.
    KeepInner,
    /// Each becomes the nearest divisor of the extent left to tile, innermost first.
    Snap,
    /// All but the innermost scale with the extent, as the outermost loop does, all by the same
    /// factor; then as [`Snap`](FactorPolicy::Snap).
    Scale,
    /// Those that divided are lowered until they divide again, and none exceeds the extent left to
    /// tile: a tile for a large extent never takes more memory on a small one.
    Shrink,
}

/// The number of iterations of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    /// The upper bound.
    max: u64,
    /// True if it is always the upper bound.
    is_fixed: bool,
    /// True if it is a literal constant; false for a dynamic dimension with a range of one value.
    is_constant: bool,
}

impl Extent {
    pub(super) fn of(extent: &Poly, facts: &Facts) -> Self {
        let range = extent.interval(facts);
        Self {
            max: range.hi.max(1) as u64,
            is_fixed: range.lo == range.hi,
            is_constant: extent.as_constant().is_some(),
        }
    }
}

impl FactorPolicy {
    /// The policies that find different points near a schedule of another workload.
    pub const TRANSFER: [FactorPolicy; 3] =
        [FactorPolicy::KeepInner, FactorPolicy::Snap, FactorPolicy::Scale];

    /// The spelling in reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            FactorPolicy::KeepInner => "keep",
            FactorPolicy::Snap => "snap",
            FactorPolicy::Scale => "scale",
            FactorPolicy::Shrink => "shrink",
        }
    }

    /// Adapts the factors of a split, outermost first; returns the distance moved. They stay where
    /// extents are equal, and where the new extent is dynamic: it has a tail in any case.
    pub(super) fn fit(self, factors: &mut [u64], was: Extent, is: Extent) -> f64 {
        let stays = match self {
            FactorPolicy::KeepInner => true,
            FactorPolicy::Snap | FactorPolicy::Scale => !is.is_fixed,
            FactorPolicy::Shrink => !is.is_constant || !was.is_constant,
        };
        if stays {
            return 0.0;
        }
        let (mut before, mut left) = (was.max, is.max);
        let grown = (left as f64 / before as f64).powf(1.0 / factors.len().max(1) as f64);
        let innermost = factors.len().saturating_sub(1);
        let mut distance = 0.0;
        for (n, factor) in factors.iter_mut().enumerate().rev() {
            let wanted = (*factor).max(1);
            let found = match self {
                _ if before == left => wanted,
                FactorPolicy::Scale if n < innermost => {
                    nearest_divisor(left, wanted as f64 * grown)
                }
                FactorPolicy::Snap | FactorPolicy::Scale => nearest_divisor(left, wanted as f64),
                FactorPolicy::KeepInner => wanted,
                FactorPolicy::Shrink => {
                    let perfect = before.is_multiple_of(wanted);
                    let fits = |it: &u64| !perfect || left.is_multiple_of(*it);
                    (1..=wanted.min(left)).rev().find(fits).unwrap_or(1)
                }
            };
            distance += octaves(wanted, found);
            before = before.div_ceil(wanted);
            left = left.div_ceil(found);
            *factor = found;
        }
        distance
    }
}

/// The distance between two factors, in octaves.
pub fn octaves(one: u64, other: u64) -> f64 {
    (one.max(1) as f64 / other.max(1) as f64).log2().abs()
}

/// The divisor with the least ratio to `wanted`, the smaller of two.
fn nearest_divisor(of: u64, wanted: f64) -> u64 {
    /// Smaller divisors and their cofactors are all that is tried.
    const MAX_TRIED: u64 = 1 << 16;
    let distance = |it: u64| (it as f64 / wanted).ln().abs();
    let small = (1..=MAX_TRIED).take_while(|it| it.saturating_mul(*it) <= of);
    let divisors = small.filter(|it| of.is_multiple_of(*it)).flat_map(|it| [it, of / it]);
    let best = divisors.min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then(a.cmp(b)));
    best.unwrap_or(1)
}

impl fmt::Display for FactorPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
