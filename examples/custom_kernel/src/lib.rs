//! Hand-written CUDA kernels with knobs, tuned and shipped like any other kernel.

#![forbid(unsafe_code)]

mod counts;
mod attention;

pub use attention::paged_attention;
pub use counts::histogram;
