//! Resource limits: checks that a device can run a schedule, and reports the limits that it exceeds.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(feature = "cuda")]
mod live;
