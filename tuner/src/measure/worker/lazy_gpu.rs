//! The GPU of a worker, opened when the first request needs it.

use super::error::WorkerError;
use super::gpu::Gpu;

/// The first GPU, once it was opened.
#[derive(Default)]
pub(super) struct LazyGpu(Option<Gpu>);

impl LazyGpu {
    /// Returns the GPU; opens it first if necessary.
    pub(super) fn get(&mut self) -> Result<&Gpu, WorkerError> {
        Ok(match &mut self.0 {
            Some(gpu) => gpu,
            none => none.insert(Gpu::open()?),
        })
    }
}
