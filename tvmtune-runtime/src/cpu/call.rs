//! The `unsafe` parts of a launch: sharing a closure that is not `'static` with the threads of the
//! pool, and calling machine code.
//!
//! [`super::pool`] decides which threads run when, and shares closures by [`SharedClosure`]; `launch`
//! runs on it. All that needs `unsafe` is in this file.
#![expect(unsafe_code, reason = "machine code is called here, and nowhere else")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::arena;
use super::modes::RustModes;
use super::{Cpu, pool};
use crate::Error;
use crate::raw::{Arg, Call, TableEntry, Threads, Variant};
use crate::trace::{self, LaunchedCode};

/// A closure that one thread, its owner, shares with others for a scope.
///
/// `state` counts readers, and has a bit that is set while a closure is shared. A reader counts
/// itself and learns in the same instruction whether one is; the owner clears the bit and then waits
/// until all readers have left. So no thread has the reference after `share` returned.
pub(crate) struct SharedClosure {
    state: AtomicUsize,
    closure: UnsafeCell<Option<&'static (dyn Fn() + Sync)>>,
}

/// Bit of `state`: a closure is shared.
const SHARED: usize = 1;
/// Bit of `state`: a thread has exclusive access to the cell, but for readers.
const OWNED: usize = 2;
/// Unit of the count of readers in `state`.
const READER: usize = 4;

// SAFETY: `closure` is written in `share` only, by the thread that set `OWNED`, before it sets
// `SHARED` and after the last reader that saw `SHARED` left; it is read in `call` only, by readers
// that are counted and saw `SHARED`. The cell has a `&(dyn Fn + Sync)`, which is `Send`.
unsafe impl Sync for SharedClosure {}

impl SharedClosure {
    pub(crate) const fn new() -> Self {
        Self { state: AtomicUsize::new(0), closure: UnsafeCell::new(None) }
    }

    /// Shares `closure` while `meanwhile` runs; returns when no thread uses it.
    ///
    /// There is one owner at a time: a second one, also on the same thread, aborts the process.
    pub(crate) fn share(&self, closure: &(dyn Fn() + Sync), meanwhile: impl FnOnce()) {
        /// Ends the sharing also if `meanwhile` panics.
        struct Unshare<'a>(&'a AtomicUsize);
        impl Drop for Unshare<'_> {
            fn drop(&mut self) {
                self.0.fetch_and(!SHARED, Ordering::Relaxed);
                let mut turns = 0_u32;
                while self.0.load(Ordering::Acquire) >= READER {
                    turns += 1;
                    if turns < 4000 { std::hint::spin_loop() } else { std::thread::yield_now() }
                }
                self.0.fetch_and(!OWNED, Ordering::Release);
            }
        }
        if self.state.fetch_or(OWNED, Ordering::Acquire) & OWNED != 0 {
            std::process::abort();
        }
        // SAFETY: this thread is the only owner, and the one before waited until all its readers
        // had left, so no other thread uses the cell. Only readers use the reference, and
        // `Unshare` waits for the last of them before the lifetime of `closure` ends.
        unsafe {
            *self.closure.get() = Some(std::mem::transmute::<
                &(dyn Fn() + Sync),
                &'static (dyn Fn() + Sync),
            >(closure));
        }
        self.state.fetch_or(SHARED, Ordering::Release);
        let _unshare = Unshare(&self.state);
        meanwhile();
    }

    /// Calls the closure if one is shared.
    pub(crate) fn call(&self) {
        /// Ends the read also if the closure panics.
        struct EndRead<'a>(&'a AtomicUsize);
        impl Drop for EndRead<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(READER, Ordering::Release);
            }
        }
        let before = self.state.fetch_add(READER, Ordering::Acquire);
        let _end_read = EndRead(&self.state);
        if before & SHARED != 0 {
            // SAFETY: `SHARED` was set when this reader was counted, so the cell was written before,
            // and the owner keeps cell and closure until this reader has left.
            let closure = unsafe { *self.closure.get() };
            if let Some(closure) = closure {
                closure();
            }
        }
    }
}

/// A phase of machine code: runs tasks `first..end`.
///
/// Its arguments are the table of 8-byte entries and the thread's scratch memory.
#[cfg(target_arch = "x86_64")]
pub type Entry =
    unsafe extern "sysv64" fn(table: *const u64, scratch: *mut u8, first: u64, end: u64);

/// Never called: machine code is for x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
pub type Entry = unsafe extern "C" fn(table: *const u64, scratch: *mut u8, first: u64, end: u64);

/// A launch of machine code.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The phases, with a barrier between.
    pub entries: &'a [Entry],
    /// Number of tasks of each phase.
    pub n_tasks: &'a [u64],
    /// The argument table.
    pub table: &'a [u64],
    /// Scratch memory per thread in bytes, 64-byte aligned.
    pub scratch_bytes: usize,
    /// The threads that may run tasks.
    pub threads: Threads,
}

/// Runs all phases in order, with a barrier between.
///
/// # Safety
///
/// The entries must be machine code that this CPU can execute and that, given this table, so much
/// scratch memory and so many tasks, accesses no memory but what the table, by its contract with
/// the code, says is there for it during this call; with [`Threads::All`], whichever threads run
/// which tasks. It must follow the calling convention, and return.
pub unsafe fn launch(launch: &Launch<'_>) {
    let Launch { entries, n_tasks, table, scratch_bytes, threads } = *launch;
    let _modes = RustModes::begin();
    let parallel = threads == Threads::All && n_tasks.iter().any(|it| *it > 1);
    let team = if parallel { pool::pool().team() } else { None };
    for (entry, n_tasks) in entries.iter().zip(n_tasks) {
        let call = |first: u64, end: u64| {
            arena::with_scratch(|arena| {
                let Ok(scratch) = arena.reserve(scratch_bytes) else {
                    std::alloc::handle_alloc_error(std::alloc::Layout::new::<u64>());
                };
                // SAFETY: by the contract of this function; `scratch` has `scratch_bytes` bytes
                // that belong to this thread.
                unsafe { entry(table.as_ptr(), scratch, first, end) }
            });
        };
        match &team {
            Some(team) if *n_tasks > 1 => team.run(*n_tasks, &call),
            _ if *n_tasks > 0 => call(0, *n_tasks),
            _ => {}
        }
    }
}

/// Runs a variant of a kernel that `#[autotune]` embedded, and traces it.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if the workspace cannot be allocated.
///
/// # Safety
///
/// The variant must be one that was generated for this program and for dimensions like these, and
/// the CPU must have its instruction set. The arguments must be those of the program, with as many
/// elements as the dimensions say, and stay valid (results: unaliased) until this returns.
pub(crate) unsafe fn run<'a, A: AsRef<Arg<'a>>>(
    cpu: &Cpu,
    variant: &Variant,
    call: &Call<'_, A>,
) -> Result<(), Error> {
    let code = || {
        let Variant { isa, tier, artifact, .. } = *variant;
        let is_alone = cpu.is_alone() || variant.threads == Threads::One;
        let threads = Some(if is_alone { 1 } else { pool::threads() });
        LaunchedCode { isa, tier, threads, artifact }
    };
    // SAFETY: by the contract of this function.
    trace::launch(call.traced, call.dims, || unsafe { run_untraced(cpu, variant, call) }, code)
}

/// As `run`, which differs in what is written about it.
unsafe fn run_untraced<'a, A: AsRef<Arg<'a>>>(
    cpu: &Cpu,
    variant: &Variant,
    call: &Call<'_, A>,
) -> Result<(), Error> {
    let Call { kernel, dims, args, scalars, .. } = *call;
    let n_phases = variant.entries.len();
    let n_entries = variant.table.len();
    with_words(n_entries + n_phases + 1, |numbers| {
        (variant.numbers)(dims, numbers);
        let (table, geometry) = numbers.split_at_mut(n_entries);
        let (n_tasks, scratch_bytes) = geometry.split_at(n_phases);
        arena::with_shared(|arena| {
            let lines = |bytes: u64| bytes.next_multiple_of(64);
            // Sizes that overflow are as much more than there is as those that do not.
            let bytes = workspace_bytes(variant.table, table).unwrap_or(usize::MAX);
            let base = arena.reserve(bytes).map_err(|_| Error::OutOfMemory { kernel, bytes })?;
            let mut free = base.expose_provenance() as u64;
            for (entry, word) in variant.table.iter().zip(&mut *table) {
                match entry {
                    TableEntry::Param => {}
                    TableEntry::Workspace => free += lines(std::mem::replace(word, free)),
                    TableEntry::Pointer(arg, layout) => {
                        *word = args[*arg].as_ref().address(*layout);
                    }
                    TableEntry::Scalar(scalar) => *word = scalars[*scalar],
                }
            }
            let threads = if cpu.is_alone() { Threads::One } else { variant.threads };
            let scratch_bytes = scratch_bytes[0] as usize;
            let entries = variant.entries;
            // SAFETY: by the contract of this function, the code fits the CPU and the dimensions;
            // `numbers` was generated with the code, and what it asked for is in the table.
            unsafe { launch(&Launch { entries, n_tasks, table, scratch_bytes, threads }) };
            Ok(())
        })
    })
}

/// Returns the bytes of all temporaries together, each from a cache line on; `None` if no address space
/// has so many.
#[inline(always)]
fn workspace_bytes(table: &[TableEntry], words: &[u64]) -> Option<usize> {
    let entries = table.iter().zip(words);
    let mut shared = entries.filter(|(it, _)| matches!(it, TableEntry::Workspace));
    let bytes = shared
        .try_fold(0_u64, |bytes, (_, more)| bytes.checked_add(more.checked_next_multiple_of(64)?));
    usize::try_from(bytes?).ok()
}

/// Calls `fill` with zeroed words, on the stack up to a limit.
#[inline(always)]
pub(crate) fn with_words<R>(n_words: usize, fill: impl FnOnce(&mut [u64]) -> R) -> R {
    let mut few = [0; 64];
    match few.get_mut(..n_words) {
        Some(words) => fill(words),
        None => fill(&mut vec![0; n_words]),
    }
}

/// Makes a slice of elements at an address.
///
/// # Safety
///
/// As [`std::slice::from_raw_parts`].
pub unsafe fn slice<'a, T>(address: *const T, len: usize) -> &'a [T] {
    // SAFETY: by the contract of this function.
    unsafe { std::slice::from_raw_parts(address, len) }
}

/// Makes a mutable slice of elements at an address.
///
/// # Safety
///
/// As [`std::slice::from_raw_parts_mut`].
pub unsafe fn slice_mut<'a, T>(address: *mut T, len: usize) -> &'a mut [T] {
    // SAFETY: by the contract of this function.
    unsafe { std::slice::from_raw_parts_mut(address, len) }
}

#[cfg(all(test, target_arch = "x86_64"))]
#[path = "call_tests.rs"]
mod tests;
