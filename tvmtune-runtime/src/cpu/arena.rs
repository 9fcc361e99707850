//! Thread-local arenas for workspace and scratch memory.

use std::cell::Cell;
use std::collections::TryReserveError;

/// Alignment of arena memory, in bytes.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// An arena that grows to the largest request.
#[derive(Default)]
pub(crate) struct Arena {
    lines: Vec<Line>,
}

thread_local! {
    /// Workspace of a launch, owned by the launching thread.
    static SHARED: Cell<Arena> = const { Cell::new(Arena { lines: Vec::new() }) };
    /// Scratch memory of a thread that runs tasks.
    static SCRATCH: Cell<Arena> = const { Cell::new(Arena { lines: Vec::new() }) };
}

impl Arena {
    /// Returns at least `bytes` bytes, 64-byte aligned, with unspecified contents.
    ///
    /// # Errors
    ///
    /// If memory is exhausted; the former memory is freed then.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<*mut u8, TryReserveError> {
        let n_lines = bytes.div_ceil(size_of::<Line>());
        if n_lines > self.lines.len() {
            self.lines = Vec::new();
            self.lines.try_reserve_exact(n_lines)?;
            self.lines.resize(n_lines, Line([0; 64]));
        }
        Ok(self.lines.as_mut_ptr().cast())
    }
}

/// Calls `use_it` with this thread's workspace arena.
#[inline(always)]
pub(crate) fn with_shared<R>(use_it: impl FnOnce(&mut Arena) -> R) -> R {
    with(&SHARED, use_it)
}

#[inline(always)]
pub(crate) fn with_scratch<R>(use_it: impl FnOnce(&mut Arena) -> R) -> R {
    with(&SCRATCH, use_it)
}

/// Nested calls get separate memory. It is part of every launch, and too short for a call of its own.
#[inline(always)]
fn with<R>(
    cell: &'static std::thread::LocalKey<Cell<Arena>>,
    use_it: impl FnOnce(&mut Arena) -> R,
) -> R {
    let mut arena = cell.take();
    let result = use_it(&mut arena);
    cell.set(arena);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_kept() {
        let first = with_scratch(|it| it.reserve(1000).unwrap().addr());
        assert_eq!(first % 64, 0);
        assert_eq!(with_scratch(|it| it.reserve(10).unwrap().addr()), first);
    }

    #[test]
    fn a_call_within_a_call_gets_other_memory() {
        with_scratch(|outer| {
            let outer = outer.reserve(64).unwrap();
            assert_ne!(with_scratch(|it| it.reserve(64).unwrap()), outer);
        });
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        with_shared(|it| assert!(it.reserve(usize::MAX / 2).is_err()));
    }
}
