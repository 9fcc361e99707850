//! The types that elements can have in tensors of candle and in programs.

use candle_core::WithDType;

use crate::Element;

/// An element type that both candle and programs have: `f32`, `f16`, `bf16`, `f64`, `u8`, `u32`,
/// `i32` or `i64`.
pub trait TensorElement: Element + WithDType + OnDevices {}

impl<T: Element + WithDType + OnDevices> TensorElement for T {}

/// Additional bounds on elements on CUDA devices.
#[cfg(feature = "candle-cuda")]
pub trait OnDevices:
    candle_core::cuda::CudaDType + cudarc::driver::DeviceRepr + cudarc::driver::ValidAsZeroBits
{
}

#[cfg(feature = "candle-cuda")]
impl<T> OnDevices for T where
    T: candle_core::cuda::CudaDType + cudarc::driver::DeviceRepr + cudarc::driver::ValidAsZeroBits
{
}

/// Additional bounds on elements on CUDA devices; none without the feature.
#[cfg(not(feature = "candle-cuda"))]
pub trait OnDevices {}

#[cfg(not(feature = "candle-cuda"))]
impl<T> OnDevices for T {}
