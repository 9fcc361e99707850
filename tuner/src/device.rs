//! The devices of this machine: their kinds, and the GPU as a target.
//!
//! In: the description that a worker gives of it. Out: a [`GpuTarget`], whose key names the device.

use tvmtune_ir::target::GpuTarget;
use tvmtune_ir::target::gpu::Arch;

use crate::measure::Gpu;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// This CPU.
    Cpu,
    /// The first GPU.
    Gpu,
}

/// Returns the target of a GPU; `None` if no code is generated for it. Numbers that the driver does not
/// report are those of the generic target of its architecture.
pub fn gpu_target(gpu: &Gpu) -> Option<GpuTarget> {
    let (major, minor) = gpu.capability;
    let sm = u32::from(major) * 10 + u32::from(minor);
    // From 9.0 on, some instructions exist on one architecture only (`sm_90a`).
    let arch = Arch { sm, exact: sm >= 90 };
    let generic = GpuTarget::generic(arch);
    let is_known = Arch::ALL.first().is_some_and(|oldest| sm >= oldest.sm);
    let reported_or = |value: u32, default: u32| if value == 0 { default } else { value };
    is_known.then_some(GpuTarget {
        arch,
        multiprocessors: reported_or(gpu.multiprocessors, generic.multiprocessors),
        l2_bytes: if gpu.l2_bytes == 0 { generic.l2_bytes } else { gpu.l2_bytes },
        bandwidth_gbps: reported_or(gpu.bandwidth_gbps, generic.bandwidth_gbps),
        clock_mhz: reported_or(gpu.clock_mhz, generic.clock_mhz),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_reported_numbers_and_else_generic_ones() {
        let reported = Gpu {
            name: "NVIDIA H200".to_owned(),
            capability: (9, 0),
            multiprocessors: 132,
            shared_bytes: 227 << 10,
            l2_bytes: 60 << 20,
            memory_bytes: 2,
            free_bytes: 1,
            bandwidth_gbps: 4916,
            clock_mhz: 1980,
            ptx: (9, 0),
        };
        let key = |gpu: &Gpu| gpu_target(gpu).map(|it| it.key().to_string());
        let expected = |key: &str| Some(key.to_owned());
        assert_eq!(key(&reported), expected("cuda-sm_90a-mp132-l2:61440-bw4916-clk1980"));
        let silent =
            Gpu { multiprocessors: 0, l2_bytes: 0, bandwidth_gbps: 0, clock_mhz: 0, ..reported };
        assert_eq!(key(&silent), expected("cuda-sm_90a-mp132-l2:51200-bw4800-clk1830"));
        let older = Gpu { capability: (8, 7), ..silent.clone() };
        assert!(key(&older).is_some_and(|it| it.starts_with("cuda-sm_87-")));
        assert_eq!(key(&Gpu { capability: (6, 1), ..silent }), None);
    }
}
