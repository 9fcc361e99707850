//! What a run says besides the results.

use crate::fault::Place;

/// What a kernel did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions of warps.
    pub instructions: u64,
    /// What accesses to memory cost, line by line, where [`crate::Options::profile`] asked for it.
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
    pub place: Option<Place>,
    /// Of which memory.
    pub memory: AccessedMemory,
    /// Whether it is written; atomic operations count as writes.
    pub write: bool,
    /// Instructions of warps.
    pub requests: u64,
    /// Wavefronts or sectors that they took.
    pub transactions: u64,
    /// As many as they would take if lanes accessed words that are next to each other.
    pub ideal: u64,
}
