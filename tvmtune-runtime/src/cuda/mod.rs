//! Launching on CUDA devices, and compiling for them.
//!
//! Neither needs anything of CUDA where this crate is built: NVRTC and the driver are loaded when
//! they are asked for, and where they are missing, that is an error value.

#[cfg(feature = "nvrtc")]
pub mod nvrtc;
