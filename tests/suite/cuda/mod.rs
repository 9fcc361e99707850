//! Generated CUDA, compiled by NVRTC and run by the emulator, against the interpreter.

mod attention;
mod classes;
mod defaults;
mod described;
mod fixtures;
mod group;
mod schedules;
mod tensor;
mod waits;

use proptest::prelude::*;
use tvmtune_core::arbitrary::Case;
use tvmtune_core::codegen::{GeneratedCuda, generate_cuda};
use tvmtune_core::interp;
use tvmtune_core::schedule::Schedule;
use tvmtune_core::target::gpu::{Arch, GpuTarget};
use tvmtune_emulator::{Module, Options};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_tests::emulate;
use tvmtune_tuner::compile::{Compiler, Source};
use tvmtune_tuner::cost;

/// What schedules are made for.
pub(crate) fn target() -> GpuTarget {
    GpuTarget::generic(Arch { sm: 90, exact: true })
}

/// PTX for an architecture, which needs no assembler.
pub(crate) fn ptx(nvrtc: &Nvrtc, generated: &GeneratedCuda, arch: &str) -> String {
    let text = &generated.unit.source;
    let source = Source { name: "kernel.cu", text, arch, options: &[] };
    match Compiler::new(nvrtc, None).compile(&source) {
        Ok(code) => code.ptx,
        Err(error) => panic!("{error}\n{}\n{text}", generated.nest),
    }
}

/// Whether a schedule can be placed, and computes what its program says.
fn check(
    nvrtc: &Nvrtc,
    case: &Case,
    schedule: &Schedule,
    arch: &str,
    options: &Options,
) -> Result<bool, TestCaseError> {
    let Ok(generated) = generate_cuda(schedule) else { return Ok(false) };
    let ns = cost::gpu::estimate(&generated.grid, &target()).ns;
    prop_assert!(ns > 0.0, "{ns} ns");
    let (params, scalars) = (case.params(), case.scalars());
    let expected = interp::dag::run(&case.dag, &case.dims, &params, &scalars);
    let text = &generated.unit.source;
    let shown = || format!("{:?} {:?}\n{}\n{text}", case.family, case.dims, generated.nest);
    let module = Module::parse(&ptx(nvrtc, &generated, arch));
    let module = module.map_err(|it| TestCaseError::fail(format!("{it}\n{}", shown())))?;
    match emulate::run(&generated, &module, &case.dims, &params, &scalars, options) {
        Err(fault) => prop_assert!(false, "{fault}\n{}", shown()),
        Ok(results) => {
            for (result, expected) in results.iter().zip(&expected) {
                let error = result.max_error(expected, 1e-5, 1e-5);
                prop_assert!(error.is_none(), "{}\n{}", error.unwrap(), shown());
            }
        }
    }
    Ok(true)
}
