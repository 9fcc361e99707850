//! Tensors of candle as arguments that are read.

use std::ops::{Deref, Range};

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, Device, Layout, Shape, Storage, StorageRef, Tensor};

#[cfg(feature = "candle-cuda")]
use super::cuda::OnStream;
use super::{TensorElement, kind};
use crate::{Constant, DeviceKind, Held, Input, Unfit};

/// A tensor as candle's custom operations get it: its storage, and how it lies there.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    memory: Memory<'a>,
    layout: &'a Layout,
}

#[derive(Clone, Copy, Debug)]
enum Memory<'a> {
    Cpu(&'a CpuStorage),
    #[cfg_attr(
        not(feature = "candle-cuda"),
        expect(dead_code, reason = "where it is suffices to refuse it")
    )]
    Cuda(&'a CudaStorage),
    Metal,
}

impl<'a> View<'a> {
    /// Makes a view of the arguments of `cpu_fwd`.
    pub fn on_cpu(storage: &'a CpuStorage, layout: &'a Layout) -> Self {
        Self { memory: Memory::Cpu(storage), layout }
    }

    /// Makes a view of the arguments of `cuda_fwd`.
    pub fn on_cuda(storage: &'a CudaStorage, layout: &'a Layout) -> Self {
        Self { memory: Memory::Cuda(storage), layout }
    }

    /// Its shape.
    pub fn shape(&self) -> &'a Shape {
        self.layout.shape()
    }

    /// Its extents.
    pub fn dims(&self) -> &'a [usize] {
        self.layout.dims()
    }
}

impl Memory<'_> {
    fn kind(&self) -> DeviceKind {
        match self {
            Memory::Cpu(_) => DeviceKind::Cpu,
            Memory::Cuda(_) => DeviceKind::Cuda,
            Memory::Metal => DeviceKind::Metal,
        }
    }
}

/// A borrow that keeps a storage from being changed or freed.
enum Borrow<'a> {
    /// The read lock of a tensor's storage.
    Tensor(StorageRef<'a>),
    View(Memory<'a>),
}

impl Borrow<'_> {
    fn memory(&self) -> Memory<'_> {
        match self {
            Borrow::View(memory) => *memory,
            Borrow::Tensor(storage) => match &**storage {
                Storage::Cpu(storage) => Memory::Cpu(storage),
                Storage::Cuda(storage) => Memory::Cuda(storage),
                Storage::Metal(_) => Memory::Metal,
            },
        }
    }
}

/// The elements of a tensor on their way into a launch: checked, and kept as they are meanwhile.
pub struct Elements<'a, T> {
    borrow: Borrow<'a>,
    range: Range<usize>,
    // Candle's conversions, of a type that is known only where the elements are taken.
    slice: fn(&CpuStorage) -> candle_core::Result<&[T]>,
    #[cfg(feature = "candle-cuda")]
    on_stream: Option<OnStream<T>>,
}

impl<'a, T: TensorElement> Elements<'a, T> {
    fn new(borrow: Borrow<'a>, layout: &Layout, device: &Device) -> Result<Self, Unfit> {
        let unfit_type = |got: candle_core::DType| Unfit::ElementType {
            want: T::DTYPE.as_str(),
            got: got.as_str(),
        };
        #[cfg(feature = "candle-cuda")]
        let mut on_stream = None;
        let n_stored = match (borrow.memory(), device) {
            (Memory::Cpu(storage), Device::Cpu) => {
                let slice = T::cpu_storage_as_slice(storage);
                slice.map_err(|_| unfit_type(storage.dtype()))?.len()
            }
            #[cfg(feature = "candle-cuda")]
            (Memory::Cuda(storage), Device::Cuda(device)) => {
                let slice = storage.as_cuda_slice::<T>();
                let slice = slice.map_err(|_| unfit_type(storage.dtype()))?;
                on_stream = Some(OnStream::new(device.cuda_stream(), slice)?);
                slice.len()
            }
            (memory, _) => {
                return Err(Unfit::OtherDevice { has: memory.kind(), wants: kind(device) });
            }
        };
        let (start, end) = layout.contiguous_offsets().ok_or(Unfit::NotContiguous)?;
        if end > n_stored {
            return Err(Unfit::OutsideStorage);
        }
        Ok(Self {
            borrow,
            range: start..end,
            slice: T::cpu_storage_as_slice,
            #[cfg(feature = "candle-cuda")]
            on_stream,
        })
    }
}

impl<T> Elements<'_, T> {
    /// Returns the number of elements.
    pub(super) fn n(&self) -> usize {
        self.range.len()
    }

    /// The elements on a device; `None` on the CPU.
    #[cfg(feature = "candle-cuda")]
    pub(super) fn on_stream(&self) -> Option<crate::cuda::arg::Elements<'_>> {
        match (self.borrow.memory(), &self.on_stream) {
            (Memory::Cuda(storage), Some(on)) => on.elements(storage, self.range.clone()),
            _ => None,
        }
    }
}

/// The elements in memory of the CPU; on a device there are none.
impl<T> Deref for Elements<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let Memory::Cpu(storage) = self.borrow.memory() else { return &[] };
        // The storage is as it was when it was checked, since it is borrowed.
        let slice = (self.slice)(storage).ok().and_then(|it| it.get(self.range.clone()));
        slice.unwrap_or(&[])
    }
}

impl<T: TensorElement> Input<T, Device> for Tensor {
    fn n_elements(&self) -> usize {
        self.elem_count()
    }

    fn elements<'a>(&'a self, device: &'a Device) -> Result<Elements<'a, T>, Unfit> {
        let (storage, layout) = self.storage_and_layout();
        Elements::new(Borrow::Tensor(storage), layout, device)
    }
}

impl<T: TensorElement> Input<T, Device> for View<'_> {
    fn n_elements(&self) -> usize {
        self.shape().elem_count()
    }

    fn elements<'a>(&'a self, device: &'a Device) -> Result<Elements<'a, T>, Unfit> {
        Elements::new(Borrow::View(self.memory), self.layout, device)
    }
}

macro_rules! constant {
    ($($tensor:ty)*) => {
        $(impl<T: TensorElement> Constant<T, Device> for $tensor {
            fn n_elements(&self) -> usize {
                Input::<T, Device>::n_elements(self)
            }

            fn held<'a>(&'a self, device: &'a Device) -> Result<Held<'a, T, Device>, Unfit> {
                Input::elements(self, device).map(Held::Elements)
            }
        })*
    };
}

constant! { Tensor View<'_> }
