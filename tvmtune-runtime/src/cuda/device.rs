//! CUDA devices: what there is, and streams on them.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{CudaContext, DriverError};

use super::driver::{driver, error_name};
use super::{Arch, Stream};
use crate::Error;

/// A CUDA device, through its primary context: the one that other libraries use as well.
#[derive(Clone, Debug)]
pub struct Device {
    context: Arc<CudaContext>,
    arch: Arch,
    n_sms: usize,
    shared_bytes: usize,
    name: String,
}

impl Device {
    /// Returns the number of devices.
    ///
    /// # Errors
    ///
    /// [`Error::NoDriver`], or [`Error::Device`] if the driver does not work.
    pub fn count() -> Result<usize, Error> {
        driver()?;
        let n_devices = CudaContext::device_count().map_err(failed(0, "cuDeviceGetCount"))?;
        Ok(usize::try_from(n_devices).unwrap_or(0))
    }

    /// A device by its number, from 0, among those that `CUDA_VISIBLE_DEVICES` shows.
    ///
    /// # Errors
    ///
    /// [`Error::NoDriver`], or [`Error::Device`] if there is no such device, or it does not work.
    pub fn open(ordinal: usize) -> Result<Self, Error> {
        driver()?;
        let context =
            CudaContext::new(ordinal).map_err(failed(ordinal, "cuDevicePrimaryCtxRetain"))?;
        Self::of(&context)
    }

    /// The device of a context that is there already.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if it does not answer.
    pub fn of(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let failed = failed(context.ordinal(), "cuDeviceGetAttribute");
        let attribute = |it| {
            let value = context.attribute(it).map_err(&failed)?;
            Ok(usize::try_from(value).unwrap_or(0))
        };
        let arch = arch(context).map_err(&failed)?;
        Ok(Self {
            arch,
            n_sms: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            name: context.name().map_err(&failed)?,
            context: context.clone(),
        })
    }

    /// A new stream, which runs beside others.
    ///
    /// # Errors
    ///
    /// [`Error::Device`]
    pub fn stream(&self) -> Result<Stream, Error> {
        self.context.new_stream().map_err(failed(self.context.ordinal(), "cuStreamCreate"))
    }

    /// The context: `cudarc`'s, for everything that is not here.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Its architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the number of multiprocessors.
    pub fn n_sms(&self) -> usize {
        self.n_sms
    }

    /// Bytes of shared memory that a block may have.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Returns the name of the device, such as `NVIDIA H200`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The latest version of PTX that its driver compiles.
    ///
    /// # Errors
    ///
    /// None, as there is a driver where there is a device.
    pub fn ptx(&self) -> Result<(u8, u8), Error> {
        Ok(driver()?.ptx)
    }
}

fn arch(context: &CudaContext) -> Result<Arch, DriverError> {
    let (major, minor) = context.compute_capability()?;
    let small = |it: i32| u8::try_from(it).unwrap_or(0);
    Ok(Arch { major: small(major), minor: small(minor), exact: true })
}

fn failed(ordinal: usize, call: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Device { ordinal, call, reason: error_name(error) }
}
