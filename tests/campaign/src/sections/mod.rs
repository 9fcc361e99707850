//! All sections, a file each.

mod mutants;

use crate::section::Section;

/// The sections, in the order in which a campaign runs them.
pub const ALL: &[&dyn Section] = &[&mutants::Mutants];
