//! What a run says besides the results.

/// What a kernel did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions of warps.
    pub instructions: u64,
}
