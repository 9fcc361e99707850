//! Operators as people write them, at sizes that networks have, by family. Nobody tuned for them: they show
//! what the default schedules are worth.
//!
//! `operators.py` has each of them in PyTorch. `reference.py` writes what they give at small sizes to
//! `references.json`, which the test `coverage::` compares with the programs here; `times.py` times both.

pub mod attention;
pub mod convolutions;
pub mod indices;
pub mod layout;
pub mod lookups;
pub mod losses;
pub mod norms;
pub mod pointwise;
pub mod pools;
pub mod products;
pub mod ragged;
pub mod reductions;
pub mod scatters;
pub mod scans;
pub mod transposed;
pub mod types;
