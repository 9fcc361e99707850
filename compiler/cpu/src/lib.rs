//! Steps 5 and 6 of 12, for CPUs: loop nests to vector code, machine code and portable Rust.
//!
//! ```text
//! nest -> [vector -> x86], nest -> [rust]
//! ```
//!
//! In: a [`Schedule`]. Out: [`Generated`], everything from its loops to its machine code, under one
//! [`ArtifactId`]; and the text of safe [Rust](rust), for other machines. Next: a
//! worker measures the bytes.
//!
//! # Invariants
//!
//! - Pure: the same schedule gives the same bytes.
//! - The schedule decides loops, tiling and placement; code generation makes no search decision.

#![forbid(unsafe_code)]

pub mod vector; // 5 vector code
pub mod x86; // 6 machine code
pub mod rust; // 6 portable Rust
mod identity; // a hash of what runs
pub mod interp; // interprets vector code lane by lane

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::Schedule;
use tvmtune_schedule::nest::{self, Nest};

use vector::{Unsupported, VectorCode};
use x86::MachineCode;

/// Code of a schedule for one instruction set.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Its loops.
    pub nest: Nest,
    /// Its vector code.
    pub kernel: VectorCode,
    /// Its bytes.
    pub code: MachineCode,
    /// Its identity.
    pub artifact: ArtifactId,
}

/// Generates machine code for a schedule.
///
/// # Errors
///
/// If the program, or this schedule of it, is left to portable code.
pub fn generate(schedule: &Schedule, isa: Isa) -> Result<Generated, Unsupported> {
    if schedule.dag.reference().is_some() {
        return Err(Unsupported::Reference);
    }
    let nest = nest::lower_for_lanes(schedule);
    let kernel = vector::lower(&nest, isa)?;
    let code = x86::assemble(&kernel);
    let artifact = identity::identify(&kernel, &code);
    Ok(Generated { nest, kernel, code, artifact })
}

impl Generated {
    /// Returns the identity that releases before 0.2 recorded: of the kernel's text, with its names,
    /// and of its bytes.
    pub fn former_artifact(&self) -> ArtifactId {
        let text = self.kernel.to_string();
        let phases = &self.code.phases;
        let lengths: Vec<[u8; 8]> =
            phases.iter().map(|it| (it.len() as u64).to_le_bytes()).collect();
        let phases = lengths.iter().zip(phases);
        let parts = phases.flat_map(|(length, phase)| [length.as_slice(), phase.as_slice()]);
        ArtifactId::of([text.as_bytes()].into_iter().chain(parts))
    }
}
