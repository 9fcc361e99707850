//! Step 6 of 12: a kernel as bytes, a nest as portable Rust, and both as what a crate embeds.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> kernel -> [codegen] -> compile -> measure -> ...
//! ```

pub mod embed;
pub mod rust;
pub mod x86;
