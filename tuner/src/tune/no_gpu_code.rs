//! Code for GPUs in a build without the feature `cuda`: there is none.

use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::database::Files;
use tvmtune_plan::record::Image;
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_schedule::Schedule;

use super::code::{BuilderError, Code};

/// A builder that can't be created.
#[derive(Clone, Copy, Debug)]
pub(super) enum GpuBuilder {}

impl GpuBuilder {
    pub(super) fn new(_: GpuTarget, _: Option<&'static Nvrtc>) -> Result<Self, BuilderError> {
        Err(BuilderError::NoCuda)
    }

    pub(super) fn target(self) -> GpuTarget {
        match self {}
    }

    pub(super) fn build(self, _: &Schedule) -> Result<Code, String> {
        match self {}
    }

    pub(super) fn images(self, _: &str, _: &Schedule, _: &mut Files) -> Result<Vec<Image>, String> {
        match self {}
    }
}
