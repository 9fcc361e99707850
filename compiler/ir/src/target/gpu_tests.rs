//! Occupancy against a table: limits as NVIDIA publishes them, worked out without our code.

use super::gpu::{Arch, GpuTarget};

/// Capability, threads of a block, registers of a thread, shared bytes of a block; blocks, and what
/// limits them. Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability"; registers are handed out by warp in 256s to four parts of 16384, and from 8.0 on the
/// system takes 1024 bytes of each block's shared memory (`cuda_occupancy.h`).
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
                    let more = [(32, 0, 0), (0, 8, 0), (0, 0, 128)]
                        .map(|(t, r, s)| target.occupancy(threads + t, registers + r, shared + s));
                    assert!(more.iter().all(|it| *it <= now), "{arch} {threads} {registers}");
                }
            }
        }
    }
}
