//! Identity of generated code: a hash of everything that a launch depends on, and of no name.
//!
//! In: vector code and its bytes. Out: an [`ArtifactId`] of the bytes, of the argument table that
//! the caller fills, and of how many tasks run. The text is part of a stored format: it changes
//! with [`VERSION`] only.

use std::fmt::Write;

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_schedule::Threads;

use crate::vector::{Count, TableEntry, VectorCode};
use crate::x86::MachineCode;

/// The first line of what is hashed.
const VERSION: &str = "cpu code, identity 2";

pub(crate) fn identify(kernel: &VectorCode, code: &MachineCode) -> ArtifactId {
    let mut parts: Vec<Vec<u8>> = vec![launch(kernel).into_bytes()];
    for (phase, bytes) in kernel.phases.iter().zip(&code.phases) {
        let counts = phase.tasks.iter().map(|(_, count)| match count {
            Count::Const(count) => count.to_string(),
            Count::Param(slot) => format!("table {}", slot.0),
        });
        let counts: Vec<String> = counts.collect();
        parts.push(format!("phase [{}], {} bytes\n", counts.join(", "), bytes.len()).into_bytes());
        parts.push(bytes.clone());
    }
    ArtifactId::of(parts.iter().map(Vec::as_slice))
}

/// Writes what the caller passes, one line each.
fn launch(kernel: &VectorCode) -> String {
    let threads = match kernel.threads {
        Threads::One => "one",
        Threads::All => "all",
    };
    let mut text = format!("{VERSION}\n{}, {threads}\n", kernel.isa.name());
    for entry in &kernel.table {
        let line = match entry {
            TableEntry::Pointer { tensor, layout: None } => format!("tensor {}", tensor.0),
            TableEntry::Pointer { tensor, layout: Some(it) } => {
                format!("tensor {} split {:?} order {:?}", tensor.0, it.splits, it.order)
            }
            TableEntry::Workspace { bytes } => format!("workspace {bytes}"),
            TableEntry::Param(value) => format!("number {value}"),
            TableEntry::Scalar(scalar, _) => format!("scalar {}", scalar.0),
        };
        // A `String` takes any text.
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "scratch {}", kernel.scratch_bytes);
    text
}
