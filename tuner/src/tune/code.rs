//! Code of schedules, for a CPU or a GPU: what is measured, and what records keep of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tvmtune_cpu::Generated;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::{CpuTarget, GpuTarget, Target};
use tvmtune_plan::record::Image;
use tvmtune_runtime::cuda::nvrtc::{Nvrtc, NvrtcError};
use tvmtune_schedule::{Instruction, Schedule, Threads};
use tvmtune_space::fits::gpu::fits;

use crate::compile::{self, Compiler};
use crate::measure::{CaseSpec, Job, Policy};
use tvmtune_plan::database::Files;

/// Builds code for a target.
#[derive(Clone, Debug)]
pub(super) enum Builder {
    Cpu(CpuTarget),
    Gpu(GpuTarget, Compiler<'static>),
}

/// Code of a schedule.
#[derive(Clone, Debug)]
pub(super) enum Code {
    Cpu(Box<Generated>),
    Gpu(Box<tvmtune_cuda::Generated>, compile::Code, GpuTarget),
}

impl Builder {
    /// For GPUs, with an NVRTC or that of this machine.
    pub(super) fn new(target: Target, nvrtc: Option<&'static Nvrtc>) -> Result<Self, NvrtcError> {
        Ok(match target {
            Target::Cpu(cpu) => Builder::Cpu(cpu),
            Target::Gpu(gpu) => {
                let nvrtc = nvrtc.map_or_else(Nvrtc::get, Ok)?;
                // Candidates are compiled once each, and there are thousands.
                Builder::Gpu(gpu, Compiler::new(nvrtc, None))
            }
        })
    }

    pub(super) fn target(&self) -> Target {
        match self {
            Builder::Cpu(cpu) => (*cpu).into(),
            Builder::Gpu(gpu, _) => (*gpu).into(),
        }
    }

    /// How candidates are timed there.
    pub(super) fn policy(&self) -> Policy {
        match self {
            Builder::Cpu(_) => Policy::default(),
            Builder::Gpu(..) => Policy::GPU,
        }
    }

    /// The code of a trace.
    ///
    /// A panic on the way is a bug of ours, and still costs no more than the candidate.
    pub(super) fn build(&self, dag: &Dag, trace: &[Instruction]) -> Result<Code, String> {
        let build = || {
            let schedule = Schedule::replay(dag, trace).map_err(|it| it.to_string())?;
            match self {
                Builder::Cpu(cpu) => on_cpu(&schedule, cpu),
                Builder::Gpu(gpu, compiler) => on_gpu(&schedule, gpu, compiler),
            }
        };
        let panicked = |_| Err("the code generator panicked; please report this".to_owned());
        catch_unwind(AssertUnwindSafe(build)).unwrap_or_else(panicked)
    }

    /// The code of a trace as records keep it: for GPUs also for those that come after, so that
    /// whoever gets the record needs no compiler. Its files are added to `files`.
    pub(super) fn images(
        &self,
        dag: &Dag,
        trace: &[Instruction],
        files: &mut Files,
    ) -> Result<Vec<Image>, String> {
        let Builder::Gpu(gpu, compiler) = self else { return Ok(Vec::new()) };
        let schedule = Schedule::replay(dag, trace).map_err(|it| it.to_string())?;
        let generated = tvmtune_cuda::generate(&schedule).map_err(|it| it.to_string())?;
        let source = (&*format!("{}.cu", dag.name), &*generated.unit.source);
        compiler.images(source, gpu.arch, files).map_err(|it| it.to_string())
    }
}

fn on_cpu(schedule: &Schedule, cpu: &CpuTarget) -> Result<Code, String> {
    let generated = tvmtune_cpu::generate(schedule, cpu.isa).map_err(|it| it.to_string())?;
    Ok(Code::Cpu(Box::new(generated)))
}

fn on_gpu(schedule: &Schedule, gpu: &GpuTarget, compiler: &Compiler<'_>) -> Result<Code, String> {
    let generated = tvmtune_cuda::generate(schedule).map_err(|it| it.to_string())?;
    let misfits = fits(&generated.grid, gpu).err().unwrap_or_default();
    if let Some(misfit) = misfits.into_iter().find(|it| !it.runs()) {
        return Err(format!("it does not fit {}: {misfit}", gpu.arch));
    }
    let (arch, text) = (gpu.arch.to_string(), &generated.unit.source);
    let source = compile::Source { name: "candidate.cu", text, arch: &arch, options: &[] };
    let code = compiler.compile(&source).map_err(|it| it.to_string())?;
    match code.verdict() {
        Some(verdict) => Err(verdict.to_string()),
        None => Ok(Code::Gpu(Box::new(generated), code, *gpu)),
    }
}

impl Code {
    /// Its identity.
    pub(super) fn artifact(&self) -> &str {
        match self {
            Code::Cpu(it) => &it.artifact.0,
            Code::Gpu(it, ..) => &it.artifact.0,
        }
    }

    /// The candidate, for each of the cases.
    pub(super) fn job(&self, cases: &[CaseSpec]) -> Job {
        match self {
            Code::Cpu(it) => Job::on_cpu(it, cases),
            Code::Gpu(it, code, gpu) => Job::on_gpu(it, (code, gpu.arch), cases),
        }
    }

    /// Threads of the host that run it, of those that a target has.
    pub(super) fn threads(&self, target: &Target) -> u32 {
        match (self, target) {
            (Code::Cpu(it), Target::Cpu(cpu)) if it.kernel.threads == Threads::All => cpu.threads,
            _ => 1,
        }
    }
}
