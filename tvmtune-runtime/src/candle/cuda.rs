//! Candle's CUDA devices as launches take them: slices, through candle's public storage, and
//! streams.

use std::ops::Range;

use candle_core::{CudaStorage, Result};
use cudarc::driver::CudaSlice;

use super::TensorElement;
use crate::Unfit;
use crate::cuda::arg::Elements;

pub(super) use crate::cuda::Stream;
pub(super) use crate::cuda::arg::{DeviceArg, same_context};
pub(super) use crate::cuda::launch::run;

/// The stream of a launch, and how candle gives the elements of a storage, of a type that is known
/// only where they are taken.
pub(super) struct OnStream<T> {
    stream: Stream,
    slice: fn(&CudaStorage) -> Result<&CudaSlice<T>>,
}

impl<T: TensorElement> OnStream<T> {
    /// For a slice in the context of the stream.
    pub(super) fn new(stream: Stream, slice: &CudaSlice<T>) -> std::result::Result<Self, Unfit> {
        same_context(slice.stream(), &stream)?;
        Ok(Self { stream, slice: T::as_cuda_slice })
    }
}

impl<T> OnStream<T> {
    pub(super) fn elements<'a>(
        &'a self,
        storage: &'a CudaStorage,
        range: Range<usize>,
    ) -> Option<Elements<'a>> {
        let view = (self.slice)(storage).ok()?.try_slice(range)?;
        Elements::of_view(view, &self.stream).ok()
    }
}

pub(super) fn written<'a, T>(slice: &'a mut CudaSlice<T>, stream: &'a Stream) -> DeviceArg<'a> {
    // Address 0 is refused, but `same_context` was asked before.
    Elements::write(slice, stream).map_or(DeviceArg::raw(0), DeviceArg::owned)
}
