//! Machine code loaded at run time, for the tuner's workers.
//!
//! In: the bytes of each phase. Out: [`Code`], which is launched by the same function as the
//! kernels that `#[autotune]` embeds.
#![expect(unsafe_code, reason = "bytes become functions here")]

use std::io;

use memmap2::{Mmap, MmapMut};

use super::call::{Entry, Launch, launch};
use crate::raw::Threads;

/// Alignment of phases, in bytes: a cache line, as for embedded ones.
const ALIGN: usize = 64;

/// Machine code in executable memory: a function for each phase.
#[derive(Debug)]
pub struct Code {
    entries: Vec<Entry>,
    /// The mapping of the functions; never writable and executable at once.
    _memory: Mmap,
}

impl Code {
    /// Loads position-independent code: one blob per phase, entered at its first byte.
    ///
    /// # Errors
    ///
    /// If a blob is empty, or the system grants no executable memory.
    pub fn load<B: AsRef<[u8]>>(phases: &[B]) -> io::Result<Self> {
        let empty = phases.is_empty() || phases.iter().any(|it| it.as_ref().is_empty());
        if empty {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a phase without code"));
        }
        let starts: Vec<usize> = phases
            .iter()
            .scan(0, |free, it| {
                let start = *free;
                *free = (start + it.as_ref().len()).next_multiple_of(ALIGN);
                Some(start)
            })
            .collect();
        let n_bytes =
            starts.last().zip(phases.last()).map_or(0, |(it, last)| it + last.as_ref().len());
        let mut memory = MmapMut::map_anon(n_bytes)?;
        for (start, phase) in starts.iter().zip(phases) {
            memory[*start..*start + phase.as_ref().len()].copy_from_slice(phase.as_ref());
        }
        let memory = memory.make_exec()?;
        let entry = |start: &usize| {
            let address = memory[*start..].as_ptr();
            // SAFETY: the address is not null, and a data pointer is as large as a function
            // pointer where there are mappings at all. Whoever calls it answers for the code.
            unsafe { std::mem::transmute::<*const u8, Entry>(address) }
        };
        Ok(Self { entries: starts.iter().map(entry).collect(), _memory: memory })
    }

    /// Runs all phases, one after the other, without knowing what they do.
    ///
    /// This is not `unsafe`, since no caller could promise what that asks for: what the code does
    /// is what is to be found out, and it may do anything to this process. So call it only in a
    /// process that was made to be lost, and whose word nobody takes, such as the tuner's worker.
    pub fn try_out(&self, n_tasks: &[u64], table: &[u64], scratch_bytes: usize, threads: Threads) {
        let entries = &self.entries;
        // SAFETY: none is claimed for what the code does, see above. The entries are executable
        // memory for as long as `self` lives.
        unsafe { launch(&Launch { entries, n_tasks, table, scratch_bytes, threads }) };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn phases_run_in_order_with_their_tasks() {
        // mov rax, [rdi]; add [rax], rcx; ret -- and: mov rax, [rdi]; shl qword [rax], 4; ret
        let add: &[u8] = &[0x48, 0x8b, 0x07, 0x48, 0x01, 0x08, 0xc3];
        let shift: &[u8] = &[0x48, 0x8b, 0x07, 0x48, 0xc1, 0x20, 0x04, 0xc3];
        let code = Code::load(&[add, shift]).unwrap();
        let mut cell = Box::new(1_u64);
        let table = [std::ptr::from_mut(&mut *cell).expose_provenance() as u64];
        code.try_out(&[5, 1], &table, 0, Threads::One);
        assert_eq!(*cell, (1 + 5) << 4);
    }

    #[test]
    fn no_code_is_an_error() {
        assert!(Code::load::<&[u8]>(&[]).is_err());
        assert!(Code::load(&[[].as_slice()]).is_err());
    }
}
