//! No GPU: this worker was built without the feature `cuda`, and so without a driver's functions.

use super::super::protocol::{self, GpuSpec, Policy, Problem};
use super::Trouble;

/// None can be had.
pub(super) enum Gpu {}

/// Nothing can be loaded.
pub(super) enum Loaded {}

/// No memory.
#[derive(Default)]
pub(super) struct Side {}

impl Gpu {
    pub(super) fn open() -> Result<Self, Trouble> {
        let why = "this program was built without the feature `cuda` of `tvmtune-build`; \
                   turn it on, or run `cargo install cargo-tvmtune`";
        Err(Trouble::Failed(why.to_owned()))
    }

    pub(super) fn describe(&self) -> protocol::Gpu {
        match *self {}
    }

    pub(super) fn copy(&self, _: usize) -> Result<Vec<f64>, Trouble> {
        match *self {}
    }

    pub(super) fn load(&self, _: &GpuSpec, _: &[u8]) -> Result<Loaded, Trouble> {
        match *self {}
    }
}

impl Side {
    pub(super) fn prepare(&mut self, gpu: &Gpu, _: &Problem) -> Result<(), Trouble> {
        match *gpu {}
    }

    pub(super) fn evaluate(
        &mut self,
        _: &Gpu,
        _: &Problem,
        loaded: &Loaded,
        _: usize,
    ) -> Result<Vec<Vec<u8>>, Trouble> {
        match *loaded {}
    }

    pub(super) fn time(
        &mut self,
        _: &Gpu,
        _: &Problem,
        loaded: &Loaded,
        _: &Policy,
    ) -> Result<Vec<f64>, Trouble> {
        match *loaded {}
    }

    pub(super) fn compare(
        &mut self,
        gpu: &Gpu,
        _: &Problem,
        _: &[&Loaded],
        _: usize,
        _: &Policy,
    ) -> Result<Vec<Vec<f64>>, Trouble> {
        match *gpu {}
    }
}
