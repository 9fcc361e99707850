//! Arguments of launches on a stream: device memory of `cudarc`.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaSlice, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop,
};

#[cfg(feature = "candle-cuda")]
use cudarc::driver::DeviceSlice;

use super::Stream;
use crate::raw::Layout;
use crate::{Constant, Element, Error, Held, Input, Output, Unfit};

/// Elements on a device. `cudarc` is told that they were used when this is dropped, after the
/// launch.
#[derive(Debug)]
pub struct Elements<'a> {
    address: u64,
    n: usize,
    context: Arc<CudaContext>,
    _used: SyncOnDrop<'a>,
}

impl<'a> Elements<'a> {
    /// Elements that are read.
    fn read<T>(slice: &'a impl DevicePtr<T>, stream: &'a Stream) -> Result<Self, Unfit> {
        let context = same_context(slice.stream(), stream)?;
        let n = slice.len();
        let (address, used) = slice.device_ptr(stream);
        Ok(Self { address, n, context, _used: used })
    }

    /// Elements of a view that goes with them.
    #[cfg(feature = "candle-cuda")]
    pub(crate) fn of_view<T>(view: CudaView<'a, T>, stream: &'a Stream) -> Result<Self, Unfit> {
        let context = same_context(DeviceSlice::stream(&view), stream)?;
        let n = view.len();
        let (address, used) = view.view_ptr(stream);
        Ok(Self { address, n, context, _used: used })
    }

    /// Elements that are written.
    pub(crate) fn write<T>(
        slice: &'a mut impl DevicePtrMut<T>,
        stream: &'a Stream,
    ) -> Result<Self, Unfit> {
        let context = same_context(slice.stream(), stream)?;
        let n = slice.len();
        let (address, used) = slice.device_ptr_mut(stream);
        Ok(Self { address, n, context, _used: used })
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.n
    }
}

/// Returns the context of a slice's stream, which must be that of the stream of the launch: it could
/// not wait for the slice elsewhere.
pub(crate) fn same_context(own: &Stream, stream: &Stream) -> Result<Arc<CudaContext>, Unfit> {
    let context = own.context();
    if context == stream.context() { Ok(context.clone()) } else { Err(Unfit::OtherContext) }
}

/// A weight argument.
pub struct DeviceWeight<'a, T: Element> {
    held: Held<'a, T, Stream>,
    shape: &'a [usize],
}

impl<'a, T: Element> DeviceWeight<'a, T> {
    pub(super) fn new(held: Held<'a, T, Stream>, shape: &'a [usize]) -> Self {
        Self { held, shape }
    }
}

/// A tensor of any type.
pub struct DeviceArg<'a> {
    place: Place<'a>,
}

enum Place<'a> {
    /// An address that the caller vouches for.
    Raw(u64),
    Elements(&'a Elements<'a>),
    #[cfg(feature = "candle-cuda")]
    Owned(Elements<'a>),
    Weight(&'a dyn Upload),
}

/// A tensor that can be copied to a device.
trait Upload {
    fn upload(
        &self,
        kernel: &'static str,
        context: &Arc<CudaContext>,
        layout: Option<&'static Layout>,
    ) -> Result<u64, Error>;
}

/// A weight in host memory, with a checked shape.
impl<T: Element> Upload for DeviceWeight<'_, T> {
    fn upload(
        &self,
        kernel: &'static str,
        context: &Arc<CudaContext>,
        layout: Option<&'static Layout>,
    ) -> Result<u64, Error> {
        match &self.held {
            Held::Weight(weight) => {
                weight.on_devices().address(kernel, context, layout, (weight, self.shape))
            }
            Held::Elements(elements) => Ok(elements.address),
        }
    }
}

impl<'a> AsRef<DeviceArg<'a>> for DeviceArg<'a> {
    fn as_ref(&self) -> &DeviceArg<'a> {
        self
    }
}

impl<'a> DeviceArg<'a> {
    /// An address on the device.
    pub fn raw(address: u64) -> Self {
        Self { place: Place::Raw(address) }
    }

    pub(super) fn elements(elements: &'a Elements<'_>) -> Self {
        Self { place: Place::Elements(elements) }
    }

    /// Elements that are told to `cudarc` when the argument is dropped.
    #[cfg(feature = "candle-cuda")]
    pub(crate) fn owned(elements: Elements<'a>) -> Self {
        Self { place: Place::Owned(elements) }
    }

    pub(super) fn weight<T: Element>(weight: &'a DeviceWeight<'_, T>) -> Self {
        match &weight.held {
            Held::Weight(_) => Self { place: Place::Weight(weight) },
            Held::Elements(elements) => Self::elements(elements),
        }
    }

    /// Returns the address of the elements in a layout.
    pub(super) fn address(
        &self,
        (kernel, arg): (&'static str, &'static str),
        context: &Arc<CudaContext>,
        layout: Option<&'static Layout>,
    ) -> Result<u64, Error> {
        let elements = match &self.place {
            Place::Weight(weight) => return weight.upload(kernel, context, layout),
            _ if layout.is_some() => return Err(Error::Unpacked { kernel, arg }),
            Place::Raw(address) => return Ok(*address),
            Place::Elements(elements) => elements,
            #[cfg(feature = "candle-cuda")]
            Place::Owned(elements) => elements,
        };
        let is_here = elements.context == *context;
        if is_here { Ok(elements.address) } else { Err(Error::OtherContext { kernel, arg }) }
    }
}

macro_rules! readable {
    ($($container:ty)*) => {
        $(impl<T: Element> Input<T, Stream> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn elements<'a>(&'a self, stream: &'a Stream) -> Result<Elements<'a>, Unfit> {
                Elements::read(self, stream)
            }
        }

        impl<T: Element> Constant<T, Stream> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn held<'a>(&'a self, stream: &'a Stream) -> Result<Held<'a, T, Stream>, Unfit> {
                Elements::read(self, stream).map(Held::Elements)
            }
        })*
    };
}

readable! { CudaSlice<T> CudaView<'_, T> CudaViewMut<'_, T> }

macro_rules! writable {
    ($($container:ty)*) => {
        $(impl<T: Element> Output<T, Stream> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn elements_mut<'a>(&'a mut self, stream: &'a Stream) -> Result<Elements<'a>, Unfit> {
                Elements::write(self, stream)
            }
        })*
    };
}

writable! { CudaSlice<T> CudaViewMut<'_, T> }
