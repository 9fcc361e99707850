//! What becomes of factors where a loop is longer or shorter than the one they were made for.

use std::fmt;

use tvmtune_ir::poly::{Facts, Poly};

/// What becomes of factors where extents differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// They stay: the outermost loop takes what is left, and tails are guarded.
    KeepInner,
    /// Each becomes the nearest divisor of what is left to tile, innermost first.
    Snap,
    /// All but the innermost grow with the extent, which the outermost loop does too, all by the
    /// same factor; then as [`Snap`](Policy::Snap).
    Scale,
    /// Those that tiled without a tail are lowered until they do so again, and none is longer than
    /// what is left to tile: what was made for a large extent never takes more room on a small one.
    Shrink,
}

/// How many iterations a loop has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    /// At most.
    most: u64,
    /// Always so many.
    is_fixed: bool,
    /// Written as a number; not so where a range of one value is all that is known.
    is_constant: bool,
}

impl Extent {
    pub(super) fn of(extent: &Poly, facts: &Facts) -> Self {
        let range = extent.interval(facts);
        Self {
            most: range.hi.max(1) as u64,
            is_fixed: range.lo == range.hi,
            is_constant: extent.as_constant().is_some(),
        }
    }
}

impl Policy {
    /// Those that find different places near a schedule of another workload.
    pub const TRANSFER: [Policy; 3] = [Policy::KeepInner, Policy::Snap, Policy::Scale];

    /// The spelling in reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            Policy::KeepInner => "keep",
            Policy::Snap => "snap",
            Policy::Scale => "scale",
            Policy::Shrink => "shrink",
        }
    }

    /// Changes the factors of a split, outermost first; returns how far they moved. Where a loop
    /// is as long as it was they stay, and where its length is not known before launch too: it has
    /// a tail in any case.
    pub(super) fn fit(self, factors: &mut [u64], was: Extent, is: Extent) -> f64 {
        let stays = match self {
            Policy::KeepInner => true,
            Policy::Snap | Policy::Scale => !is.is_fixed,
            Policy::Shrink => !is.is_constant || !was.is_constant,
        };
        if stays {
            return 0.0;
        }
        let (mut before, mut left) = (was.most, is.most);
        let grown = (left as f64 / before as f64).powf(1.0 / factors.len().max(1) as f64);
        let innermost = factors.len().saturating_sub(1);
        let mut distance = 0.0;
        for (n, factor) in factors.iter_mut().enumerate().rev() {
            let wanted = (*factor).max(1);
            let found = match self {
                _ if before == left => wanted,
                Policy::Scale if n < innermost => nearest_divisor(left, wanted as f64 * grown),
                Policy::Snap | Policy::Scale => nearest_divisor(left, wanted as f64),
                Policy::KeepInner => wanted,
                Policy::Shrink => {
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

/// How far apart two factors are, in octaves.
pub fn octaves(one: u64, other: u64) -> f64 {
    (one.max(1) as f64 / other.max(1) as f64).log2().abs()
}

/// The divisor with the least ratio to what is wanted, the smaller of two.
fn nearest_divisor(of: u64, wanted: f64) -> u64 {
    /// Smaller divisors and what they leave are all that count.
    const MOST_TRIED: u64 = 1 << 16;
    let apart = |it: u64| (it as f64 / wanted).ln().abs();
    let small = (1..=MOST_TRIED).take_while(|it| it.saturating_mul(*it) <= of);
    let divisors = small.filter(|it| of.is_multiple_of(*it)).flat_map(|it| [it, of / it]);
    let best = divisors.min_by(|a, b| apart(*a).total_cmp(&apart(*b)).then(a.cmp(b)));
    best.unwrap_or(1)
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
