//! Plans without code for CUDA devices: the build script was compiled without the feature `cuda`.
//!
//! A launch on a device then returns an error that names the feature. It cannot be an error of the
//! build: Cargo unifies features, so that a crate that launches on CPUs only may find the feature
//! `cuda` of the runtime turned on by another one.

use std::path::Path;

use tvmtune_plan::database::Lookup;

use super::{Planned, Sources, VariantSpec};
use crate::op::Op;
use crate::plan::{Digest, PlanTarget};

/// Adds nothing: plans do not depend on schedules for GPUs.
pub(crate) fn add_to_digest(_: &mut Digest, _: &[VariantSpec<'_>], _: &Lookup) {}

/// Plans no code.
pub(crate) fn plan<'a>(
    _: &Op,
    _: &[VariantSpec<'a>],
    _: &PlanTarget,
    _: &Sources<'_>,
    _: &mut Option<&'a Path>,
) -> Planned {
    Planned::default()
}
