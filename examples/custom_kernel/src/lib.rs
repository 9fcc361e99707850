//! Hand-written CUDA kernels with knobs, tuned and shipped like any other kernel.

#![forbid(unsafe_code)]

mod attention;
mod counts;
mod rows;

pub use attention::paged_attention;
pub use counts::histogram;
pub use rows::sort_rows;
