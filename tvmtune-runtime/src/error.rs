//! Errors of launches.

use std::fmt;

use crate::raw::cuda::Arch;

/// Why a kernel did not run, or did not finish.
///
/// Every text names the kernel and the argument, and ends in what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A dynamic dimension lies outside of what the program declares.
    #[error(
        "`{kernel}`: dimension `{dim}` is {got}, outside of its range {lo}..={hi}; \
         launch on parts of the data, or widen `{dim}` in `dims(..)` of `#[autotune]`"
    )]
    OutOfRange {
        /// The kernel's name.
        kernel: &'static str,
        /// The dimension, as the program spells it.
        dim: &'static str,
        /// The value passed, or inferred from the lengths of the arguments.
        got: usize,
        /// The least extent that the program declares.
        lo: usize,
        /// The greatest.
        hi: usize,
    },
    /// An argument has the wrong number of elements.
    #[error(
        "`{kernel}`: argument `{arg}` has {got} elements, expected {want} for shape {shape}; \
         pass a slice of exactly that length"
    )]
    Length {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
        /// Its shape, as the program spells it.
        shape: &'static str,
        /// The number of elements of that shape.
        want: usize,
        /// The number of elements passed.
        got: usize,
    },
    /// A dimension does not follow from the length of an argument: no extent gives that length.
    #[error(
        "`{kernel}`: no `{dim}` gives argument `{arg}` of shape {shape} its {got} elements; \
         pass a slice whose length is a multiple of what the other dimensions make"
    )]
    Indivisible {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument from which the dimension is inferred.
        arg: &'static str,
        /// Its shape, as the program spells it.
        shape: &'static str,
        /// The dimension, as the program spells it.
        dim: &'static str,
        /// The number of elements passed.
        got: usize,
    },
    /// An address is null or not a multiple of the size of the elements.
    #[error(
        "`{kernel}`: the address of argument `{arg}` is null or not a multiple of {align} bytes; \
         pass memory that is aligned for its element type"
    )]
    Misaligned {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
        /// The required alignment, in bytes.
        align: usize,
    },
    /// A result shares memory with another argument.
    #[error(
        "`{kernel}`: result `{a}` overlaps argument `{b}`; \
         kernels do not work in place: pass memory of its own for each result"
    )]
    Overlap {
        /// The kernel's name.
        kernel: &'static str,
        /// The result.
        a: &'static str,
        /// The argument it overlaps.
        b: &'static str,
    },
    /// Memory for temporaries could not be allocated.
    #[error("`{kernel}`: no memory for {bytes} bytes of temporaries; launch on parts of the data")]
    OutOfMemory {
        /// The kernel's name.
        kernel: &'static str,
        /// The request.
        bytes: usize,
    },
    /// Generated code panicked; the results are unspecified.
    #[error(
        "`{kernel}`: the portable code panicked, which is a bug in tvmtune; \
         report it at https://github.com/tvmtune/tvmtune/issues"
    )]
    Panicked {
        /// The kernel's name.
        kernel: &'static str,
    },
    /// There is no CUDA driver.
    #[error(
        "no CUDA driver: tried {tried}; install the driver of the GPU, or launch on \
         `tvmtune_runtime::Cpu`"
    )]
    NoDriver {
        /// Each name, with what the system says.
        tried: &'static str,
    },
    /// A CUDA device cannot be used.
    #[error(
        "CUDA device {ordinal}: `{call}` failed: {reason}; \
         see what `nvidia-smi` says of it, and of `CUDA_VISIBLE_DEVICES`"
    )]
    Device {
        /// Its number, from 0.
        ordinal: usize,
        /// The function of the driver.
        call: &'static str,
        /// Its result, as the driver names it.
        reason: &'static str,
    },
    /// The driver refused something that a kernel needs.
    #[error("`{kernel}`: `{call}` failed: {reason}; {}", advice(reason))]
    Cuda {
        /// The kernel's name.
        kernel: &'static str,
        /// The function of the driver.
        call: &'static str,
        /// Its result, as the driver names it.
        reason: &'static str,
    },
    /// A crate has no code of a kernel for a device.
    #[error(
        "`{kernel}`: no code for {arch}; add the device to `tvmtune.toml` and build with the feature \
         `cuda` of `tvmtune-build`, or launch on `tvmtune_runtime::Cpu`"
    )]
    NoCode {
        /// The kernel's name.
        kernel: &'static str,
        /// The kind of the device.
        arch: Arch,
    },
    /// The only code for a device is PTX that its driver does not know yet.
    #[error(
        "`{kernel}`: its code is PTX {}.{}, and the driver takes {}.{} at most; update the driver, \
         or build with an older NVRTC", ptx.0, ptx.1, driver.0, driver.1
    )]
    PtxTooNew {
        /// The kernel's name.
        kernel: &'static str,
        /// The version of the code.
        ptx: (u8, u8),
        /// The latest version that the driver takes.
        driver: (u8, u8),
    },
    /// A kernel wants more shared memory than the device has for a block.
    #[error(
        "`{kernel}`: wants {want} bytes of shared memory in a block, and the device has {have}; \
         its code was tuned for a larger device: tune it for this one"
    )]
    SharedMemory {
        /// The kernel's name.
        kernel: &'static str,
        /// The requested size, in bytes.
        want: usize,
        /// The available size, in bytes.
        have: usize,
    },
    /// An argument is in memory of another device, or of another context of it.
    #[error(
        "`{kernel}`: argument `{arg}` is not in the CUDA context of the stream; \
         copy it there, or launch on a stream of its context"
    )]
    OtherContext {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
    },
    /// A kernel was loaded for another stream, and has memory for temporaries on that one only.
    #[error(
        "`{kernel}`: was loaded for another stream, and keeps temporaries for that one; \
         call `load` with each stream that it is launched on"
    )]
    OtherStream {
        /// The kernel's name.
        kernel: &'static str,
    },
    /// A weight that is known by its address on the device only, where the kernel reads it in
    /// another layout.
    #[error(
        "`{kernel}`: weight `{arg}` is packed in another layout than row-major; \
         pass a `tvmtune_runtime::Weight`, which is packed and brought to the device once"
    )]
    Unpacked {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
    },
    /// A tensor of `candle` has elements of another type than the program declares.
    #[error(
        "`{kernel}`: argument `{arg}` has elements of {got}, expected {want}; \
         convert it with `.to_dtype(DType::{})`", want.to_uppercase()
    )]
    ElementType {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
        /// The type that the program declares.
        want: &'static str,
        /// That of the tensor.
        got: &'static str,
    },
    /// The elements of a tensor of `candle` do not lie next to each other, row-major.
    #[error("`{kernel}`: argument `{arg}` is not contiguous; pass `.contiguous()?` of it")]
    NotContiguous {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
    },
    /// A tensor of `candle` is in memory of another kind of device than the launch is on.
    #[error(
        "`{kernel}`: argument `{arg}` is in memory of {has}, and the launch is on {wants}; \
         bring it there with `.to_device(..)`, or launch on its device"
    )]
    OtherDevice {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
        /// The location of the argument.
        has: DeviceKind,
        /// The location where the kernel runs.
        wants: DeviceKind,
    },
    /// A layout of `candle` that is not of the storage it was passed with.
    #[error(
        "`{kernel}`: the layout of argument `{arg}` reaches beyond its storage; \
         pass the storage and the layout of one tensor"
    )]
    OutsideStorage {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
    },
    /// A kernel was loaded for one kind of device, and is launched on another one.
    #[error(
        "`{kernel}`: was loaded for {loaded}, and is launched on {launched}; \
         call `load` with each device that it is launched on"
    )]
    LoadedElsewhere {
        /// The kernel's name.
        kernel: &'static str,
        /// The queue it was loaded for.
        loaded: DeviceKind,
        /// The queue it is launched on.
        launched: DeviceKind,
    },
    /// Kernels cannot be launched on such a device at all.
    #[error("`{kernel}`: no kernel can be launched on {device}; {}", instead(*device))]
    NoQueue {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument passed as the queue.
        device: DeviceKind,
    },
}

/// A kind of device, as `candle` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The CPU.
    Cpu,
    /// NVIDIA's GPUs.
    Cuda,
    /// Apple's GPUs.
    Metal,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Cpu => "the CPU",
            DeviceKind::Cuda => "a CUDA device",
            DeviceKind::Metal => "a Metal device",
        })
    }
}

/// Why a launch cannot use what was passed for a tensor: an [`Error`] that does not know yet which
/// kernel and argument it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// [`Error::OtherContext`]
    OtherContext,
    /// [`Error::ElementType`]
    ElementType {
        /// The type that the program declares.
        want: &'static str,
        /// That of the tensor.
        got: &'static str,
    },
    /// [`Error::NotContiguous`]
    NotContiguous,
    /// [`Error::OtherDevice`]
    OtherDevice {
        /// The location of the tensor.
        has: DeviceKind,
        /// The location where the kernel runs.
        wants: DeviceKind,
    },
    /// [`Error::OutsideStorage`]
    OutsideStorage,
}

impl Unfit {
    /// The error about that argument of that kernel.
    pub fn of(self, kernel: &'static str, arg: &'static str) -> Error {
        match self {
            Unfit::OtherContext => Error::OtherContext { kernel, arg },
            Unfit::ElementType { want, got } => Error::ElementType { kernel, arg, want, got },
            Unfit::NotContiguous => Error::NotContiguous { kernel, arg },
            Unfit::OtherDevice { has, wants } => Error::OtherDevice { kernel, arg, has, wants },
            Unfit::OutsideStorage => Error::OutsideStorage { kernel, arg },
        }
    }
}

/// Advice where launches on a device are not possible.
fn instead(device: DeviceKind) -> &'static str {
    match device {
        DeviceKind::Cuda => "enable the feature `candle-cuda` of `tvmtune-runtime`",
        _ => "bring the tensors to the CPU with `.to_device(&Device::Cpu)`",
    }
}

/// Advice for a result of the driver.
fn advice(reason: &str) -> &'static str {
    match reason {
        "CUDA_ERROR_OUT_OF_MEMORY" => "free memory of the device, or launch on parts of the data",
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" | "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" => {
            "call `load` and `prepare` before the capture begins"
        }
        _ => "an earlier kernel may be at fault: run with `CUDA_LAUNCH_BLOCKING=1` to see which",
    }
}
