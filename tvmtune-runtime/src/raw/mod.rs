//! What the code that `#[autotune]` generates is made of, and what the tuner's worker launches by.
//!
//! Not for users: anything in here may change in any release. Generated code and this crate
//! always have the same version, as the macro is a dependency of this crate.

#[cfg(feature = "cpu")]
mod arg;
#[cfg(feature = "cpu")]
mod backend;
mod check;
pub mod cuda;
#[cfg(feature = "cpu")]
mod kernel;
mod layout;

pub use check::{disjoint, fit, infer, len, pointer, range};
pub use layout::Layout;

#[cfg(feature = "cpu")]
pub use crate::cpu::call::{Entry, Launch, launch, slice, slice_mut};
#[cfg(feature = "jit")]
pub use crate::cpu::{guarded::Guarded, jit::Code};
#[cfg(feature = "cpu")]
pub use arg::{Arg, Scalar, WeightArg};
#[cfg(feature = "cpu")]
pub use backend::{Backend, Call, Program};
#[cfg(feature = "cpu")]
pub use kernel::{Bucket, Kernel, portable};

#[cfg(feature = "cuda")]
pub use crate::cuda::{arg::DeviceArg, launch::run_raw};

/// How many threads a kernel may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The caller's only.
    One,
    /// All of the pool.
    All,
}

/// What goes into one 8-byte entry of a kernel's argument table.
#[derive(Clone, Copy, Debug)]
pub enum TableEntry {
    /// The address of that argument: parameters, then results. With a layout, of a packed weight.
    Pointer(usize, Option<&'static Layout>),
    /// The address of memory for a temporary.
    Shared,
    /// A number that follows from the dimensions.
    Param,
    /// That scalar.
    Scalar(usize),
}

/// Machine code of one kernel for one bucket and instruction set.
#[cfg(feature = "cpu")]
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What it may execute.
    pub isa: crate::Isa,
    /// How many threads may take tasks.
    pub threads: Threads,
    /// The phases.
    pub entries: &'static [Entry],
    /// What to pass.
    pub table: &'static [TableEntry],
    /// Writes, for given dimensions: for each entry of the table the value of a `Param` or the
    /// bytes of a `Shared`; then the number of tasks of each phase; then the bytes of scratch.
    pub numbers: fn(&[i64], &mut [u64]),
    /// How the code was found.
    pub tier: crate::Tier,
    /// The time of one launch when it was measured, in ns.
    pub median_ns: Option<f64>,
    /// SHA-256 of the code, in hex.
    pub artifact: &'static str,
}
