//! Code of schedules for GPUs: CUDA C++, compiled by NVRTC.

use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::database::Files;
use tvmtune_plan::record::Image;
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_schedule::Schedule;
use tvmtune_space::fits::gpu::fits;

use super::code::{BuilderError, Code};
use crate::compile::{self, Compiler};
use crate::measure::{CaseSpec, Job};

/// Builds code for a GPU.
#[derive(Clone, Debug)]
pub(super) struct GpuBuilder {
    target: GpuTarget,
    compiler: Compiler<'static>,
}

impl GpuBuilder {
    /// Creates a builder with an NVRTC, or that of this machine.
    pub(super) fn new(
        target: GpuTarget,
        nvrtc: Option<&'static Nvrtc>,
    ) -> Result<Self, BuilderError> {
        let nvrtc = nvrtc.map_or_else(Nvrtc::get, Ok)?;
        // Candidates are compiled once each, and there are thousands: they are not cached.
        Ok(Self { target, compiler: Compiler::new(nvrtc, None) })
    }

    pub(super) fn target(&self) -> GpuTarget {
        self.target
    }

    /// Generates and compiles the code of a schedule.
    pub(super) fn build(&self, schedule: &Schedule) -> Result<Code, String> {
        let generated = tvmtune_cuda::generate(schedule).map_err(|it| it.to_string())?;
        let misfits = fits(&generated.grid, &self.target).err().unwrap_or_default();
        let arch = self.target.arch.to_string();
        if let Some(misfit) = misfits.into_iter().find(|it| !it.runs()) {
            return Err(format!("it does not fit {arch}: {misfit}"));
        }
        let text = &generated.unit.source;
        let source = compile::Source { name: "candidate.cu", text, arch: &arch, options: &[] };
        let compiled = self.compiler.compile(&source).map_err(|it| it.to_string())?;
        compiled.check_launches(&generated).map_err(|it| it.to_string())?;
        if let Some(verdict) = compiled.verdict() {
            return Err(verdict.to_string());
        }
        let (artifact, arch) = (generated.artifact, self.target.arch);
        let job = move |cases: &[CaseSpec]| Job::on_gpu(&generated, (&compiled, arch), cases);
        Ok(Code { artifact, threads: 1, job: Box::new(job) })
    }

    /// Compiles the images that a record keeps, and adds them and their source to `files`.
    pub(super) fn images(
        &self,
        name: &str,
        schedule: &Schedule,
        files: &mut Files,
    ) -> Result<Vec<Image>, String> {
        let generated = tvmtune_cuda::generate(schedule).map_err(|it| it.to_string())?;
        let source = (&*format!("{name}.cu"), &generated);
        files.add_source(&generated.artifact, &generated.unit.source);
        self.compiler.images(source, self.target.arch, files).map_err(|it| it.to_string())
    }
}
