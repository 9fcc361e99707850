//! Step 12 of 12: launches kernels.
