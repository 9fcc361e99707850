//! all-MiniLM-L6-v2 on tvmtune: read [`ops`] for the kernels, then [`model`] for their order.

pub mod device;
pub mod model;
pub mod ops;
pub mod weights;
