//! Kernels on tensors of [candle](candle_core): on the CPU, and with the feature `candle-cuda` on
//! CUDA devices.
//!
//! A [`Device`] of candle is a [`Queue`](crate::Queue): where it is passed
//! first, tensors of it are passed by reference, and results are written to [`NewTensor`]s.
//!
#![cfg_attr(feature = "macros", doc = "```")]
#![cfg_attr(not(feature = "macros"), doc = "```ignore")]
//! use candle_core::{DType, Device, Module, Tensor};
//! use tvmtune_runtime::candle::NewTensor;
//! use tvmtune_runtime::{Weight, autotune};
//!
//! #[autotune(dims(M = 1..=512, N = 96, K = 32))]
//! pub fn linear_gelu(
//!     x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>,
//! ) -> Tensor<f32, M, N> {
//!     let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
//!     compute(|i, j| gelu(h[[i, j]]))
//! }
//!
//! struct LinearGelu {
//!     w: Weight<f32>,
//!     b: Weight<f32>,
//! }
//!
//! impl Module for LinearGelu {
//!     fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
//!         let mut y = NewTensor::zeros((x.dim(0)?, 96), x.device())?;
//!         linear_gelu(x.device(), x, &self.w, &self.b, &mut y)?;
//!         Ok(y.into_tensor())
//!     }
//! }
//!
//! # fn main() -> candle_core::Result<()> {
//! let w = Tensor::full(0.25_f32, (96, 32), &Device::Cpu)?; // from a `VarBuilder`, say
//! let b = Tensor::zeros(96, DType::F32, &Device::Cpu)?;
//! let layer = LinearGelu { w: Weight::try_from(&w)?, b: Weight::try_from(&b)? };
//! let y = layer.forward(&Tensor::full(0.5_f32, (16, 32), &Device::Cpu)?)?;
//! assert_eq!(y.dims(), [16, 96]);
//! assert!((y.to_vec2::<f32>()?[0][0] - 3.9999).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! # Arguments
//!
//! A tensor is taken where it is, never copied or moved: it has the element type that the program
//! declares, is on the device of the launch, and is contiguous. It may begin anywhere in its
//! storage, so that what `narrow` gives along the first dimension is taken as it is. What counts
//! is the number of elements, as for slices: `[B, S, K]` can be passed for `[M, K]`. Anything else
//! is an [`Error`] that says what to call.
//!
//! Weights are best passed as a [`Weight`], which packs them once; one is made of a
//! tensor, strided or not, on any device, by `Weight::try_from`, which copies. A tensor can be
//! passed for a weight, too, and is packed in each launch that wants another layout.
//!
//! # Gradients
//!
//! Results have no history: gradients end there. [`op`] makes an operation of candle's graph of a
//! call, whose backward is an error rather than silence.
//!
//! # CUDA
//!
//! Launches go to the stream of the device, and results are allocated there. Candle's default
//! device has another stream in each thread: a loaded kernel that has temporaries is launched on
//! the thread that loaded it.

#[cfg(feature = "candle-cuda")]
mod cuda;
mod element;
mod new_tensor;
mod op;
mod queue;
mod view;

pub use candle_core;
pub use element::TensorElement;
pub use new_tensor::NewTensor;
pub use op::{Op, op};
pub use view::View;

use candle_core::{Device, Tensor};

use crate::{DeviceKind, Error, Weight};

/// Copies a tensor, which may be strided and on any device, into a weight.
impl<T: TensorElement> TryFrom<&Tensor> for Weight<T> {
    type Error = candle_core::Error;

    fn try_from(tensor: &Tensor) -> candle_core::Result<Self> {
        Ok(Self::new(tensor.flatten_all()?.to_vec1::<T>()?))
    }
}

/// So that `?` takes the errors of launches where candle's are returned.
impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        Self::wrap(error)
    }
}

fn kind(device: &Device) -> DeviceKind {
    match device {
        Device::Cpu => DeviceKind::Cpu,
        Device::Cuda(_) => DeviceKind::Cuda,
        Device::Metal(_) => DeviceKind::Metal,
    }
}
