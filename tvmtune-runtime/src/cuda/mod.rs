//! Launching on CUDA devices, and compiling for them.
//!
//! Neither needs anything of CUDA where this crate is built: NVRTC and the driver are loaded when
//! they are asked for, and where they are missing, that is an error value.
//!
#![cfg_attr(all(feature = "cuda", feature = "macros"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "cuda", feature = "macros")), doc = "```ignore")]
//! use tvmtune_runtime::cuda::Device;
//! use tvmtune_runtime::{Weight, autotune};
//!
//! #[autotune(dims(M = 1..=512, N = 96, K = 32))]
//! pub fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
//!     compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open(0)?; // an error where there is no driver
//! let stream = device.stream()?;
//! let x = stream.clone_htod(&vec![0.5_f32; 16 * 32])?;
//! let mut y = stream.alloc_zeros::<f32>(16 * 96)?;
//! let w = Weight::new(vec![0.25; 96 * 32]); // brought to the device once
//!
//! linear(&stream, &x, &w, &mut y)?;
//!
//! // Or, to launch without a look-up, and into CUDA graphs: nothing is allocated after this.
//! let kernel = linear::load(&stream)?;
//! kernel.prepare(&w)?;
//! kernel.launch(&stream, linear::Dims { m: 16 }, &x, &w, &mut y)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Streams and contexts
//!
//! Kernels work in the primary context of a device, which other libraries share. A launch puts the
//! kernel on the stream and returns; errors of the kernel itself appear where the stream is
//! waited for. A kernel with temporaries keeps memory for them on the stream that it was loaded
//! for, since two launches on two streams may run at the same time.
//!
//! With `TVMTUNE_TRACE` set, each launch is waited for, so that its time is that of the kernel alone; one
//! that is captured into a graph is written without a time.
//!
//! # Graphs
//!
//! A launch of a loaded kernel with prepared weights allocates nothing and waits for nothing, so
//! it can be captured: [`Batch`] does, and `examples/minilm` is how a model is run. Keep the
//! [`Kernel`](crate::autotune), the weights and the slices for as long as the graph is in use.
//! With more than one stream, `cudarc` records events for every slice, which graphs
//! cannot wait for: launch on the one that every thread has, `CudaContext::per_thread_stream`, and
//! create no other, or call `CudaContext::disable_event_tracking` before slices are allocated, as
//! its documentation says.

#[cfg(feature = "cuda")]
pub(crate) mod arg;
#[cfg(feature = "cuda")]
mod device;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod kernel;
#[cfg(feature = "cuda")]
pub(crate) mod launch;
#[cfg(feature = "cuda")]
mod memory;
#[cfg(feature = "cuda")]
mod module;
#[cfg(feature = "nvrtc")]
pub mod nvrtc;
#[cfg(feature = "cuda")]
mod queue;
#[cfg(feature = "cuda")]
mod timer;
#[cfg(all(feature = "cuda", feature = "jit"))]
mod trial;

pub use crate::raw::cuda::Arch;
#[cfg(feature = "cuda")]
pub use cudarc;
#[cfg(feature = "cuda")]
pub use device::Device;
#[cfg(feature = "cuda")]
pub(crate) use memory::Copies;
#[cfg(feature = "cuda")]
pub use timer::{Batch, Timer};
#[cfg(all(feature = "cuda", feature = "jit"))]
pub use trial::{Buffer, Code, Numbers, Trial};

/// A stream of a CUDA device: the first argument of kernels that are launched there.
#[cfg(feature = "cuda")]
pub type Stream = std::sync::Arc<cudarc::driver::CudaStream>;

/// Text of the system about a library that can't be loaded, or of what is not in it: the error itself
/// says only that much.
#[cfg(any(feature = "cuda", feature = "nvrtc"))]
fn refusal(name: &str, error: &libloading::Error) -> String {
    use std::error::Error;
    let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    // Most systems name it.
    if said.contains(name) { said } else { format!("{name}: {said}") }
}
