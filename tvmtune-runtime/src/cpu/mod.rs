//! Launching on the CPU.
//!
//! `call` is where machine code is called (`queue` passes a promise on to it, and the tuner has
//! `jit` and `guarded`); what surrounds it decides who runs what: [`Cpu`] the instruction set, the
//! pool the threads.

pub(crate) mod arena;
pub(crate) mod call;
mod forked;
pub(crate) mod fused;
mod ids;
#[cfg(feature = "jit")]
pub(crate) mod guarded;
#[cfg(feature = "jit")]
pub(crate) mod jit;
pub(crate) mod modes;
pub(crate) mod pool;
mod queue;
mod spread;
mod task_ranges;

use crate::Isa;
pub use pool::{set_threads, threads};

/// The CPU as a queue for launches: the first argument of every kernel.
///
/// Launches run at once, and have finished when the call returns. A `Cpu` is two bytes: make one
/// where it is needed, or pass one around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    isa: Isa,
    alone: bool,
}

impl Cpu {
    /// This machine, with the greatest instruction set that it has (but not above the one named
    /// by the environment variable `TVMTUNE_ISA`: `portable`, `avx2` or `avx512`).
    pub fn new() -> Self {
        Self { isa: crate::isa::best(), alone: false }
    }

    /// As `self`, but kernels use no instruction set above `isa`; with [`Isa::Portable`], none of
    /// the tuned machine code.
    #[must_use]
    pub fn at_most(self, isa: Isa) -> Self {
        Self { isa: self.isa.min(isa), ..self }
    }

    /// As `self`, but kernels run on the calling thread only: for programs that launch on many
    /// threads of their own.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// The greatest instruction set that kernels use.
    pub fn isa(self) -> Isa {
        self.isa
    }

    /// Returns whether kernels run on the calling thread only.
    pub fn is_alone(self) -> bool {
        self.alone
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}
