//! Resource limits: checks that a device can run a schedule, and reports the limits that it exceeds.

pub mod cpu;
pub mod gpu;
mod live;
