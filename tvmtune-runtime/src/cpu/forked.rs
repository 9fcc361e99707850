//! The pool of this process, and a new one in a process that was forked from it.
//!
//! A forked process has the memory of its parent and one of its threads: the others are gone, in the
//! middle of whatever they did. Workers that the pool counts would be waited for in vain, and locks
//! that they held stay locked. So the child leaves the pool alone and makes one of its own, with
//! workers of its own.
#![expect(unsafe_code, reason = "the C library calls back, and a pool is known by its address")]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::pool::Pool;

/// The number of forks between the process in which the first pool was made and this one, or more.
static N_FORKS: AtomicUsize = AtomicUsize::new(0);

/// The pool of the process that did not fork.
static FIRST: Pool = Pool::new(0, 0);

/// That of the process forked last; it is never freed.
static OF_CHILD: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Returns the pool of this process.
#[inline]
pub(super) fn pool() -> &'static Pool {
    match N_FORKS.load(Ordering::Relaxed) {
        0 => &FIRST,
        n_forks => of_child(n_forks),
    }
}

#[cold]
fn of_child(n_forks: usize) -> &'static Pool {
    let current = OF_CHILD.load(Ordering::Acquire);
    // SAFETY: it is null, or the address of a pool that was leaked.
    let former = unsafe { current.as_ref() }.unwrap_or(&FIRST);
    if former.n_forks == n_forks {
        return former;
    }
    let made: &'static Pool = Box::leak(Box::new(Pool::new(n_forks, former.limit())));
    let address = ptr::from_ref(made).cast_mut();
    match OF_CHILD.compare_exchange(current, address, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        // Another thread was first; a pool that no worker knows is some bytes.
        Err(_) => of_child(n_forks),
    }
}

/// Has forks counted from now on.
#[cfg(all(unix, not(miri)))]
pub(super) fn count_forks() {
    static COUNTED: AtomicBool = AtomicBool::new(false);
    if COUNTED.swap(true, Ordering::Relaxed) {
        return;
    }
    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> i32;
    }
    // SAFETY: the function is as POSIX declares it. The one that it is told adds to a number, which is
    // safe in a child, where little is, and lives as long as the workers' code. If memory is
    // exhausted, forks go uncounted.
    let _ = unsafe { pthread_atfork(None, None, Some(count_fork)) };
}

#[cfg(not(all(unix, not(miri))))]
pub(super) fn count_forks() {}

/// Notes that this process was forked.
extern "C" fn count_fork() {
    N_FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_has_a_pool_of_its_own() {
        let of_parent = pool();
        count_fork();
        let of_child = pool();
        assert!(!ptr::eq(of_parent, of_child), "its threads are of the parent");
        assert_eq!(of_child.limit(), of_parent.limit());
        assert!(ptr::eq(pool(), of_child), "one for all launches");
        count_fork();
        assert!(!ptr::eq(pool(), of_child), "a child of the child has another one");
    }
}
