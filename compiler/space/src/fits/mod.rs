//! Whether a device can run what a schedule became, and if not, why.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(feature = "cuda")]
mod live;
