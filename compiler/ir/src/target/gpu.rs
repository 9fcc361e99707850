//! NVIDIA GPUs: limits of compute capabilities, properties of devices, occupancy.
//!
//! Limits of a compute capability are those of NVIDIA's occupancy calculator (`cuda_occupancy.h`);
//! properties that differ between products of one capability (multiprocessors, bandwidth, clock) belong
//! to the device.

use super::DeviceKey;

/// The architecture that a kernel is compiled for: `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    /// Compute capability times ten: 90.
    pub sm: u32,
    /// True if code is for this capability alone, and may use all of it: the `a` of `sm_90a`.
    pub exact: bool,
}

/// A GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuTarget {
    /// The architecture of its kernels.
    pub arch: Arch,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Second-level cache, in bytes.
    pub l2_bytes: u64,
    /// Memory bandwidth, in GB/s.
    pub bandwidth_gbps: u32,
    /// Clock of the multiprocessors under load, in MHz.
    pub clock_mhz: u32,
}

/// The limits of a multiprocessor of one compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_bytes: u32,
    /// Shared memory that one block may have, in bytes.
    pub block_shared_bytes: u32,
    /// Shared memory that the system takes of each block, in bytes.
    pub reserved_shared_bytes: u32,
    /// Threads that may be resident.
    pub threads: u32,
    /// Blocks that may be resident.
    pub blocks: u32,
    /// Shared memory is handed out in pieces of this many bytes.
    pub shared_granularity: u32,
    /// Multiply-adds of `f32` in a cycle.
    pub fma: u32,
    /// Multiply-adds of 16-bit floats by tensor cores in a cycle; 0 if there are none.
    pub tensor_fma: u32,
}

/// The registers of a multiprocessor, of any capability.
pub const REGISTERS: u32 = 65_536;
/// Registers that one thread may have.
pub const THREAD_REGISTERS: u32 = 255;

impl Arch {
    /// The architectures that kernels are generated and tested for.
    pub const ALL: [Arch; 7] = [
        Arch { sm: 75, exact: false },
        Arch { sm: 80, exact: false },
        Arch { sm: 86, exact: false },
        Arch { sm: 89, exact: false },
        Arch { sm: 90, exact: true },
        Arch { sm: 100, exact: true },
        Arch { sm: 120, exact: true },
    ];

    /// The architecture of that name: `sm_90a`.
    pub fn from_name(name: &str) -> Option<Self> {
        let number = name.strip_prefix("sm_")?;
        let (digits, exact) = match number.strip_suffix('a') {
            Some(digits) => (digits, true),
            None => (number, false),
        };
        let sm = digits.parse().ok().filter(|it| (50..1000).contains(it))?;
        Some(Self { sm, exact })
    }

    /// Returns whether there are asynchronous copies to shared memory (`cp.async`).
    pub fn has_async_copies(self) -> bool {
        self.sm >= 80
    }

    /// Returns whether there are warpgroup MMAs (`wgmma`) and bulk tensor copies (TMA).
    pub fn has_wgmma(self) -> bool {
        self.sm == 90 && self.exact
    }

    /// The limits of its multiprocessors.
    pub fn limits(self) -> Limits {
        let kib = |it: u32| it * 1024;
        // From 8.0 on the system keeps a KiB of each block.
        let shared = |sm: u32, reserved: u32| (kib(sm), kib(sm - reserved), kib(reserved));
        let (
            (shared_bytes, block_shared_bytes, reserved_shared_bytes),
            threads,
            blocks,
            fma,
            tensor_fma,
        ) = match self.sm {
            ..75 => (shared(96, 0), 2048, 32, 64, 512),
            75..80 => (shared(64, 0), 1024, 16, 64, 512),
            80..86 => (shared(164, 1), 2048, 32, 64, 1024),
            86 | 87 => (shared(100, 1), 1536, 16, 128, 512),
            88 | 89 => (shared(100, 1), 1536, 24, 128, 512),
            90..100 => (shared(228, 1), 2048, 32, 128, 2048),
            100..120 => (shared(228, 1), 2048, 32, 128, 4096),
            _ => (shared(100, 1), 1536, 24, 128, 512),
        };
        let shared_granularity = if self.sm < 80 { 256 } else { 128 };
        Limits {
            shared_bytes,
            block_shared_bytes,
            reserved_shared_bytes,
            threads,
            blocks,
            shared_granularity,
            fma,
            tensor_fma,
        }
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}{}", self.sm, if self.exact { "a" } else { "" })
    }
}

/// A name of no known architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an architecture, such as one of {}", Arch::ALL.map(|it| format!("cuda:{it}")).join(" "))]
pub struct UnknownArch;

/// `cuda:sm_90a`: a typical GPU of that architecture.
impl std::str::FromStr for GpuTarget {
    type Err = UnknownArch;

    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        let arch = name.strip_prefix("cuda:").and_then(Arch::from_name);
        arch.map(GpuTarget::generic).ok_or(UnknownArch)
    }
}

impl GpuTarget {
    /// A typical GPU of an architecture, for schedules without measurements.
    pub fn generic(arch: Arch) -> Self {
        let (multiprocessors, l2_mib, bandwidth_gbps, clock_mhz) = match arch.sm {
            ..80 => (40, 4, 320, 1590),
            80..86 => (108, 40, 1555, 1410),
            86..88 => (84, 6, 768, 1700),
            88 | 89 => (128, 72, 1008, 2520),
            90..100 => (132, 50, 4800, 1830),
            100..120 => (148, 126, 8000, 1830),
            _ => (170, 96, 1792, 2400),
        };
        Self { arch, multiprocessors, l2_bytes: l2_mib << 20, bandwidth_gbps, clock_mhz }
    }

    /// The key under which records of this device are kept:
    /// `cuda-sm_90a-mp132-l2:51200-bw4800-clk1830`.
    pub fn key(&self) -> DeviceKey {
        let Self { arch, multiprocessors, l2_bytes, bandwidth_gbps, clock_mhz } = self;
        let l2 = l2_bytes / 1024;
        DeviceKey::spelled(format!(
            "cuda-{arch}-mp{multiprocessors}-l2:{l2}-bw{bandwidth_gbps}-clk{clock_mhz}"
        ))
    }

    /// The device of a key; `None` if that is no GPU.
    pub fn from_key(key: &DeviceKey) -> Option<Self> {
        Self::parse(key.as_str())
    }

    /// The device of a key, as text.
    pub(super) fn parse(key: &str) -> Option<Self> {
        let mut parts = key.strip_prefix("cuda-")?.split('-');
        let arch = Arch::from_name(parts.next()?)?;
        let mut number = |prefix: &str| parts.next()?.strip_prefix(prefix)?.parse::<u32>().ok();
        let multiprocessors = number("mp").filter(|it| *it > 0)?;
        let l2_bytes = u64::from(number("l2:")?) * 1024;
        let bandwidth_gbps = number("bw").filter(|it| *it > 0)?;
        let clock_mhz = number("clk").filter(|it| *it > 0)?;
        let target = Self { arch, multiprocessors, l2_bytes, bandwidth_gbps, clock_mhz };
        parts.next().is_none().then_some(target)
    }

    /// Blocks that can be resident on one multiprocessor; 0 if not one can.
    ///
    /// `registers` are those of one thread, `shared_bytes` those of one block.
    pub fn occupancy(&self, threads: u32, registers: u32, shared_bytes: u32) -> u32 {
        /// Registers are handed out to warps in pieces of this many.
        const UNIT: u32 = 256;
        const WARP: u32 = 32;
        /// A multiprocessor has so many schedulers, each with its share of the registers.
        const PARTS: u32 = 4;
        let limits = self.arch.limits();
        let fits = threads > 0
            && threads <= 1024
            && registers <= THREAD_REGISTERS
            && shared_bytes <= limits.block_shared_bytes;
        if !fits {
            return 0;
        }
        let warps = threads.div_ceil(WARP);
        let by_threads = limits.threads / WARP / warps;
        let per_warp = (registers.max(1) * WARP).next_multiple_of(UNIT);
        let by_registers = REGISTERS / PARTS / per_warp * PARTS / warps;
        let per_block = shared_bytes + limits.reserved_shared_bytes;
        let per_block = per_block.next_multiple_of(limits.shared_granularity);
        let by_shared = limits.shared_bytes.checked_div(per_block).unwrap_or(u32::MAX);
        limits.blocks.min(by_threads).min(by_registers).min(by_shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_device() {
        let target = GpuTarget::generic(Arch { sm: 90, exact: true });
        assert_eq!(target.key().as_str(), "cuda-sm_90a-mp132-l2:51200-bw4800-clk1830");
        assert_eq!(GpuTarget::from_key(&target.key()), Some(target));
        for bad in ["", "cuda-", "cuda-sm_90a", "cuda-sm_90a-mp0-l2:1-bw1-clk1", "cpu-avx2"] {
            assert_eq!(GpuTarget::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn architectures_have_names() {
        for arch in Arch::ALL {
            assert_eq!(Arch::from_name(&arch.to_string()), Some(arch));
        }
        for bad in ["sm_", "sm_9x", "90", "sm_1a"] {
            assert_eq!(Arch::from_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn occupancy_is_that_of_the_scarcest_resource() {
        let hopper = GpuTarget::generic(Arch { sm: 90, exact: true });
        let check = |threads, registers, shared, blocks| {
            assert_eq!(
                hopper.occupancy(threads, registers, shared),
                blocks,
                "{threads} {registers} {shared}"
            );
        };
        check(1024, 32, 0, 2); // threads
        check(32, 32, 0, 32); // blocks
        check(256, 128, 0, 2); // registers
        check(384, 168, 0, 1);
        check(128, 32, 100 * 1024, 2); // shared memory
        check(128, 32, 227 * 1024, 1);
        check(128, 32, 227 * 1024 + 1, 0);
        check(2048, 32, 0, 0);
        check(128, 256, 0, 0);
    }

    /// Capability, threads of a block, registers of a thread, shared bytes of a block; blocks, and
    /// what limits them, worked out without our code. Limits: CUDA C++ Programming Guide, "Technical
    /// Specifications per Compute Capability"; registers are handed out by warp in 256s to four
    /// parts of 16384, and from 8.0 on the system takes 1024 bytes of each block's shared memory
    /// (`cuda_occupancy.h`).
    const OCCUPANCY: &[(u32, u32, u32, u32, u32)] = &[
        (75, 32, 16, 0, 16),       // blocks
        (75, 256, 64, 0, 4),       // threads
        (75, 1024, 64, 0, 1),      // threads
        (75, 128, 40, 16640, 3),   // shared
        (75, 256, 128, 0, 2),      // registers
        (75, 64, 32, 65536, 1),    // shared
        (80, 32, 32, 0, 32),       // blocks
        (80, 256, 32, 0, 8),       // threads
        (80, 256, 40, 0, 6),       // registers
        (80, 256, 33, 0, 6),       // registers
        (80, 128, 255, 0, 2),      // registers
        (80, 128, 32, 32768, 4),   // shared
        (80, 512, 64, 167000, 0),  // refused
        (80, 1024, 65, 0, 0),      // registers
        (86, 32, 32, 0, 16),       // blocks
        (86, 256, 40, 0, 6),       // threads
        (86, 256, 43, 0, 5),       // registers
        (86, 128, 64, 49152, 2),   // shared
        (86, 512, 128, 0, 1),      // registers
        (89, 32, 32, 0, 24),       // blocks
        (89, 64, 32, 0, 24),       // threads
        (89, 256, 48, 0, 5),       // registers
        (89, 192, 80, 24576, 4),   // registers
        (89, 1024, 32, 0, 1),      // threads
        (90, 32, 32, 0, 32),       // blocks
        (90, 96, 32, 0, 21),       // threads
        (90, 256, 96, 0, 2),       // registers
        (90, 256, 112, 16384, 2),  // registers
        (90, 384, 168, 0, 1),      // registers
        (90, 128, 32, 114688, 2),  // shared
        (90, 128, 32, 115712, 2),  // shared
        (90, 640, 96, 0, 1),       // registers
        (90, 1024, 64, 1024, 1),   // registers
        (100, 256, 255, 0, 1),     // registers
        (100, 512, 128, 65536, 1), // registers
        (100, 64, 40, 7168, 24),   // registers
        (120, 32, 32, 0, 24),      // blocks
        (120, 768, 40, 0, 2),      // threads
        (120, 128, 56, 101376, 1), // shared
        (120, 256, 72, 33000, 3),  // registers
        (120, 128, 32, 101377, 0), // refused
    ];

    #[test]
    fn occupancy_is_that_of_nvidias_calculator() {
        let wrong = OCCUPANCY.iter().filter(|(sm, threads, registers, shared, blocks)| {
            let target = GpuTarget::generic(Arch { sm: *sm, exact: false });
            target.occupancy(*threads, *registers, *shared) != *blocks
        });
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(u32, u32, u32, u32, u32)>::new());
    }

    #[test]
    fn more_of_anything_never_makes_room() {
        for arch in Arch::ALL {
            let target = GpuTarget::generic(arch);
            for threads in (32..=1024).step_by(96) {
                for registers in (16..=255).step_by(13) {
                    for shared in (0..=240).step_by(7).map(|it| it * 1024) {
                        let now = target.occupancy(threads, registers, shared);
                        let more = [(32, 0, 0), (0, 8, 0), (0, 0, 128)].map(|(t, r, s)| {
                            target.occupancy(threads + t, registers + r, shared + s)
                        });
                        assert!(more.iter().all(|it| *it <= now), "{arch} {threads} {registers}");
                    }
                }
            }
        }
    }
}
