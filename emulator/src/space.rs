//! Where memories lie in the generic address space, as kernels see it.

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
