//! PTX text to a tree: functions of statements with registers, variables and branches resolved.
//!
//! The meaning of statements is the business of `decode`. Inline assembly brings nested scopes with
//! registers and labels of their own.

mod body;
mod declaration;
mod lexer;
mod module;
mod operand;
mod parser;
mod scope;
mod tree;

pub(crate) use declaration::MAX_BYTES;
pub(crate) use module::parse;
pub use tree::ParseError;
pub(crate) use tree::{
    Function, LaneMask, LineTable, Operand, Position, Result, Space, Special, Statement, Tree,
    Variable,
};
