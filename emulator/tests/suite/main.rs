//! Kernels that NVRTC compiled, run and judged.
//!
//! `tests/kernels` has the sources and what NVRTC 13.0 made of them with the options
//! `-std=c++17 -default-device -lineinfo` and `--gpu-architecture=compute_XX`. A file's name says
//! which macro was defined, without `BUG_`, and for which architecture; `fast` stands for
//! `--use_fast_math`. Folders and debugging strings were taken out.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what tests call is part of a test")]

mod arithmetic;
mod common;
mod copies;
mod costs;
mod faults;
mod hopper;
mod instructions;
mod mutants;
mod matrices;
mod products;
mod registers;
mod simt;
mod waits;
