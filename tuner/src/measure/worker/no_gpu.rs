//! No GPU: this worker was built without the feature `cuda`, and so without a driver's functions.

use super::super::protocol::{self, GpuSpec, Policy, Problem};
use super::WorkerError;

/// A GPU that does not exist.
pub(super) enum Gpu {}

/// Code that can't be loaded.
pub(super) enum LoadedCandidate {}

/// Memory that does not exist.
#[derive(Default)]
pub(super) struct Memory {}

impl Gpu {
    pub(super) fn open() -> Result<Self, WorkerError> {
        let why = "this program was built without the feature `cuda` of `tvmtune-build`; \
                   turn it on, or run `cargo install cargo-tvmtune`";
        Err(WorkerError::Failed(why.to_owned()))
    }

    pub(super) fn describe(&self) -> protocol::Gpu {
        match *self {}
    }

    pub(super) fn copy(&self, _: usize) -> Result<Vec<f64>, WorkerError> {
        match *self {}
    }

    pub(super) fn load(&self, _: &GpuSpec, _: &[u8]) -> Result<LoadedCandidate, WorkerError> {
        match *self {}
    }
}

impl Memory {
    pub(super) fn prepare(&mut self, gpu: &Gpu, _: &Problem) -> Result<(), WorkerError> {
        match *gpu {}
    }

    pub(super) fn evaluate(
        &mut self,
        _: &Gpu,
        _: &Problem,
        loaded: &LoadedCandidate,
        _: usize,
    ) -> Result<Vec<Vec<u8>>, WorkerError> {
        match *loaded {}
    }

    pub(super) fn time(
        &mut self,
        _: &Gpu,
        _: &Problem,
        loaded: &LoadedCandidate,
        _: &Policy,
    ) -> Result<Vec<f64>, WorkerError> {
        match *loaded {}
    }

    pub(super) fn compare(
        &mut self,
        gpu: &Gpu,
        _: &Problem,
        _: &[&LoadedCandidate],
        _: usize,
        _: &Policy,
    ) -> Result<Vec<Vec<f64>>, WorkerError> {
        match *gpu {}
    }
}
