//! What can be passed to a kernel on a stream: memory of the device, as `cudarc` knows it.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaSlice, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop,
};

use super::Stream;
use crate::raw::Layout;
use crate::{Constant, Element, Error, Held, Input, Output};

/// Elements on a device. `cudarc` is told that they were used when this is dropped, after the
/// launch.
#[derive(Debug)]
pub struct Elements<'a> {
    address: u64,
    context: Arc<CudaContext>,
    _used: SyncOnDrop<'a>,
}

impl Elements<'_> {
    /// Elements in another context than that of the stream, which cannot wait for them there: the
    /// launch refuses them.
    fn elsewhere(context: Arc<CudaContext>) -> Self {
        Self { address: 0, context, _used: SyncOnDrop::Record(None) }
    }
}

/// A weight on its way into a launch.
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
    Weight(&'a dyn Upload),
}

/// What can be brought to a device.
trait Upload {
    fn upload(
        &self,
        kernel: &'static str,
        context: &Arc<CudaContext>,
        layout: Option<&'static Layout>,
    ) -> Result<u64, Error>;
}

/// A weight in host memory, of a shape that was checked.
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

impl<'a> DeviceArg<'a> {
    /// An address on the device.
    pub fn raw(address: u64) -> Self {
        Self { place: Place::Raw(address) }
    }

    pub(super) fn elements(elements: &'a Elements<'_>) -> Self {
        Self { place: Place::Elements(elements) }
    }

    pub(super) fn weight<T: Element>(weight: &'a DeviceWeight<'_, T>) -> Self {
        match &weight.held {
            Held::Weight(_) => Self { place: Place::Weight(weight) },
            Held::Elements(elements) => Self::elements(elements),
        }
    }

    /// Where the elements are, in that layout.
    pub(super) fn address(
        &self,
        (kernel, arg): (&'static str, &'static str),
        context: &Arc<CudaContext>,
        layout: Option<&'static Layout>,
    ) -> Result<u64, Error> {
        let address = match &self.place {
            Place::Weight(weight) => return weight.upload(kernel, context, layout),
            Place::Raw(address) => *address,
            Place::Elements(it) if it.context == *context => it.address,
            Place::Elements(_) => return Err(Error::OtherContext { kernel, arg }),
        };
        if layout.is_some() { Err(Error::Unpacked { kernel, arg }) } else { Ok(address) }
    }
}

macro_rules! readable {
    ($($container:ty)*) => {
        $(impl<T: Element> Input<T, Stream> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn elements<'a>(&'a self, stream: &'a Stream) -> Elements<'a> {
                read(self, stream)
            }
        }

        impl<T: Element> Constant<T, Stream> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn held<'a>(&'a self, stream: &'a Stream) -> Held<'a, T, Stream> {
                Held::Elements(read(self, stream))
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

            fn elements_mut<'a>(&'a mut self, stream: &'a Stream) -> Elements<'a> {
                let context = self.stream().context().clone();
                if context != *stream.context() {
                    return Elements::elsewhere(context);
                }
                let (address, used) = self.device_ptr_mut(stream);
                Elements { address, context, _used: used }
            }
        })*
    };
}

writable! { CudaSlice<T> CudaViewMut<'_, T> }

fn read<'a, T>(slice: &'a impl DevicePtr<T>, stream: &'a Stream) -> Elements<'a> {
    let context = slice.stream().context().clone();
    if context != *stream.context() {
        return Elements::elsewhere(context);
    }
    let (address, used) = slice.device_ptr(stream);
    Elements { address, context, _used: used }
}
