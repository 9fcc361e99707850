//! Plans without code for CUDA devices: the build script was compiled without the feature `cuda`.
//!
//! In: the same as with it. Out: a line in the plan of each op that would have code for GPUs, so
//! that the macro says what to do where that code is asked for.

use std::path::Path;

use tvmtune_ir::target::GpuTarget;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_plan::database::Lookup;
use tvmtune_plan::embed;

use super::{Compiler, Planned, Sources, VariantSpec};
use crate::op::Op;
use crate::plan::Digest;

/// Adds all that the plan of the variant_specs follows from to a digest.
pub(crate) fn add_to_digest(
    digest: &mut Digest,
    variant_specs: &[VariantSpec<'_>],
    _: &Lookup,
    _: Option<&Compiler>,
) {
    variant_specs.iter().for_each(|it| digest.add(&format!("left out {}", it.arch())));
}

/// Says which architectures were left out.
pub(crate) fn plan<'a>(
    _: &Op,
    variant_specs: &[VariantSpec<'a>],
    _: Option<GpuTarget>,
    _: &Sources<'_>,
    _: &mut Option<&'a Path>,
) -> Planned {
    let mut archs: Vec<Arch> = variant_specs.iter().map(VariantSpec::arch).collect();
    archs.sort_unstable();
    archs.dedup();
    let text = if archs.is_empty() { String::new() } else { embed::left_out(&archs) };
    Planned { text, ..Planned::default() }
}
