//! Tensors of candle that launches write.

use candle_core::op::BackpropOp;
#[cfg(feature = "candle-cuda")]
use candle_core::{CudaDevice, CudaStorage};
use candle_core::{Device, Shape, Storage, Tensor};
#[cfg(feature = "candle-cuda")]
use cudarc::driver::CudaSlice;

#[cfg(feature = "candle-cuda")]
use super::cuda::{Stream, same_context};
use super::{TensorElement, kind};
use crate::{DeviceKind, Error, Output, Unfit};

/// Memory for a result, which becomes a tensor once it is written.
///
/// Tensors of candle are shared, so none can be written; this one nobody else has yet. What one launch
/// wrote, later ones may replace, as the argument of an `InOut` parameter.
#[derive(Debug)]
pub struct NewTensor<T> {
    shape: Shape,
    memory: Memory<T>,
}

#[derive(Debug)]
enum Memory<T> {
    Cpu(Vec<T>),
    #[cfg(feature = "candle-cuda")]
    Cuda(CudaSlice<T>, CudaDevice),
}

impl<T: TensorElement> NewTensor<T> {
    /// Zeros on a device, until a launch writes them.
    ///
    /// # Errors
    ///
    /// If no kernel can be launched on such a device, or it has no room.
    pub fn zeros(shape: impl Into<Shape>, device: &Device) -> candle_core::Result<Self> {
        let shape = shape.into();
        let n_elements = shape.elem_count();
        let memory = match device {
            Device::Cpu => Memory::Cpu(vec![T::default(); n_elements]),
            #[cfg(feature = "candle-cuda")]
            Device::Cuda(device) => Memory::Cuda(device.alloc_zeros(n_elements)?, device.clone()),
            _ => {
                let kernel = "NewTensor::zeros";
                return Err(Error::NoQueue { kernel, device: kind(device) }.into());
            }
        };
        Ok(Self { shape, memory })
    }

    /// The tensor, without a copy. It has no history: gradients end here.
    pub fn into_tensor(self) -> Tensor {
        let (storage, shape) = self.into_storage();
        Tensor::from_storage(storage, shape, BackpropOp::none(), false)
    }

    /// Returns storage and shape, as custom operations of candle do.
    pub fn into_storage(self) -> (Storage, Shape) {
        let storage = match self.memory {
            Memory::Cpu(elements) => Storage::Cpu(T::to_cpu_storage_owned(elements)),
            #[cfg(feature = "candle-cuda")]
            Memory::Cuda(slice, device) => {
                Storage::Cuda(CudaStorage::wrap_cuda_slice(slice, device))
            }
        };
        (storage, self.shape)
    }
}

/// The elements of a result on their way into a launch.
pub enum ElementsMut<'a, T> {
    Cpu(&'a mut [T]),
    /// On a device, with the stream of the launch.
    #[cfg(feature = "candle-cuda")]
    Cuda(&'a mut CudaSlice<T>, Stream),
}

impl<T: TensorElement> Output<T, Device> for NewTensor<T> {
    fn n_elements(&self) -> usize {
        match &self.memory {
            Memory::Cpu(elements) => elements.len(),
            #[cfg(feature = "candle-cuda")]
            Memory::Cuda(slice, _) => slice.len(),
        }
    }

    fn elements_mut<'a>(&'a mut self, device: &'a Device) -> Result<ElementsMut<'a, T>, Unfit> {
        let (has, wants) = (self.kind(), kind(device));
        match (&mut self.memory, device) {
            (Memory::Cpu(elements), Device::Cpu) => Ok(ElementsMut::Cpu(elements)),
            #[cfg(feature = "candle-cuda")]
            (Memory::Cuda(slice, _), Device::Cuda(device)) => {
                let stream = device.cuda_stream();
                same_context(slice.stream(), &stream)?;
                Ok(ElementsMut::Cuda(slice, stream))
            }
            _ => Err(Unfit::OtherDevice { has, wants }),
        }
    }
}

impl<T> NewTensor<T> {
    fn kind(&self) -> DeviceKind {
        match &self.memory {
            Memory::Cpu(_) => DeviceKind::Cpu,
            #[cfg(feature = "candle-cuda")]
            Memory::Cuda(..) => DeviceKind::Cuda,
        }
    }
}
