//! Step 6 of 12: a kernel as bytes, a nest as portable Rust, and both as what a crate embeds.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> kernel -> [codegen] -> compile -> measure -> ...
//! ```
//!
//! In: a [`Schedule`], what to run and how. Out: [`Generated`], everything from its loops to its
//! machine code, under one [`ArtifactId`]. Next: a worker measures the bytes.

pub mod cuda;
pub mod embed;
pub mod rust;
pub mod x86;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::grid::{self, Grid, Unplaceable};
use crate::kernel::{self, Isa, Kernel, Unsupported};
use crate::nest::{self, Nest};
use crate::schedule::Schedule;
use x86::MachineCode;

/// The identity of generated code: the SHA-256 of the kernel's text and bytes, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArtifactId(pub String);

/// A schedule, generated for one instruction set.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Its loops.
    pub nest: Nest,
    /// Its vector code.
    pub kernel: Kernel,
    /// Its bytes.
    pub code: MachineCode,
    /// Its identity.
    pub artifact: ArtifactId,
}

/// Walks from a schedule to machine code.
///
/// # Errors
///
/// If the program, or this schedule of it, is left to portable code.
pub fn generate(schedule: &Schedule, isa: Isa) -> Result<Generated, Unsupported> {
    let nest = nest::lower(schedule);
    let kernel = kernel::lower(&nest, isa)?;
    let code = x86::assemble(&kernel);
    let artifact = artifact(&kernel, &code);
    Ok(Generated { nest, kernel, code, artifact })
}

/// A schedule, generated for GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedCuda {
    /// Its loops.
    pub nest: Nest,
    /// Its blocks and threads.
    pub grid: Grid,
    /// Its text.
    pub unit: cuda::Unit,
    /// Its identity.
    pub artifact: ArtifactId,
}

/// Walks from a schedule to CUDA C++.
///
/// # Errors
///
/// If this schedule asks for what no GPU does.
pub fn generate_cuda(schedule: &Schedule) -> Result<GeneratedCuda, Unplaceable> {
    let nest = nest::lower(schedule);
    let grid = grid::place(&nest)?;
    let unit = cuda::print(&grid);
    let artifact = ArtifactId::of([unit.source.as_bytes()]);
    Ok(GeneratedCuda { nest, grid, unit, artifact })
}

fn artifact(kernel: &Kernel, code: &MachineCode) -> ArtifactId {
    let text = kernel.to_string();
    let lengths: Vec<[u8; 8]> =
        code.phases.iter().map(|it| (it.len() as u64).to_le_bytes()).collect();
    let phases = lengths.iter().zip(&code.phases);
    let parts = phases.flat_map(|(length, phase)| [length.as_slice(), phase.as_slice()]);
    ArtifactId::of([text.as_bytes()].into_iter().chain(parts))
}

impl ArtifactId {
    /// The identity of what these parts make together.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        Self(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
