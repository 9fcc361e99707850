//! What other languages do to a process in which kernels run: they fork it, and change the modes of
//! floating-point arithmetic.
#![expect(unsafe_code, reason = "no safe function forks, or changes the modes of arithmetic")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::Pid;

unsafe extern "C" {
    fn fork() -> i32;
    /// Ends the process without the destructors of other threads.
    safe fn _exit(status: i32) -> !;
}

/// Forks this process, and has the child run `run` and end: with success if that returns true.
///
/// # Errors
///
/// If the system refuses.
pub fn in_child(run: impl FnOnce() -> bool) -> io::Result<Pid> {
    // SAFETY: the child has this thread only, and the memory of all. `run` launches kernels, which is
    // what is under test, and allocates: the C library sees to it that a child may. It takes no
    // lock of this program that another thread could have held, and never returns from here.
    let pid = unsafe { fork() };
    match pid {
        0 => {
            let succeeds = catch_unwind(AssertUnwindSafe(run)).unwrap_or(false);
            _exit(i32::from(!succeeds));
        }
        _ => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error),
    }
}

/// The modes of Rust code: results are rounded to the nearest, denormals kept, exceptions masked.
pub const RUST_MODES: u32 = 0x1f80;

/// The bits that say which exceptions occurred.
const STATUS: u32 = 0x3f;

/// Runs `run` in these modes; returns its result, and the modes in which it left the thread. Within
/// `run` there must be no arithmetic on floating-point numbers but that of kernels.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn in_modes<R>(modes: u32, run: impl FnOnce() -> R) -> (R, u32) {
    use std::arch::asm;

    let set = |modes: u32| {
        // SAFETY: the instruction reads four bytes, those of the variable, and no reserved bit is set.
        // What is compiled of `run` counts on the modes of Rust only where it computes, which it
        // has kernels do; these set the modes that they need.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const modes, options(nostack, preserves_flags));
        }
    };
    set(modes & 0xffff & !STATUS);
    let result = run();
    let mut after = 0_u32;
    // SAFETY: the instruction writes four bytes, those of the variable.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut after, options(nostack, preserves_flags));
    }
    set(RUST_MODES);
    (result, after & !STATUS)
}

/// Elsewhere modes are left alone.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub fn in_modes<R>(modes: u32, run: impl FnOnce() -> R) -> (R, u32) {
    (run(), modes)
}
