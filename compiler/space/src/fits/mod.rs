//! Whether a device can run what a schedule became, and if not, why.

pub mod cpu;
pub mod gpu;
mod live;
