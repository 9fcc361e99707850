//! Kernels that NVRTC compiled, run and judged.

mod arithmetic;
mod common;
mod faults;
mod hopper;
mod matrices;
mod simt;
