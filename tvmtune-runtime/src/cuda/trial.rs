//! Device code loaded at run time, for the tuner's workers.
//!
//! In: [`Code`], and what its functions are passed, as [`Variant`] has it. Out: a [`Trial`], which
//! is loaded and launched by the same functions as the kernels that `#[autotune]` embeds, on
//! [`Buffer`]s.
#![expect(
    unsafe_code,
    reason = "memory of a device is accessed, and code launched that nobody knows"
)]

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use cudarc::driver::result;

use super::arg::DeviceArg;
use super::driver::error_name;
use super::kernel::DeviceKernel;
use super::memory::Memory;
use super::{Device, Stream, launch};
use crate::Error;
use crate::raw::cuda::{Arch, Format, Image, Variant};
use crate::raw::{Bucket, Call, Program};

/// The name of buffers in errors.
const BUFFER: &str = "a buffer";

/// Memory of a device, for all streams.
#[derive(Debug)]
pub struct Buffer {
    memory: Memory,
    n_bytes: usize,
}

impl Buffer {
    /// Memory that holds this byte everywhere.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`], if there is none.
    pub fn new(device: &Device, n_bytes: usize, byte: u8) -> Result<Self, Error> {
        let buffer = Self { memory: Memory::new(BUFFER, device.context(), n_bytes)?, n_bytes };
        buffer.fill(byte)?;
        Ok(buffer)
    }

    /// Memory with these bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`], if there is none.
    pub fn of(device: &Device, bytes: &[u8]) -> Result<Self, Error> {
        let memory = Memory::upload(BUFFER, device.context(), bytes)?;
        Ok(Self { memory, n_bytes: bytes.len() })
    }

    /// Another one with the same bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`]
    pub fn copy(&self, device: &Device) -> Result<Self, Error> {
        let copy = Self {
            memory: Memory::new(BUFFER, device.context(), self.n_bytes)?,
            n_bytes: self.n_bytes,
        };
        let (to, from) = (copy.memory.address(), self.memory.address());
        self.at_rest("cuMemcpyDtoD", || {
            // SAFETY: the context is current; both have as many bytes, and nothing uses them.
            unsafe { result::memcpy_dtod_sync(to, from, self.n_bytes) }
        })?;
        Ok(copy)
    }

    /// Puts a copy of the bytes of another one, as long, on a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`]
    pub fn copy_from(&self, other: &Self, stream: &Stream) -> Result<(), Error> {
        let (to, from) = (self.memory.address(), other.memory.address());
        let n_bytes = self.n_bytes.min(other.n_bytes);
        let current = stream.context().bind_to_thread();
        current.map_err(|it| failed("cuCtxSetCurrent", error_name(it)))?;
        // SAFETY: the context is current; both have as many bytes; what runs at the same time may see any of them, which
        // are numbers of some kind whatever they are.
        let copied = unsafe { result::memcpy_dtod_async(to, from, n_bytes, stream.cu_stream()) };
        copied.map_err(|it| failed("cuMemcpyDtoDAsync", error_name(it)))
    }

    /// Writes this byte everywhere, after all that runs on the device.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`], also that of a kernel that ran before.
    pub fn fill(&self, byte: u8) -> Result<(), Error> {
        self.at_rest("cuMemsetD8", || {
            // SAFETY: the context is current, the memory that long, and nothing uses it.
            unsafe { result::memset_d8_sync(self.memory.address(), byte, self.n_bytes) }
        })
    }

    /// Its bytes, after all that runs on the device.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`], also that of a kernel that ran before.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.n_bytes];
        self.at_rest("cuMemcpyDtoH", || {
            // SAFETY: the context is current, both are that long, and nothing uses them.
            unsafe { result::memcpy_dtoh_sync(&mut bytes, self.memory.address()) }
        })?;
        Ok(bytes)
    }

    /// Returns the size in bytes.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Does something while nothing runs on the device, before and after.
    fn at_rest(
        &self,
        call: &'static str,
        work: impl FnOnce() -> Result<(), cudarc::driver::DriverError>,
    ) -> Result<(), Error> {
        let context = self.memory.context();
        let waited = |it| failed("cuCtxSynchronize", error_name(it));
        context.synchronize().map_err(waited)?;
        work().map_err(|it| failed(call, error_name(it)))?;
        context.synchronize().map_err(waited)
    }
}

fn failed(call: &'static str, reason: &'static str) -> Error {
    Error::Cuda { kernel: BUFFER, call, reason }
}

/// Computes the numbers of a launch for given dimensions: see [`Variant::numbers`].
pub type Numbers = dyn Fn(&[i64], &mut [u64]);

thread_local! {
    /// Those of the trial that this thread loads or launches.
    static CURRENT: RefCell<Option<Rc<Numbers>>> = const { RefCell::new(None) };
}

/// The function that every trial has for its numbers, since a function can't carry anything along.
fn current_numbers(dims: &[i64], numbers: &mut [u64]) {
    let current = CURRENT.with(|it| it.borrow().clone());
    if let Some(current) = current {
        current(dims, numbers);
    }
}

/// A compiled file, as [`Image`] has it, that is not part of a program.
#[derive(Clone, Debug)]
pub struct Code {
    /// The target architecture.
    pub arch: Arch,
    /// How.
    pub format: Format,
    /// The file.
    pub bytes: Vec<u8>,
}

/// A program for a device, loaded for a stream. What describes it is never freed; its code is, and
/// what it has on the device.
pub struct Trial {
    name: &'static str,
    names: Vec<&'static str>,
    kernel: DeviceKernel,
    stream: Stream,
    numbers: Rc<Numbers>,
    /// After the kernel, which was loaded from it: fields are dropped in this order.
    _images: OwnImages,
}

/// Files that live as long as their trial: they are most of what describes it.
struct OwnImages {
    images: &'static [Image],
    files: Vec<*mut [u8]>,
}

impl OwnImages {
    fn new(code: Vec<Code>) -> Self {
        let (mut images, mut files) = (Vec::new(), Vec::new());
        for Code { arch, format, bytes } in code {
            let file = Box::into_raw(bytes.into_boxed_slice());
            // SAFETY: it was a box, and is freed after the last use of this reference: see below.
            images.push(Image { arch, format, bytes: unsafe { &*file } });
            files.push(file);
        }
        Self { images: Vec::leak(images), files }
    }
}

impl Drop for OwnImages {
    fn drop(&mut self) {
        for file in &self.files {
            // SAFETY: `new` made it of a box, and nothing else frees it. Who was told of it is the
            // kernel of the trial, which is gone, and with it the modules that were loaded from it:
            // their table knows them by this address only as long as they live.
            drop(unsafe { Box::from_raw(*file) });
        }
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Trial {
    /// Loads a variant with this code in place of its images, and these numbers, for dimensions in
    /// the ranges. `names` are those of the arguments.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the device or the code.
    pub fn load(
        stream: &Stream,
        (name, names): (&'static str, Vec<&'static str>),
        ranges: &[(usize, usize)],
        (variant, code): (Variant, Vec<Code>),
        numbers: Rc<Numbers>,
    ) -> Result<Self, Error> {
        let images = OwnImages::new(code);
        CURRENT.with(|it| it.replace(Some(numbers.clone())));
        let ranges: &'static [(usize, usize)] = Vec::leak(ranges.to_vec());
        let buckets = Box::leak(Box::new([Bucket { ranges, work: |_| [0.0; 2], variants: &[] }]));
        let variants: &'static [Variant] =
            Vec::leak(vec![Variant { images: images.images, numbers: current_numbers, ..variant }]);
        let program = Program { buckets, cuda: Box::leak(Box::new([variants])) };
        let kernel = DeviceKernel::load_alone(name, stream, Box::leak(Box::new(program)))?;
        Ok(Self { name, names, kernel, stream: stream.clone(), numbers, _images: images })
    }

    /// Puts a launch on the stream, on buffers for the parameters and then the results.
    ///
    /// This is not `unsafe`, since no caller could promise what that asks for: what the code does is
    /// what is to be found out. It reaches no memory but that of the device, and the driver stops it
    /// where it leaves what this process has there. So call it only in a process that was made to be
    /// lost, and whose word nobody takes, such as a worker.
    ///
    /// # Errors
    ///
    /// As any launch. What goes wrong in the kernel itself appears where it is waited for.
    pub fn try_out(&self, dims: &[i64], args: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        CURRENT.with(|it| it.replace(Some(self.numbers.clone())));
        let chosen = self.kernel.choose(self.name, dims)?;
        let args: Vec<DeviceArg<'_>> =
            args.iter().map(|it| DeviceArg::raw(it.memory.address())).collect();
        let (kernel, names, args) = (self.name, &self.names, &args);
        let call = Call { kernel, names, dims, args, scalars, traced: None };
        // SAFETY: none is claimed for what the code does, see above. Buffers wait for the device
        // before they are freed, and the stream is the one that the kernel was loaded for.
        unsafe { launch::run(&chosen, self.stream.cu_stream(), &call) }
    }
}
