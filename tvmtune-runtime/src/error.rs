//! Errors of launches.

use std::fmt;

use crate::raw::cuda::Arch;

/// The reason why a kernel did not run, or did not finish.
///
/// Every text names the kernel and the argument, and ends in what to do. In all variants `kernel` is
/// the kernel's name and `arg` the argument's; `dim` and `shape` are as the program spells them; `call`
/// is the function of the driver and `reason` its result, as the driver names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A dynamic dimension is `got`, by argument or by inference, and declared as `lo..=hi`.
    #[error(
        "`{kernel}`: dimension `{dim}` is {got}, outside of its range {lo}..={hi}; \
         launch on parts of the data, or widen `{dim}` in `dims(..)` of `#[autotune]`"
    )]
    OutOfRange { kernel: &'static str, dim: &'static str, got: usize, lo: usize, hi: usize },
    /// A dynamic dimension is `got` in a launch where it is declared to be at least `end`, which is
    /// `least` there.
    #[error(
        "`{kernel}`: dimension `{dim}` is {got}, and it is at least `{end}`, which is {least} in this \
         launch; give the tensors room for more, or launch on less"
    )]
    BelowLowerEnd {
        kernel: &'static str,
        dim: &'static str,
        got: usize,
        end: &'static str,
        least: usize,
    },
    /// An argument of shape `shape` has `got` elements instead of `want`.
    #[error(
        "`{kernel}`: argument `{arg}` has {got} elements, expected {want} for shape {shape}; \
         pass a slice of exactly that length"
    )]
    Length { kernel: &'static str, arg: &'static str, shape: &'static str, want: usize, got: usize },
    /// A dimension does not follow from the length of an argument: no extent gives that length.
    #[error(
        "`{kernel}`: no `{dim}` gives argument `{arg}` of shape {shape} its {got} elements; \
         pass a slice whose length is a multiple of what the other dimensions make"
    )]
    Indivisible {
        kernel: &'static str,
        arg: &'static str,
        shape: &'static str,
        dim: &'static str,
        got: usize,
    },
    /// An address is null or not a multiple of `align` bytes.
    #[error(
        "`{kernel}`: the address of argument `{arg}` is null or not a multiple of {align} bytes; \
         pass memory that is aligned for its element type"
    )]
    Misaligned { kernel: &'static str, arg: &'static str, align: usize },
    /// Result `a` shares memory with argument `b`.
    #[error(
        "`{kernel}`: result `{a}` overlaps argument `{b}`; \
         kernels do not work in place: pass memory of its own for each result"
    )]
    Overlap { kernel: &'static str, a: &'static str, b: &'static str },
    /// Memory for temporaries could not be allocated.
    #[error("`{kernel}`: no memory for {bytes} bytes of temporaries; launch on parts of the data")]
    OutOfMemory { kernel: &'static str, bytes: usize },
    /// Generated code panicked; the results are unspecified.
    #[error(
        "`{kernel}`: the portable code panicked, which is a bug in tvmtune; \
         report it at https://github.com/tvmtune/tvmtune/issues"
    )]
    Panicked { kernel: &'static str },
    /// There is no CUDA driver: each name tried, with what the system says.
    #[error(
        "no CUDA driver: tried {tried}; install the driver of the GPU, or launch on \
         `tvmtune_runtime::Cpu`"
    )]
    NoDriver { tried: &'static str },
    /// The CUDA device of that number, from 0, cannot be used.
    #[error(
        "CUDA device {ordinal}: `{call}` failed: {reason}; \
         see what `nvidia-smi` says of it, and of `CUDA_VISIBLE_DEVICES`"
    )]
    Device { ordinal: usize, call: &'static str, reason: &'static str },
    /// The driver refused something that a kernel needs.
    #[error("`{kernel}`: `{call}` failed: {reason}; {}", advice(reason))]
    Cuda { kernel: &'static str, call: &'static str, reason: &'static str },
    /// A crate has no code of a kernel for a device.
    #[error(
        "`{kernel}`: no code for {arch}; add the device to `tvmtune.toml` and build with the feature \
         `cuda` of `tvmtune-build`, or launch on `tvmtune_runtime::Cpu`"
    )]
    NoCode { kernel: &'static str, arch: Arch },
    /// The only code for a device is PTX that its driver does not know yet.
    #[error(
        "`{kernel}`: its code is PTX {}.{}, and the driver takes {}.{} at most; update the driver, \
         or build with an older NVRTC", ptx.0, ptx.1, driver.0, driver.1
    )]
    PtxTooNew { kernel: &'static str, ptx: (u8, u8), driver: (u8, u8) },
    /// A kernel wants more bytes of shared memory than the device has for a block.
    #[error(
        "`{kernel}`: wants {want} bytes of shared memory in a block, and the device has {have}; \
         its code was tuned for a larger device: tune it for this one"
    )]
    SharedMemory { kernel: &'static str, want: usize, have: usize },
    /// An argument is in memory of another device, or of another context of it.
    #[error(
        "`{kernel}`: argument `{arg}` is not in the CUDA context of the stream; \
         copy it there, or launch on a stream of its context"
    )]
    OtherContext { kernel: &'static str, arg: &'static str },
    /// A kernel was loaded for another stream, and has memory for temporaries on that one only.
    #[error(
        "`{kernel}`: was loaded for another stream, and keeps temporaries for that one; \
         call `load` with each stream that it is launched on"
    )]
    OtherStream { kernel: &'static str },
    /// A weight that is known by its address on the device only, where the kernel reads it in
    /// another layout.
    #[error(
        "`{kernel}`: weight `{arg}` is packed in another layout than row-major; \
         pass a `tvmtune_runtime::Weight`, which is packed and brought to the device once"
    )]
    Unpacked { kernel: &'static str, arg: &'static str },
    /// A tensor of `candle` has elements of another type than the program declares.
    #[error(
        "`{kernel}`: argument `{arg}` has elements of {got}, expected {want}; \
         convert it with `.to_dtype(DType::{})`", want.to_uppercase()
    )]
    ElementType { kernel: &'static str, arg: &'static str, want: &'static str, got: &'static str },
    /// The elements of a tensor of `candle` do not lie next to each other, row-major.
    #[error("`{kernel}`: argument `{arg}` is not contiguous; pass `.contiguous()?` of it")]
    NotContiguous { kernel: &'static str, arg: &'static str },
    /// A tensor of `candle` is in memory of another kind of device than the launch is on.
    #[error(
        "`{kernel}`: argument `{arg}` is in memory of {has}, and the launch is on {wants}; \
         bring it there with `.to_device(..)`, or launch on its device"
    )]
    OtherDevice { kernel: &'static str, arg: &'static str, has: DeviceKind, wants: DeviceKind },
    /// A layout of `candle` that is not of the storage it was passed with.
    #[error(
        "`{kernel}`: the layout of argument `{arg}` reaches beyond its storage; \
         pass the storage and the layout of one tensor"
    )]
    OutsideStorage { kernel: &'static str, arg: &'static str },
    /// A kernel was loaded for one kind of device, and is launched on another one.
    #[error(
        "`{kernel}`: was loaded for {loaded}, and is launched on {launched}; \
         call `load` with each device that it is launched on"
    )]
    LoadedElsewhere { kernel: &'static str, loaded: DeviceKind, launched: DeviceKind },
    /// Kernels cannot be launched on such a device at all.
    #[error("`{kernel}`: no kernel can be launched on {device}; {}", instead(*device))]
    NoQueue { kernel: &'static str, device: DeviceKind },
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

/// The reason why a launch cannot use what was passed for a tensor. Each becomes the variant of [`Error`]
/// of the same name once the kernel and the argument are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    OtherContext,
    ElementType { want: &'static str, got: &'static str },
    NotContiguous,
    OtherDevice { has: DeviceKind, wants: DeviceKind },
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
