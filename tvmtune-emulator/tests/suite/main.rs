//! Kernels that NVRTC compiled, run and judged.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what tests call is part of a test")]

mod arithmetic;
mod common;
mod copies;
mod costs;
mod faults;
mod hopper;
mod matrices;
mod products;
mod simt;
