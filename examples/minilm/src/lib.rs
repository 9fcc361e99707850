//! all-MiniLM-L6-v2 on tvmtune: read [`ops`] for the kernels, [`model`] for their order, then
//! [`device`] for where they run.

pub mod device;
pub mod model;
pub mod ops;
pub mod weights;
