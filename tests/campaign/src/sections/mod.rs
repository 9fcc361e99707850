//! All sections, a file each.

mod files;
mod mishaps;
mod mutants;
mod programs;
mod ptx;
mod records;
mod schedules;

use crate::section::Section;
use crate::system;

/// The sections, in the order in which a campaign runs them.
pub const ALL: &[&dyn Section] = &[
    &programs::Programs,
    &mutants::Mutants,
    &schedules::Schedules,
    &records::Records,
    &files::OtherFiles,
    &ptx::Ptx,
    &system::launches::Launches,
    &system::doctored::Doctored,
    &system::clocks::Clocks,
    &system::disks::Disks,
    &system::limits::Limits,
    &system::kills::Kills,
    &system::neighbors::Neighbors,
    &system::builds::Builds,
];

/// A section that is found by its name only.
pub const MISHAPS: &dyn Section = &mishaps::Mishaps;
