//! The floating-point modes of a thread: kernels run with those of Rust, whatever the caller has set.
//!
//! Audio and game engines have their threads flush denormals to zero, numeric libraries change how
//! results are rounded, and a thread inherits the modes of the one that started it. Without this
//! module, results would depend on who launches, and on which thread runs which task.
#![expect(unsafe_code, reason = "the control register of the processor is read and written here")]

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::arch::asm;

/// The modes of Rust code: results are rounded to the nearest, denormals kept, exceptions masked.
const RUST: u32 = 0x1f80;
/// The bits that say which exceptions occurred; they select nothing.
const STATUS: u32 = 0x3f;

/// The scope in which this thread has the modes of Rust code; it ends with those of before.
#[must_use]
pub(crate) struct RustModes {
    /// The register to restore; `None` if it had these modes anyway.
    before: Option<u32>,
}

impl RustModes {
    /// Begins a scope.
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        let before = control();
        let differs = before & !STATUS != RUST;
        if differs {
            set_control(RUST);
        }
        Self { before: differs.then_some(before) }
    }
}

impl Drop for RustModes {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set_control(before);
        }
    }
}

/// Returns the register `mxcsr`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn control() -> u32 {
    let mut control = 0_u32;
    // SAFETY: the instruction writes four bytes, those of the variable; each x86-64 has it.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags));
    }
    control
}

/// Sets the register `mxcsr`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
fn set_control(control: u32) {
    // SAFETY: the instruction reads four bytes, those of the variable; each x86-64 has it. It faults on
    // bits that are reserved: the value is `RUST`, or what the register had. Code that Rust compiled
    // counts on `RUST`; the other value is what the caller of this crate runs by on its own account.
    unsafe {
        asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags));
    }
}

/// Elsewhere there is no machine code, and portable code runs as its caller does.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn control() -> u32 {
    RUST
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn set_control(_: u32) {}

/// Runs `run` in modes that flush denormals to zero and round up, and checks that it leaves them.
#[cfg(all(test, target_arch = "x86_64", not(miri)))]
pub(super) fn in_other_modes<R>(run: impl FnOnce() -> R) -> R {
    const FLUSH_AND_ROUND_UP: u32 = RUST | 1 << 15 | 1 << 6 | 2 << 13;
    set_control(FLUSH_AND_ROUND_UP);
    let result = run();
    let after = control() & !STATUS;
    set_control(RUST);
    assert_eq!(after, FLUSH_AND_ROUND_UP, "the modes of the caller are lost");
    result
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Returns half of the least normal number, computed now.
    fn denormal() -> f32 {
        // The product must not be computed later, where the modes are others again.
        black_box(black_box(f32::MIN_POSITIVE) * black_box(0.5))
    }

    #[test]
    fn a_scope_has_the_modes_of_rust_and_gives_back_those_of_before() {
        let outside = in_other_modes(denormal);
        let inside = in_other_modes(|| {
            let _modes = RustModes::begin();
            denormal()
        });
        assert_eq!((outside, inside), (0.0, f32::MIN_POSITIVE / 2.0));
        let modes = RustModes::begin();
        assert!(modes.before.is_none(), "nothing is written where nothing differs");
    }

    #[test]
    fn a_panic_gives_back_the_modes_of_before() {
        in_other_modes(|| {
            let panics = || {
                let _modes = RustModes::begin();
                panic!("as planned");
            };
            assert!(std::panic::catch_unwind(panics).is_err());
        });
    }
}
