//! Step 12 of 12: launches kernels.
//!
//! A crate that uses tvmtune depends on this one, annotates functions with `#[autotune]`, and
//! calls what that makes of them:
//!
#![cfg_attr(feature = "macros", doc = "```")]
#![cfg_attr(not(feature = "macros"), doc = "```ignore")]
//! use tvmtune_runtime::{Cpu, Weight, autotune};
//!
//! #[autotune(dims(M = 1..=512, N = 96, K = 32))]
//! pub fn linear_gelu(
//!     x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>,
//! ) -> Tensor<f32, M, N> {
//!     let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
//!     compute(|i, j| gelu(h[[i, j]]))
//! }
//!
//! # fn main() -> Result<(), tvmtune_runtime::Error> {
//! let (x, mut y) = (vec![0.5; 16 * 32], vec![0.0; 16 * 96]);
//! let w = Weight::new(vec![0.25; 96 * 32]); // packed once, at the first launch
//! let b = Weight::new(vec![0.0; 96]);
//!
//! let cpu = Cpu::new();
//! linear_gelu(&cpu, &x, &w, &b, &mut y)?; // M follows from the length of `x`
//!
//! // Or, when every microsecond counts:
//! let kernel = linear_gelu::load(&cpu)?;
//! kernel.prepare(&w, &b)?;
//! kernel.launch(&cpu, linear_gelu::Dims { m: 16 }, &x, &w, &b, &mut y)?;
//! assert!((y[0] - 3.9999).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! # What `#[autotune]` generates
//!
//! Under the function's name, a function and a module:
//!
//! - `linear_gelu(&cpu, &x, &w, &b, &mut y)` infers the dynamic dimensions, checks everything and
//!   launches.
//! - `linear_gelu::load(&cpu)` gives a `linear_gelu::Kernel`: `Clone + Send + Sync`, with
//!   `launch(&cpu, dims, ..)`, `prepare(..)` that packs weights ahead of the first launch, and
//!   `launch_raw(..)` for memory that is known by its address.
//! - `linear_gelu::Dims { m }`, the dynamic dimensions, lower-case. Programs without any have no
//!   `Dims`, and nothing that takes one.
//! - `linear_gelu::reference(dims, ..)`, the same program as portable, safe Rust.
//! - `linear_gelu::SPEC` and `linear_gelu::plan(dims)`: what it is, and what will run.
//!
//! # Arguments
//!
//! A tensor is any [`Input`]: a slice, an array, a `Vec`, a [`Weight`], row-major, of exactly the
//! declared element type and number of elements. Results are written to an [`Output`], in the
//! order in which the program returns them, after the parameters. Run-time scalars are passed by
//! value. No alignment is asked of slices.
//!
//! With the feature `cuda`, `&cpu` may be a stream of a CUDA device instead, and tensors memory of
//! that device: see the module `cuda`. A kernel that is loaded for one [`Queue`] is launched on that one.
//!
//! With the feature `candle`, it may be a `Device` of `candle_core`, and tensors its `Tensor`s, on
//! the CPU; with `candle-cuda`, also on CUDA devices: see the module `candle`.
//!
//! # Which dimensions are inferred
//!
//! A dynamic dimension follows from an argument's length if it is the only one in that argument's
//! shape that is not yet known. If all of them follow, in any order, the function takes no
//! dimensions. If one does not (in `Tensor<f32, B, S>` alone, `B * S` says neither), the function
//! takes `Dims` as its second argument.
//!
//! # Profiles
//!
//! With the environment variable `TVMTUNE_TRACE` set to the name of a file, each launch of the process is
//! written to it as an event of Chrome's trace event format, a line each, once it has ended: its kernel,
//! dimensions, code and time, its work, GFLOP/s and GB/s, and the time since the former launch of the
//! thread. `cargo tvmtune profile` sums such a file up. Launches on CUDA streams are waited for while they
//! are traced; those that are captured into graphs have no time. A file that cannot be written is one
//! line on standard error.
//!
//! # Processes and modes of arithmetic
//!
//! Kernels compute in the floating-point modes of Rust: rounding to the nearest, denormals kept, no
//! exceptions. On x86-64 a thread that has others (it flushes denormals to zero, say) has them again
//! when the launch returns, and gets the same results as everybody else.
//!
//! A process may fork: the child has threads of its own for its launches. (What another thread was
//! doing for the first time in that moment, such as packing a [`Weight`], stays undone in the child, and
//! who needs it there waits for ever: launch each kernel once before a fork, or `prepare` it.)
//!
//! # Costs
//!
//! A launch of machine code allocates nothing once the memory for temporaries has grown to what
//! the kernel needs; each thread keeps its own. It takes no lock but, for kernels that use several
//! threads, that of the thread pool, and that only if it is free: see [`set_threads`]. For profiles it
//! pays with a load and a branch, unless there is one.

#[cfg(feature = "cpu")]
mod arg;
mod element;
mod error;
mod isa;
mod plan;
#[cfg(feature = "cpu")]
mod queue;
#[cfg(feature = "cpu")]
mod trace;
#[cfg(feature = "cpu")]
mod weight;

#[cfg(feature = "cpu")]
pub mod cpu;

#[cfg(any(feature = "cuda", feature = "nvrtc"))]
pub mod cuda;

#[cfg(feature = "candle")]
pub mod candle;

pub mod math;

#[doc(hidden)]
pub mod raw;

#[cfg(feature = "cpu")]
pub use arg::{Constant, Input, Output};
#[cfg(feature = "cpu")]
pub use cpu::{Cpu, set_threads, threads};
pub use element::Element;
pub use error::{DeviceKind, Error, Unfit};
/// The types of the elements `f16` and `bf16`.
#[cfg(feature = "half")]
pub use half;
pub use isa::Isa;
pub use plan::{Effort, Numerics, PlanInfo, Search, Spec, TensorSpec, Tier};
#[cfg(feature = "cpu")]
pub use queue::{Held, Queue};
/// Turns a tensor program into a tuned kernel. See the [crate documentation](crate).
#[cfg(feature = "macros")]
pub use tvmtune_macros::autotune;
/// The attributes that go with [`macro@autotune`], imported with it.
#[cfg(feature = "macros")]
pub mod autotune {
    /// Makes a function of numbers one that programs may call.
    pub use tvmtune_macros::autotune_inline as inline;
}
#[cfg(feature = "cpu")]
pub use weight::Weight;
