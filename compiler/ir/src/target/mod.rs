//! Devices as data: the limits of a kind of device, and the identity of one.

mod cpu;
pub mod gpu;
mod isa;
mod key;

use std::fmt;

pub use cpu::{CpuModel, CpuTarget, Vendor};
pub use gpu::GpuTarget;
pub use isa::Isa;
pub use key::{DeviceKey, UnknownDevice};

/// The model of a device for code generation and search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A CPU.
    Cpu(CpuTarget),
    /// An NVIDIA GPU.
    Gpu(GpuTarget),
}

/// The platform of generated code: on a CPU an instruction set, on a GPU an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    /// CPUs with that instruction set.
    Cpu(Isa),
    /// NVIDIA GPUs of that architecture.
    Cuda(gpu::Arch),
}

impl Target {
    /// The key under which records of this device are kept.
    pub fn key(&self) -> DeviceKey {
        match self {
            Target::Cpu(cpu) => cpu.key(),
            Target::Gpu(gpu) => gpu.key(),
        }
    }

    /// The platform of code for the device.
    pub fn platform(&self) -> Platform {
        match self {
            Target::Cpu(cpu) => cpu.isa.into(),
            Target::Gpu(gpu) => gpu.arch.into(),
        }
    }

    /// The device of a key; `None` if it is one that no code can be generated for.
    pub fn from_key(key: &DeviceKey) -> Option<Self> {
        let cpu = CpuTarget::from_key(key).map(Target::Cpu);
        cpu.or_else(|| GpuTarget::from_key(key).map(Target::Gpu))
    }

    /// A typical CPU, for schedules without measurements.
    pub fn generic(isa: Isa) -> Self {
        Target::Cpu(CpuTarget::generic(isa))
    }
}

impl Platform {
    /// The platform of that name: `avx2`, `sm_90a`.
    pub fn from_name(name: &str) -> Option<Self> {
        let isa = [Isa::Avx512, Isa::Avx2].into_iter().find(|it| it.name() == name);
        isa.map(Platform::Cpu).or_else(|| gpu::Arch::from_name(name).map(Platform::Cuda))
    }

    /// 32-bit lanes that run together: those of a vector, or of a warp.
    pub fn lanes(self) -> u32 {
        match self {
            Platform::Cpu(isa) => isa.lanes(),
            Platform::Cuda(_) => 32,
        }
    }

    /// Returns whether a device of that key runs such code.
    pub fn is_of(self, key: &DeviceKey) -> bool {
        match (self, GpuTarget::from_key(key)) {
            (Platform::Cpu(_), device) => device.is_none(),
            (Platform::Cuda(arch), device) => device.is_some_and(|it| it.arch == arch),
        }
    }
}

impl From<Isa> for Platform {
    fn from(isa: Isa) -> Self {
        Platform::Cpu(isa)
    }
}

impl From<gpu::Arch> for Platform {
    fn from(arch: gpu::Arch) -> Self {
        Platform::Cuda(arch)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Platform::Cpu(isa) => f.write_str(isa.name()),
            Platform::Cuda(arch) => arch.fmt(f),
        }
    }
}

impl From<CpuTarget> for Target {
    fn from(cpu: CpuTarget) -> Self {
        Target::Cpu(cpu)
    }
}

impl From<GpuTarget> for Target {
    fn from(gpu: GpuTarget) -> Self {
        Target::Gpu(gpu)
    }
}
