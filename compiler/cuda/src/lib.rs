//! Steps 5 and 6 of 12, for NVIDIA GPUs: loop nests to grids of threads, and to CUDA C++.
//!
//! ```text
//! nest -> [grid -> codegen] -> text that NVRTC compiles
//! ```
//!
//! In: a [`Schedule`]. Out: [`Generated`], everything from its loops to its text, under one
//! [`ArtifactId`]. Next: NVRTC compiles it, and a worker measures the result.
//!
//! # Invariants
//!
//! - Pure: the same schedule gives the same text.
//! - Nothing here decides how a program runs: loops of the schedule say it.

#![forbid(unsafe_code)]

pub mod grid; // 5 a nest placed on blocks and threads
pub mod codegen; // 6 printed
mod identity; // a hash of what runs

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_schedule::Schedule;
use tvmtune_schedule::nest::{self, Nest};

use grid::{Grid, Unplaceable};

/// A schedule, generated for GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Its loops.
    pub nest: Nest,
    /// Its blocks and threads.
    pub grid: Grid,
    /// Its text.
    pub unit: codegen::Unit,
    /// Its identity.
    pub artifact: ArtifactId,
}

/// Walks from a schedule to CUDA C++.
///
/// # Errors
///
/// If this schedule asks for what no GPU does.
pub fn generate(schedule: &Schedule) -> Result<Generated, Unplaceable> {
    let nest = nest::lower(schedule);
    let grid = grid::place(&nest)?;
    let unit = codegen::print(&grid);
    let artifact = identity::identify(&unit);
    Ok(Generated { nest, grid, unit, artifact })
}
