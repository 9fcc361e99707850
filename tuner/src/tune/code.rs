//! Code of schedules, for a CPU or a GPU: the builder of candidates.
//!
//! In: the trace of a schedule. Out: [`Code`] that workers measure and records keep. Its [`Builder`]
//! calls `gpu_code`, which makes [`Code`] for GPUs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_plan::database::Files;
use tvmtune_plan::record::Image;
use tvmtune_runtime::cuda::nvrtc::{Nvrtc, NvrtcError};
use tvmtune_schedule::{Instruction, Schedule, Threads};

use super::gpu_code::GpuBuilder;
use crate::measure::{CaseSpec, Job, Policy};

/// Builds code for a target.
#[derive(Clone, Debug)]
pub(super) enum Builder {
    Cpu(CpuTarget),
    Gpu(GpuBuilder),
}

/// Makes the candidate of some code, for each of some cases.
type MakeJob = Box<dyn Fn(&[CaseSpec]) -> Job + Send>;

/// Code of a schedule.
pub(super) struct Code {
    /// Its identity.
    pub(super) artifact: ArtifactId,
    /// Threads of the host that run it.
    pub(super) threads: u32,
    pub(super) job: MakeJob,
}

/// The error of a target that no code can be built for.
#[derive(Debug, thiserror::Error)]
pub enum BuilderError {
    /// Nothing compiles for a GPU.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// This program generates no code for GPUs.
    #[error(
        "this program was built without the feature `cuda` of `tvmtune-build`; turn it on, or run \
         `cargo install cargo-tvmtune`"
    )]
    NoCuda,
}

impl Builder {
    /// Creates a builder; for GPUs, with an NVRTC or that of this machine.
    pub(super) fn new(target: Target, nvrtc: Option<&'static Nvrtc>) -> Result<Self, BuilderError> {
        Ok(match target {
            Target::Cpu(cpu) => Builder::Cpu(cpu),
            Target::Gpu(gpu) => Builder::Gpu(GpuBuilder::new(gpu, nvrtc)?),
        })
    }

    pub(super) fn target(&self) -> Target {
        match self {
            Builder::Cpu(cpu) => (*cpu).into(),
            Builder::Gpu(gpu) => gpu.target().into(),
        }
    }

    /// Returns how candidates are timed there.
    pub(super) fn policy(&self) -> Policy {
        match self {
            Builder::Cpu(_) => Policy::default(),
            Builder::Gpu(_) => Policy::GPU,
        }
    }

    /// Builds the code of a trace.
    ///
    /// A panic on the way is a bug of ours, and still costs no more than the candidate.
    pub(super) fn build(&self, dag: &Dag, trace: &[Instruction]) -> Result<Code, String> {
        let build = || {
            let schedule = Schedule::replay(dag, trace).map_err(|it| it.to_string())?;
            match self {
                Builder::Cpu(cpu) => {
                    let generated = tvmtune_cpu::generate(&schedule, cpu.isa);
                    let generated = generated.map_err(|it| it.to_string())?;
                    let is_parallel = generated.kernel.threads == Threads::All;
                    Ok(Code {
                        artifact: generated.artifact,
                        threads: if is_parallel { cpu.threads } else { 1 },
                        job: Box::new(move |cases| Job::on_cpu(&generated, cases)),
                    })
                }
                Builder::Gpu(gpu) => gpu.build(&schedule),
            }
        };
        let panicked = |_| Err("the code generator panicked; please report this".to_owned());
        catch_unwind(AssertUnwindSafe(build)).unwrap_or_else(panicked)
    }

    /// Compiles the code of a trace as records keep it: for GPUs also for later architectures, so
    /// that a user of the record needs no compiler. Its files are added to `files`.
    pub(super) fn images(
        &self,
        dag: &Dag,
        trace: &[Instruction],
        files: &mut Files,
    ) -> Result<Vec<Image>, String> {
        let Builder::Gpu(gpu) = self else { return Ok(Vec::new()) };
        let schedule = Schedule::replay(dag, trace).map_err(|it| it.to_string())?;
        gpu.images(&dag.name, &schedule, files)
    }
}

impl Code {
    /// Returns the candidate, for each of the cases.
    pub(super) fn job(&self, cases: &[CaseSpec]) -> Job {
        (self.job)(cases)
    }
}
