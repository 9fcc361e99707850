//! The CUDA driver, looked up before its first use, since `cudarc` panics where there is none.
#![expect(unsafe_code, reason = "functions of a C library are called here")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::DriverError;
use libloading::Library;

use crate::Error;
use crate::raw::cuda::ptx_of_driver;

/// File names of the driver's library.
const NAMES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

pub(super) struct Driver {
    /// The latest PTX that it compiles.
    pub(super) ptx: (u8, u8),
    /// `cuTensorMapEncodeTiled`, since CUDA 12.
    encode: Option<Encode>,
    /// `cuEventElapsedTime`, under the name that every driver knows.
    pub(super) elapsed: Elapsed,
    /// `cuGetErrorName`.
    name: ErrorName,
}

type ErrorName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

type Elapsed = unsafe extern "C" fn(*mut f32, *mut c_void, *mut c_void) -> c_int;

/// The type that cuda.h declares for `cuTensorMapEncodeTiled`, enumerations as integers.
type Encode = unsafe extern "C" fn(
    map: *mut c_void,
    element: u32,
    rank: u32,
    address: *mut c_void,
    extents: *const u64,
    strides: *const u64,
    box_extents: *const u32,
    element_strides: *const u32,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> c_int;

/// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`: fetches 256 bytes into L2.
const PROMOTION_256_BYTES: u32 = 3;

/// The driver, found at the first call.
pub(super) fn driver() -> Result<&'static Driver, Error> {
    static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();
    DRIVER.get_or_init(find).as_ref().map_err(|it| *it)
}

fn find() -> Result<Driver, Error> {
    let mut tried = Vec::new();
    for name in NAMES {
        // SAFETY: the driver may be loaded by any program; this is how CUDA itself does it.
        match unsafe { Library::new(*name) } {
            Ok(library) => return start(library),
            Err(error) => tried.push(super::refusal(name, &error)),
        }
    }
    static TRIED: OnceLock<String> = OnceLock::new();
    Err(Error::NoDriver { tried: TRIED.get_or_init(|| tried.join("; ")) })
}

/// Initializes it, and asks for its version.
fn start(library: Library) -> Result<Driver, Error> {
    let mut version = 0;
    // SAFETY: these are the types that cuda.h declares. The library is never unloaded, so that
    // functions stay valid: see below.
    let (result, encode, elapsed, name) = unsafe {
        let init = library.get::<unsafe extern "C" fn(u32) -> c_int>(b"cuInit\0");
        let ask = library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion\0");
        let elapsed = library.get::<Elapsed>(b"cuEventElapsedTime\0");
        let name = library.get::<ErrorName>(b"cuGetErrorName\0");
        let (Ok(init), Ok(ask), Ok(elapsed), Ok(name)) = (init, ask, elapsed, name) else {
            return Err(Error::NoDriver { tried: "a library that has no `cuInit`" });
        };
        ask(&raw mut version);
        let encode = library.get::<Encode>(b"cuTensorMapEncodeTiled\0");
        (init(0), encode.ok().map(|it| *it), *elapsed, *name)
    };
    std::mem::forget(library);
    let failed = |code| Error::Device { ordinal: 0, call: "cuInit", reason: reason(code) };
    match result {
        0 => Ok(Driver { ptx: ptx_of_driver(version), encode, elapsed, name }),
        // Its name is asked of the driver, which is there.
        code => Err(failed(code)),
    }
}

/// The name of a result, such as `CUDA_ERROR_OUT_OF_MEMORY`.
fn reason(code: c_int) -> &'static str {
    match code {
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        35 => "CUDA_ERROR_INSUFFICIENT_DRIVER",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        _ => "an error that has no short name; see `CUresult` in the manual of the driver",
    }
}

/// The name of an error of the driver.
pub(super) fn error_name(DriverError(code): DriverError) -> &'static str {
    driver().map_or(UNKNOWN, |it| it.name_of(code as c_int))
}

const UNKNOWN: &str = "unknown error";

impl Driver {
    /// The name of a result.
    fn name_of(&self, code: c_int) -> &'static str {
        let mut name = ptr::null();
        // SAFETY: as cuda.h declares it: a result, and a place for a pointer.
        unsafe { (self.name)(code, &raw mut name) };
        if name.is_null() {
            return UNKNOWN;
        }
        // SAFETY: the driver gives strings that live as long as it, and it is never unloaded.
        unsafe { CStr::from_ptr::<'static>(name) }.to_str().unwrap_or(UNKNOWN)
    }
}

/// A tensor map (TMA descriptor), passed to kernels by value.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct EncodedMap([u64; 16]);

impl EncodedMap {
    pub(super) const EMPTY: Self = Self([0; 16]);

    /// Encodes the tensor map of a tensor. `numbers` are its extents, then its strides in bytes.
    pub(super) fn encode(
        &mut self,
        map: &crate::raw::cuda::TensorMap,
        address: u64,
        numbers: &[u64],
    ) -> Result<(), &'static str> {
        let driver = driver().map_err(|_| UNKNOWN)?;
        let Some(encode) = driver.encode else { return Err("CUDA_ERROR_NOT_SUPPORTED") };
        let rank = map.box_dims.len();
        let is_short = numbers.len() < map.n_numbers() || map.element_strides.len() < rank;
        if is_short || !(1..=5).contains(&rank) {
            return Err("CUDA_ERROR_INVALID_VALUE");
        }
        let (extents, strides) = numbers.split_at(rank);
        // SAFETY: the map has the size and alignment of a `CUtensorMap`; every array has as many
        // elements as the rank says (strides: one fewer). The address is not accessed.
        let result = unsafe {
            encode(
                ptr::from_mut(self).cast(),
                map.element,
                rank as u32,
                ptr::with_exposed_provenance_mut(address as usize),
                extents.as_ptr(),
                strides.as_ptr(),
                map.box_dims.as_ptr(),
                map.element_strides.as_ptr(),
                0,
                map.swizzle,
                PROMOTION_256_BYTES,
                0,
            )
        };
        if result == 0 { Ok(()) } else { Err(driver.name_of(result)) }
    }
}
