//! Kernels that NVRTC compiled, run and judged.

mod common;
mod faults;
mod matrices;
mod simt;
