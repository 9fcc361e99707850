//! Thread placement: keeps a worker off the core of the launching thread.
//!
//! A woken thread goes to an idle core, if the scheduler sees one. In a virtual machine it may see
//! none, as an idle virtual core looks as if the host had taken it away; then the worker waits
//! behind its caller, launch after launch, and kernels take as long as on one core. A worker that
//! finds itself there moves once: it forbids itself that core, and allows it again.
//!
//! # Source
//!
//! Linux, `available_idle_cpu`: a core counts as idle unless `vcpu_is_preempted`.

/// Returns the core that this thread runs on, if the system reports it.
#[cfg(target_os = "linux")]
pub(super) fn core() -> Option<usize> {
    Some(rustix::thread::sched_getcpu())
}

/// Moves this thread off a core, if it is on it and may run on others.
#[cfg(target_os = "linux")]
pub(super) fn leave(taken: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    if core() != Some(taken) || taken >= CpuSet::MAX_CPU {
        return;
    }
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut others = all;
    others.unset(taken);
    // If the system refuses, the worker stays on the core: that is slower, not wrong.
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        let _ = sched_setaffinity(None, &all);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn core() -> Option<usize> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn leave(_taken: usize) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn a_thread_leaves_its_core_and_may_come_back() {
        let before = sched_getaffinity(None).unwrap();
        // Between the question and the answer the thread may be moved anyway: then it is asked
        // for nothing.
        let left = (0..1000).any(|_| {
            let here = core().unwrap();
            leave(here);
            core() != Some(here)
        });
        assert!(left || before.count() < 2);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
