//! Generated CUDA, compiled by NVRTC and run by the emulator, against the interpreter.

mod attention;
mod batch;
mod classes;
mod defaults;
mod fixtures;
mod im2col;
mod mma;
mod persistent;
mod scans;
mod schedules;
mod stream_k;
mod tf32;
mod waits;
mod wgmma;

use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_tuner::compile::{Compiler, LINES, Source};

/// What schedules are made for.
pub(crate) fn target() -> GpuTarget {
    GpuTarget::generic(Arch { sm: 90, exact: true })
}

/// PTX for an architecture, which needs no assembler.
pub(crate) fn ptx(nvrtc: &Nvrtc, text: &str, arch: &str) -> String {
    let source = Source { name: "kernel.cu", text, arch, options: &[LINES] };
    match Compiler::new(nvrtc, None).compile(&source) {
        Ok(code) => code.ptx,
        Err(error) => panic!("{error}\n{text}"),
    }
}
