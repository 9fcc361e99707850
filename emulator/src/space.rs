//! The generic address space: a window for each state space, as kernels see them.

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

/// Shared addresses begin here: hardware keeps the first KiB for itself.
pub(crate) const SHARED_BASE: u64 = 1024;

/// The CTA of a shared address in its cluster, plus one, is shifted by this much; 0 is one's own.
pub(crate) const RANK_SHIFT: u32 = 24;

/// Generic addresses of shared memory.
pub(crate) const SHARED_WINDOW: u64 = 1 << 40;

/// Generic addresses of local memory.
pub(crate) const LOCAL_WINDOW: u64 = 1 << 41;

/// Generic addresses of kernel parameters.
pub(crate) const PARAMETER_WINDOW: u64 = 1 << 42;

/// Variables of the module.
pub(crate) const MODULE_WINDOW: u64 = 1 << 43;

/// Buffers.
pub(crate) const BUFFER_WINDOW: u64 = 1 << 44;

/// Windows are this large.
pub(crate) const WINDOW_BYTES: u64 = 1 << 32;

/// Returns the state space of a generic address, and the address in it.
pub(crate) fn space_of(address: u64) -> (Space, u64) {
    for (window, space) in [
        (SHARED_WINDOW, Space::Shared),
        (LOCAL_WINDOW, Space::Local),
        (PARAMETER_WINDOW, Space::Parameter),
    ] {
        if (window..window + WINDOW_BYTES).contains(&address) {
            return (space, address - window);
        }
    }
    (Space::Global, address)
}

/// A region of memory that an address can point into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// The shared memory of a CTA of the cluster.
    Shared(usize),
    /// A buffer.
    Buffer(usize),
    /// The variables of the module.
    Variables,
    /// Local memory of the warp.
    Local,
    /// Parameters of the kernel.
    Parameters,
}
