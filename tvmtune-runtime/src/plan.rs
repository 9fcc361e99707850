//! Descriptions of kernels and of their plans.

use crate::Isa;

/// The origin of a kernel's code, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Measured on a device like the one the build was planned for.
    Exact,
    /// Measured on another device of the same instruction set.
    SameIsa,
    /// A schedule that was measured for other ranges of the dimensions.
    Transferred,
    /// A schedule that was predicted to be fast, from measurements of other programs.
    Predicted,
    /// The default schedule: nothing was measured.
    Default,
}

impl Tier {
    /// The spelling in reports.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Exact => "exact",
            Tier::SameIsa => "same isa",
            Tier::Transferred => "transferred",
            Tier::Predicted => "predicted",
            Tier::Default => "default",
        }
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of the search for a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Search {
    /// To the end: nothing more was expected to gain.
    Complete,
    /// Until a budget ended; another build goes on.
    Partial,
    /// The default schedule was measured, and nothing else was tried.
    DefaultOnly,
    /// Nothing was measured for this device and these dimensions.
    None,
}

/// The effort of finding a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Candidates that were measured.
    pub trials: u64,
    /// The wall time that this took.
    pub seconds: f64,
    /// The state of the search.
    pub search: Search,
}

impl Effort {
    /// No effort.
    pub const NONE: Self = Self { trials: 0, seconds: 0.0, search: Search::None };
}

/// The results that a program's schedules may give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// Near the definition: schedules choose the order of reductions.
    #[default]
    Free,
    /// The same bits by every schedule, in every bucket, with every number of threads, on every CPU.
    Fixed,
}

/// The code that a launch with given dimensions runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanInfo {
    /// The tier of the schedule.
    pub tier: Tier,
    /// The range of each dynamic dimension (both ends included) for which this code is used.
    pub bucket: &'static [(usize, usize)],
    /// The instruction set it is for.
    pub isa: Isa,
    /// The numerics of the program.
    pub numerics: Numerics,
    /// The time of one launch when it was measured, in ns; `None` if it was not.
    pub median_ns: Option<f64>,
    /// The effort of finding the schedule.
    pub effort: Effort,
    /// SHA-256 of the code, in hex; empty for the portable code.
    pub artifact: &'static str,
}

/// The signature of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The program's name.
    pub name: &'static str,
    /// SHA-256 of the program's canonical text, in hex: the name of its records.
    pub workload: &'static str,
    /// The results that schedules of it may give.
    pub numerics: Numerics,
    /// The dynamic dimensions with their ranges, both ends included.
    pub dims: &'static [(&'static str, usize, usize)],
    /// The parameters that are tensors, in order.
    pub params: &'static [TensorSpec],
    /// The results, in order.
    pub outputs: &'static [TensorSpec],
}

/// One tensor of a [`Spec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The argument's name.
    pub name: &'static str,
    /// The type of the elements: `f32`, `bf16`.
    pub dtype: &'static str,
    /// The shape, as the program spells it: `[M, 384]`.
    pub shape: &'static str,
    /// Declared as `Weight`.
    pub weight: bool,
    /// Declared as `InOut`: a launch replaces its elements.
    pub in_place: bool,
}
