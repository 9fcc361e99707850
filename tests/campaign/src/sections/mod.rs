//! All sections, a file each.

mod mutants;

use crate::section::Section;
use crate::system;

/// The sections, in the order in which a campaign runs them.
pub const ALL: &[&dyn Section] = &[
    &mutants::Mutants,
    &system::launches::Launches,
    &system::doctored::Doctored,
    &system::clocks::Clocks,
    &system::disks::Disks,
    &system::limits::Limits,
    &system::kills::Kills,
    &system::neighbors::Neighbors,
    &system::builds::Builds,
];
