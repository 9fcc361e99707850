//! Owned device memory: workspaces, and copies of weights.
#![expect(unsafe_code, reason = "memory of a device is allocated and freed here")]

use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, result};

use super::driver::error_name;
use crate::raw::Layout;
use crate::{Element, Error};

/// Some bytes of a device's memory, at a multiple of 256.
#[derive(Debug)]
pub(super) struct Memory {
    context: Arc<CudaContext>,
    address: u64,
}

impl Memory {
    /// Uninitialized memory; at least a byte.
    pub(super) fn new(
        kernel: &'static str,
        context: &Arc<CudaContext>,
        n_bytes: usize,
    ) -> Result<Self, Error> {
        let failed = |error| Error::Cuda { kernel, call: "cuMemAlloc", reason: error_name(error) };
        context.bind_to_thread().map_err(failed)?;
        // SAFETY: the context is current. What is allocated is written before it is read: by the
        // kernel that it is for, or by `upload`.
        let address = unsafe { result::malloc_sync(n_bytes.max(1)) }.map_err(failed)?;
        Ok(Self { context: context.clone(), address })
    }

    /// Memory with these elements, for all streams: it waits until they are there.
    pub(super) fn upload<T: Element>(
        kernel: &'static str,
        context: &Arc<CudaContext>,
        elements: &[T],
    ) -> Result<Self, Error> {
        let memory = Self::new(kernel, context, size_of_val(elements))?;
        let failed =
            |error| Error::Cuda { kernel, call: "cuMemcpyHtoD", reason: error_name(error) };
        // SAFETY: the context is current, by `new`; the memory has as many bytes, and nobody else
        // knows it yet.
        unsafe { result::memcpy_htod_sync(memory.address, elements) }.map_err(failed)?;
        // The copy may still be on its way when the call returns; streams do not wait for it.
        context.synchronize().map_err(failed)?;
        Ok(memory)
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    #[cfg(feature = "jit")]
    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Kernels that use it may still run. If the context is broken, so are they.
        if self.context.bind_to_thread().is_ok() && self.context.synchronize().is_ok() {
            // SAFETY: allocated by `new` in this context, and nothing that runs uses it.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Copies of a weight on devices: a list that only grows, so that readers need no lock.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    first: OnceLock<Box<Copy>>,
}

#[derive(Debug)]
struct Copy {
    layout: Option<&'static Layout>,
    shape: Vec<usize>,
    memory: Memory,
    next: OnceLock<Box<Copy>>,
}

impl Copies {
    /// The address of the copy in a context and a layout, made from these elements, row-major, if
    /// there is none yet.
    pub(super) fn address<T: Element>(
        &self,
        kernel: &'static str,
        context: &Arc<CudaContext>,
        layout: Option<&'static Layout>,
        (elements, shape): (&[T], &[usize]),
    ) -> Result<u64, Error> {
        let is =
            |it: &Copy| it.memory.context == *context && it.layout == layout && it.shape == shape;
        let mut place = &self.first;
        while let Some(copy) = place.get() {
            if is(copy) {
                return Ok(copy.memory.address);
            }
            place = &copy.next;
        }
        let memory = match layout {
            None => Memory::upload(kernel, context, elements)?,
            Some(layout) => {
                let mut packed = vec![T::default(); layout.stored_shape(shape).iter().product()];
                layout.pack(elements, shape, &mut packed);
                Memory::upload(kernel, context, &packed)?
            }
        };
        let mut new =
            Box::new(Copy { layout, shape: shape.to_vec(), memory, next: OnceLock::new() });
        loop {
            // Another thread may have been faster; if it made the same copy, that one is used.
            match place.set(new) {
                Ok(()) => {}
                Err(ours) => {
                    new = ours;
                    let theirs = place.get().expect("`set` fails only where something is");
                    if !is(theirs) {
                        place = &theirs.next;
                        continue;
                    }
                }
            }
            return Ok(place.get().expect("it was set").memory.address);
        }
    }
}
