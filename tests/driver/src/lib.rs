//! A fake CUDA driver for tests: the functions of one that `tvmtune-runtime` calls, on the
//! emulator.
//!
//! Built as a library of C functions. A program that finds it as `libcuda.so.1` has a GPU of
//! architecture 9.0: it loads PTX and no machine code, launches kernels one after the other,
//! replays graphs, and reports a kernel with a fault as an illegal address. Its clock counts
//! launches and copied bytes.
#![expect(unsafe_code, reason = "functions that are called by their names in C, with its pointers")]

mod device;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use device::{CLOCK_KHZ, Device, ILLEGAL_ADDRESS, INVALID_PTX, INVALID_VALUE, MULTIPROCESSORS};
use device::{
    L2_BYTES, NO_BINARY_FOR_GPU, NOT_FOUND, SHARED_BYTES, STREAM_CAPTURE_UNSUPPORTED,
    TENSOR_MAP_TAG, Work, with_device,
};

/// A handle, as callers see it.
type Handle = *mut c_void;
/// The status of a function: 0 for success.
type Code = c_int;

/// The handle of the one context.
const CONTEXT: usize = 16;

/// Writes a result to the caller's memory.
fn write_result<T>(place: *mut T, value: T) -> Code {
    // SAFETY: cuda.h requires a place for a value of this type.
    unsafe { place.write(value) };
    0
}

/// Bytes of the caller.
fn bytes<'a>(start: *const c_void, n_bytes: usize) -> &'a [u8] {
    // SAFETY: cuda.h requires so many bytes; they are read during the call only.
    unsafe { std::slice::from_raw_parts(start.cast(), n_bytes) }
}

/// A text of the caller.
fn text(start: *const c_char) -> String {
    // SAFETY: cuda.h requires a text that ends in a zero.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}

/// Does what no test captures.
fn unless_capturing(work: impl FnOnce() -> Code) -> Code {
    if with_device(|it| it.is_capturing()) { STREAM_CAPTURE_UNSUPPORTED } else { work() }
}

fn handle(number: usize) -> Handle {
    std::ptr::without_provenance_mut(number)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_: c_uint) -> Code {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    // A version that accepts the PTX of every NVRTC.
    write_result(version, 99_000)
}

/// NVRTC asks a driver that it finds for tables of functions nobody documents, and goes on without.
#[unsafe(no_mangle)]
extern "C" fn cuGetExportTable(table: *mut *const c_void, _: *const c_void) -> Code {
    write_result(table, std::ptr::null()) + NOT_FOUND
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    write_result(count, 1)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    if ordinal == 0 { write_result(device, 0) } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, n_bytes: c_int, _: c_int) -> Code {
    let letters = b"the emulator\0".iter().take(n_bytes.unsigned_abs() as usize);
    // cuda.h requires so many places.
    letters.enumerate().fold(0, |_, (n, it)| write_result(name.wrapping_add(n), it.cast_signed()))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _: c_int) -> Code {
    // The numbers of `CUdevice_attribute`.
    write_result(
        value,
        match attribute {
            13 => CLOCK_KHZ,
            16 => MULTIPROCESSORS,
            38 => L2_BYTES,
            75 => 9,
            97 => SHARED_BYTES,
            _ => 0,
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, _: c_int) -> Code {
    write_result(context, handle(CONTEXT))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> Code {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(_: Handle) -> Code {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> Code {
    write_result(context, handle(CONTEXT))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    unless_capturing(|| with_device(|it| it.fault()))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, all: *mut usize) -> Code {
    write_result(free, 1 << 30) + write_result(all, 2 << 30)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: *mut u64, n_bytes: usize) -> Code {
    with_device(|it| it.allocate(n_bytes).map_or_else(|code| code, |it| write_result(address, it)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> Code {
    with_device(|it| it.free(address))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, n_bytes: usize) -> Code {
    let from = bytes(from, n_bytes);
    with_device(|it| {
        let Some(to) = it.range(to, n_bytes) else { return INVALID_VALUE };
        to.copy_from_slice(from);
        0
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    n_bytes: usize,
    _: Handle,
) -> Code {
    unless_capturing(|| cuMemcpyHtoD_v2(to, from, n_bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, n_bytes: usize, _: Handle) -> Code {
    unless_capturing(|| cuMemcpyDtoH_v2(to, from, n_bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, n_bytes: usize) -> Code {
    with_device(|it| {
        let fault = it.fault();
        let Some(from) = it.range(from, n_bytes) else { return INVALID_VALUE };
        // cuda.h requires so many places.
        let copied =
            from.iter().enumerate().fold(0, |_, (n, it)| write_result(to.wrapping_add(n), *it));
        copied + fault
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, n_bytes: usize) -> Code {
    unless_capturing(|| with_device(|it| it.enqueue(Work::Copy { to, from, n_bytes })))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, n_bytes: usize, _: Handle) -> Code {
    with_device(|it| it.enqueue(Work::Copy { to, from, n_bytes }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, byte: u8, n_bytes: usize) -> Code {
    with_device(|it| {
        let Some(to) = it.range(to, n_bytes) else { return INVALID_VALUE };
        to.fill(byte);
        0
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, byte: u8, n_bytes: usize, _: Handle) -> Code {
    unless_capturing(|| cuMemsetD8_v2(to, byte, n_bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_char) -> Code {
    let image = text(image);
    with_device(|it| {
        it.load(&image).map_or_else(|code| code, |it| write_result(module, handle(it)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuTensorMapEncodeTiled(
    map: *mut [u64; 16],
    element: c_uint,
    rank: c_uint,
    address: *const c_void,
    extents: *const u64,
    strides: *const u64,
    box_extents: *const c_uint,
    element_strides: *const c_uint,
    _: c_uint,
    swizzle: c_uint,
    _: c_uint,
    _: c_uint,
) -> Code {
    let n = rank as usize;
    if !(1..=5).contains(&n) || !address.addr().is_multiple_of(16) {
        return INVALID_VALUE;
    }
    // SAFETY: cuda.h requires as many extents as the rank says, and one stride fewer.
    let (extents, strides) = unsafe {
        (std::slice::from_raw_parts(extents, n), std::slice::from_raw_parts(strides, n - 1))
    };
    // SAFETY: and as many extents and element strides of a box.
    let (boxes, element_strides) = unsafe {
        (std::slice::from_raw_parts(box_extents, n), std::slice::from_raw_parts(element_strides, n))
    };
    if element_strides.iter().any(|it| !(1..=8).contains(it)) {
        return INVALID_VALUE;
    }
    let mut words = [0; 16];
    words[..5].copy_from_slice(&[
        TENSOR_MAP_TAG,
        address.addr() as u64,
        u64::from(rank),
        u64::from(element),
        u64::from(swizzle),
    ]);
    words[5..5 + n].copy_from_slice(extents);
    words[10..9 + n].copy_from_slice(strides);
    for (at, extent) in boxes.iter().enumerate() {
        words[14 + at / 4] |= u64::from(*extent) << (16 * (at % 4));
    }
    for (at, stride) in element_strides.iter().enumerate() {
        words[15] |= u64::from(*stride) << (16 + 4 * at);
    }
    write_result(map, words)
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> Code {
    with_device(|it| it.unload(module.addr()))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> Code {
    let name = text(name);
    let found = with_device(|it| it.function(module.addr(), name));
    found.map_or_else(|code| code, |it| write_result(function, handle(it)))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(_: Handle, _: c_int, _: c_int) -> Code {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: Handle,
    blocks_x: c_uint,
    blocks_y: c_uint,
    blocks_z: c_uint,
    threads_x: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared_bytes: c_uint,
    _stream: Handle,
    parameters: *const *const c_void,
    _extra: Handle,
) -> Code {
    let (grid, block) = ([blocks_x, blocks_y, blocks_z], [threads_x, threads_y, threads_z]);
    if !are_extents(grid, MAX_GRID) || !are_extents(block, MAX_BLOCK) {
        return INVALID_VALUE;
    }
    with_device(|it| {
        let Some((module, name, sizes)) = it.parameters(function.addr()) else {
            return INVALID_VALUE;
        };
        let value = |(n, n_bytes): (usize, &usize)| {
            // SAFETY: cuda.h requires as many addresses as the function has parameters.
            let address = unsafe { parameters.add(n).read() };
            bytes(address, *n_bytes).to_vec()
        };
        let values = sizes.iter().enumerate().map(value).collect();
        it.enqueue(Work::Launch { module, name, grid, block, shared_bytes, values })
    })
}

/// The most blocks of a grid, and threads of a block, in each direction.
const MAX_GRID: [c_uint; 3] = [(1 << 31) - 1, 65535, 65535];
const MAX_BLOCK: [c_uint; 3] = [1024, 1024, 64];

fn are_extents(all: [c_uint; 3], most: [c_uint; 3]) -> bool {
    all.iter().zip(most).all(|(it, most)| (1..=most).contains(it))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code {
    write_result(
        name,
        match code {
            INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
            NO_BINARY_FOR_GPU => c"CUDA_ERROR_NO_BINARY_FOR_GPU",
            INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
            ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            STREAM_CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            _ => c"CUDA_ERROR_UNKNOWN",
        }
        .as_ptr(),
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: *mut Handle, _: c_uint) -> Code {
    write_result(stream, handle(with_device(Device::new_handle)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(_: Handle) -> Code {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(_: Handle) -> Code {
    with_device(|it| it.fault())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(_: Handle, _: Handle, _: c_uint) -> Code {
    // Work on any stream runs at once.
    with_device(|it| it.fault())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(_: Handle, _: c_int) -> Code {
    with_device(Device::begin_capture)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamEndCapture(_: Handle, graph: *mut Handle) -> Code {
    write_result(graph, handle(with_device(Device::end_capture)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(_: Handle, status: *mut c_int) -> Code {
    write_result(status, with_device(|it| it.is_capturing()).into())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(ready: *mut Handle, graph: Handle, _: u64) -> Code {
    write_result(ready, graph)
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(_: Handle, _: Handle) -> Code {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(graph: Handle, _: Handle) -> Code {
    with_device(|it| it.launch_graph(graph.addr()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(_: Handle) -> Code {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> Code {
    with_device(|it| it.destroy_graph(graph.addr()))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: *mut Handle, _: c_uint) -> Code {
    write_result(event, handle(with_device(Device::new_handle)))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, _: Handle) -> Code {
    with_device(|it| it.record_event(event.addr()))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(_: Handle) -> Code {
    with_device(|it| it.fault())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(ms: *mut f32, from: Handle, to: Handle) -> Code {
    write_result(ms, with_device(|it| it.elapsed_ms(from.addr(), to.addr())))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(_: Handle) -> Code {
    0
}
