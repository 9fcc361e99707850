//! The judge: runs every stage of a program by definition, slowly, and watches for faults.
//!
//! [`dag`] evaluates a [`Dag`](crate::dag::Dag) element by element, as the user's text says. What
//! is generated is right if it computes the same, within a tolerance that the program states.
//!
//! # Invariants
//!
//! - Arithmetic rounds to the type of each operation; sums and products of floats accumulate in
//!   `f64` and round once, so that no order of summation is favored.
//! - The same inputs give the same bytes on every machine: transcendental functions are `libm`'s.

pub mod array;
pub mod dag;
pub mod element;
pub mod kernel;
pub mod nest;
pub mod number;
mod pack;

pub use array::{Array, Mismatch};
pub use element::Elements;
pub use number::Number;
pub use pack::pack;
