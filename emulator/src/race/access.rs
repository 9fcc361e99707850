//! An access to memory, as the race detector gets it.

/// The maker of an access: each has vector-clock components of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// Threads of a warp.
    Threads(usize),
    /// `cp.async` of threads of a warp.
    Copies(usize),
    /// Bulk copies that threads of a warp commit in groups.
    Bulk(usize),
    /// An asynchronous unit with one clock for all its accesses: the bulk copies of an mbarrier, or
    /// the `wgmma` of a warpgroup.
    Agent(usize),
}

/// An access by lanes of a warp, or on behalf of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) actor: Actor,
    /// The actor's clock; for threads their own one is taken.
    pub(crate) clock: u32,
    pub(crate) write: bool,
    pub(crate) atomic: bool,
    /// The instruction's location: an index into the lines of the module.
    pub(crate) location: u32,
    /// The warp that issues it, and the CTA's number in the grid.
    pub(crate) warp: usize,
    pub(crate) cta: u32,
}
