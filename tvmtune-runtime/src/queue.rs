//! Queues, on which kernels are launched.

use crate::Element;
use crate::raw::Backend;

/// The first argument of every kernel: [`Cpu`](crate::Cpu), or, with the feature `cuda`, a stream
/// of a CUDA device (`cuda::Stream`), or, with the feature `candle`, a device of candle. All tensors
/// are in memory of the same device.
#[diagnostic::on_unimplemented(
    message = "kernels cannot be launched on `{Self}`",
    label = "expected a `tvmtune_runtime::Cpu`, or with the feature `cuda` an `Arc<CudaStream>`"
)]
pub trait Queue: Backend {}

/// The argument of a weight.
pub enum Held<'a, T: Element, Q: Queue> {
    /// A weight that remembers its copies, in other layouts and on devices.
    Weight(&'a crate::Weight<T>),
    /// Elements, row-major, that are there for one launch.
    Elements(Q::Elements<'a, T>),
}

impl<T: Element, Q: Queue> Held<'_, T, Q> {
    /// Returns the number of elements.
    pub fn n_elements(&self) -> usize {
        match self {
            Held::Weight(weight) => weight.len(),
            Held::Elements(elements) => Q::n_read::<T>(elements),
        }
    }
}
