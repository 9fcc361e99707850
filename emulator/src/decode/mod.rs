//! Decodes statements to instructions of the machine: every modifier known, every operand a row of
//! registers.
//!
//! A modifier that no decoder takes is an error, so that nothing runs by half of its semantics.

mod arith;
mod atomic;
mod bits;
mod bulk;
mod carry;
mod compare;
mod control;
mod convert;
mod cp_async;
mod dispatch;
mod float;
mod frame;
mod half;
mod link;
mod mma;
mod mbarrier;
mod memory;
mod site;
mod types;
mod warp;

pub(crate) use frame::Layout;
pub(crate) use link::{Linked, link};
