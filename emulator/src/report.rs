//! The report of a run.

use crate::fault::SourceLocation;

/// Statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions of warps.
    pub instructions: u64,
    /// Barriers at which all threads of a CTA arrived, of all CTAs; mbarriers do not count.
    pub barriers: u64,
    /// Costs of accesses to memory, line by line, if [`crate::Options::profile`] is set.
    pub accesses: Vec<AccessCost>,
}

/// The memory that an access is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessedMemory {
    /// Transactions are wavefronts: in each, a bank serves one word.
    Shared,
    /// Transactions are sectors of 32 bytes.
    Global,
}

/// The accesses of one line to one memory.
///
/// A model of the hardware, good for comparing: words that lanes share are counted once, requests
/// of 8 and 16 bytes a lane take two and four wavefronts at best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessCost {
    /// The line; none if the kernel has no line information.
    pub location: Option<SourceLocation>,
    /// Of which memory.
    pub memory: AccessedMemory,
    /// The accesses are writes; atomic operations count as writes.
    pub write: bool,
    /// Instructions of warps.
    pub requests: u64,
    /// Wavefronts or sectors of these accesses.
    pub transactions: u64,
    /// Wavefronts or sectors of the same accesses, if they were coalesced and free of bank
    /// conflicts.
    pub ideal: u64,
}
