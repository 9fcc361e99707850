//! Kernels that NVRTC compiled, run and judged.

mod arithmetic;
mod common;
mod copies;
mod costs;
mod faults;
mod hopper;
mod matrices;
mod products;
mod simt;
