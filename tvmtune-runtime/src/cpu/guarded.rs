//! Memory between guard pages: an access past its end faults.
//!
//! The tuner's workers use it to detect accesses out of bounds.
#![expect(unsafe_code, reason = "the protection of pages is changed here")]

use std::io;

use memmap2::MmapMut;

/// A multiple of the page size of all supported systems, in bytes.
const PAGE: usize = 64 * 1024;

/// Bytes that end at a guard page, or as close before it as their alignment permits; another guard
/// page precedes them.
#[derive(Debug)]
pub struct Guarded {
    memory: MmapMut,
    start: usize,
    len: usize,
    writable: bool,
}

impl Guarded {
    /// Allocates zeroed bytes, aligned to `align`, a power of two up to a page.
    ///
    /// # Errors
    ///
    /// If memory is exhausted.
    pub fn new(len: usize, align: usize) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let inner = len.checked_next_multiple_of(PAGE).ok_or_else(too_large)?.max(PAGE);
        let total = inner.checked_add(2 * PAGE).ok_or_else(too_large)?;
        let mut memory = MmapMut::map_anon(total)?;
        let start = (PAGE + inner - len) & !(align - 1);
        protect(&mut memory, 0..PAGE, Access::None)?;
        protect(&mut memory, PAGE + inner..total, Access::None)?;
        Ok(Self { memory, start, len, writable: true })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// Returns the bytes, mutably.
    ///
    /// # Panics
    ///
    /// If they were made read-only.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "the memory is read-only");
        &mut self.memory[self.start..self.start + self.len]
    }

    /// Makes the bytes read-only: writing to them faults.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn make_read_only(&mut self) -> io::Result<()> {
        let inner = PAGE..self.memory.len() - PAGE;
        self.writable = false;
        protect(&mut self.memory, inner, Access::Read)
    }

    /// Makes the bytes writable again.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn make_writable(&mut self) -> io::Result<()> {
        let inner = PAGE..self.memory.len() - PAGE;
        protect(&mut self.memory, inner, Access::Write)?;
        self.writable = true;
        Ok(())
    }

    /// Returns the address of the bytes.
    pub fn address(&self) -> u64 {
        self.bytes().as_ptr().expose_provenance() as u64
    }
}

/// The protection of a page.
#[derive(Clone, Copy)]
enum Access {
    None,
    Read,
    Write,
}

#[cfg(unix)]
fn protect(memory: &mut MmapMut, range: std::ops::Range<usize>, access: Access) -> io::Result<()> {
    let protection = match access {
        Access::None => libc::PROT_NONE,
        Access::Read => libc::PROT_READ,
        Access::Write => libc::PROT_READ | libc::PROT_WRITE,
    };
    let part = &mut memory[range];
    // SAFETY: the range lies within one mapping that is ours alone, and starts and ends at
    // pages. `Guarded` makes no reference to pages without access, and none to write to read-only
    // ones.
    let result = unsafe { libc::mprotect(part.as_mut_ptr().cast(), part.len(), protection) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Elsewhere, workers do without: results are compared all the same.
#[cfg(not(unix))]
fn protect(_: &mut MmapMut, _: std::ops::Range<usize>, _: Access) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_end_at_a_page_or_just_before() {
        for (len, align) in [(1, 1), (12, 4), (100, 64), (PAGE, 64), (PAGE + 4, 4), (0, 1)] {
            let mut it = Guarded::new(len, align).unwrap();
            assert_eq!(it.address() % align as u64, 0);
            let gap =
                (it.address() + len as u64).next_multiple_of(4096) - it.address() - len as u64;
            assert!(gap < align as u64, "{gap} bytes after {len}");
            assert_eq!(it.bytes_mut().len(), len);
            it.bytes_mut().fill(7);
            it.make_read_only().unwrap();
            assert!(it.bytes().iter().all(|it| *it == 7));
            it.make_writable().unwrap();
            it.bytes_mut().fill(8);
        }
    }
}
