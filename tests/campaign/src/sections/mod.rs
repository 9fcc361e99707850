//! All sections, a file each.

mod files;
mod mishaps;
mod mutants;
mod programs;
mod ptx;
mod records;
mod schedules;

use crate::section::Section;

/// The sections, in the order in which a campaign runs them.
pub const ALL: &[&dyn Section] = &[
    &programs::Programs,
    &mutants::Mutants,
    &schedules::Schedules,
    &records::Records,
    &files::OtherFiles,
    &ptx::Ptx,
];

/// A section that is found by its name only.
pub const MISHAPS: &dyn Section = &mishaps::Mishaps;
