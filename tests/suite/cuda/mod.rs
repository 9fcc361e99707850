//! Generated CUDA, compiled by NVRTC and run by the emulator, against the interpreter.

mod attention;
mod batch;
mod classes;
mod defaults;
mod disassembly;
mod fixtures;
mod im2col;
mod mma;
mod persistent;
pub(crate) mod points;
mod programs;
mod quad;
mod scans;
mod schedules;
mod stream_k;
mod tf32;
mod waits;
mod wgmma;

use tvmtune_cuda::Generated;
use tvmtune_emulator::{Completion, Module, Options, Order};
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_schedule::Schedule;
use tvmtune_space::sketch::TemplateKind;
use tvmtune_tests::emulate;
use tvmtune_tuner::compile::{Compiler, LINES, Remark, Source};
use tvmtune_tuner::space::{Point, Space};

/// An architecture with MMA instructions of a warp only.
pub(crate) const AMPERE: Arch = Arch { sm: 80, exact: false };
/// An architecture with WGMMA and TMA.
pub(crate) const HOPPER: Arch = Arch { sm: 90, exact: true };

/// The target of the schedules.
pub(crate) fn target() -> GpuTarget {
    GpuTarget::generic(HOPPER)
}

/// PTX for an architecture, which needs no assembler.
pub(crate) fn ptx(nvrtc: &Nvrtc, text: &str, arch: &str) -> String {
    let source = Source { name: "kernel.cu", text, arch, options: &[LINES] };
    match Compiler::new(nvrtc, None).compile(&source) {
        Ok(code) => code.ptx,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The module of generated code, for Hopper GPUs.
pub(crate) fn module(nvrtc: &Nvrtc, generated: &Generated) -> Module {
    Module::parse(&ptx(nvrtc, &generated.unit.source, "compute_90a")).unwrap()
}

/// The default point of the first sketch that a template made.
fn default_point(space: &Space, template: TemplateKind) -> Option<Point> {
    let sketch = space.sketches.iter().position(|it| it.uses(template))?;
    Some(Point { sketch: sketch as u16, choices: space.sketches[sketch].default.clone() })
}

/// The code of a schedule, or why an architecture cannot run it.
pub(crate) fn generate(schedule: &Schedule, arch: Arch) -> Result<Generated, String> {
    let generated = tvmtune_cuda::generate(schedule).map_err(|it| it.to_string())?;
    let max_bytes = arch.limits().block_shared_bytes;
    match generated.grid.body.iter().all(|it| it.shared_bytes <= max_bytes) {
        true => Ok(generated),
        false => Err("too much shared memory".to_owned()),
    }
}

/// Ways for copies to complete and blocks to follow one another, by a number.
pub(crate) fn timing(n: usize) -> Options {
    let completion = [Completion::Eager, Completion::Late, Completion::Random(3)][n % 3];
    let order = [Order::Ascending, Order::Descending, Order::Random(5)][(n + 1) % 3];
    Options { completion, order, ..Options::default() }
}

/// The arguments of a launch, and its results by definition.
struct Launch<'a> {
    dims: &'a [i64],
    params: &'a [Array],
    scalars: &'a [Number],
    expected: &'a [Array],
}

/// Runs code, and compares its results within a relative and an absolute error for each type.
#[track_caller]
fn check_results(
    generated: &Generated,
    module: &Module,
    launch: &Launch<'_>,
    options: &Options,
    tolerance: &dyn Fn(DType) -> (f64, f64),
) {
    let Launch { dims, params, scalars, expected } = *launch;
    let shown = || format!("{dims:?}\n{}\n{}", generated.nest, generated.unit.source);
    let results = emulate::run(generated, module, dims, params, scalars, options)
        .unwrap_or_else(|it| panic!("{it}\n{}", shown()));
    for (result, expected) in results.iter().zip(expected) {
        let (rel, abs) = tolerance(result.dtype);
        assert_eq!(result.max_error(expected, rel, abs), None, "{}", shown());
    }
}

/// Checks the assembler's report: accumulators stay in registers, and instructions need not wait for
/// one another.
#[track_caller]
fn check_assembled(nvrtc: &Nvrtc, generated: &Generated) {
    let text = &generated.unit.source;
    let source = Source { name: "kernel.cu", text, arch: "sm_90a", options: &[] };
    let code = Compiler::new(nvrtc, None).compile(&source).unwrap();
    for it in &code.kernels {
        assert_eq!((it.spill_store_bytes, it.spill_load_bytes), (0, 0), "{it:?}\n{text}");
    }
    assert!(!code.remarks.iter().any(Remark::serializes), "{:?}\n{text}", code.remarks);
    assert_eq!(code.check_launches(generated), Ok(()), "{text}");
}
