//! The memory of the device: buffers with space between them, so that no stray access hits another.

use crate::space::BUFFER_WINDOW;

/// Every buffer begins at a multiple of this, like allocations of the driver.
const ALIGN: u64 = 256;

/// Unmapped bytes after each buffer.
const GUARD: u64 = 1 << 16;

/// A buffer of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer(pub(crate) usize);

#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) name: String,
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Global memory of a device, which outlives launches.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) allocations: Vec<Allocation>,
}

impl Memory {
    /// Empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer. Faults call it by its name.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) -> Buffer {
        let base = self.allocations.last().map_or(BUFFER_WINDOW, |it| {
            (it.base + it.bytes.len() as u64 + GUARD).next_multiple_of(ALIGN)
        });
        self.allocations.push(Allocation { name: name.to_owned(), base, bytes });
        Buffer(self.allocations.len() - 1)
    }

    /// Returns the bytes of a buffer.
    #[must_use]
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.allocations[buffer.0].bytes
    }

    /// Returns the bytes of a buffer, to be changed between launches.
    pub fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        &mut self.allocations[buffer.0].bytes
    }

    /// Returns the device address of a buffer.
    #[must_use]
    pub fn address(&self, buffer: Buffer) -> u64 {
        self.allocations[buffer.0].base
    }

    /// Returns the buffer that begins at or before an address.
    pub(crate) fn before(&self, address: u64) -> Option<usize> {
        self.allocations.partition_point(|it| it.base <= address).checked_sub(1)
    }
}
