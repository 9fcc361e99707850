//! Tiers: how close a known schedule comes to one that was measured for the wanted case.

use std::fmt;

/// The origin of a schedule, better ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Measured on this device, for these ranges of the dimensions.
    Exact,
    /// Measured on another device with the same instruction set, for these ranges.
    SameIsa,
    /// Measured for other ranges of the dimensions. It may not apply: replay it and see.
    Transferred,
    /// Never measured.
    Default,
}

impl Tier {
    /// The spelling in reports.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Exact => "exact",
            Tier::SameIsa => "same isa",
            Tier::Transferred => "transferred",
            Tier::Default => "default",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
