//! Step 11 of 12: expands `#[autotune]`.
