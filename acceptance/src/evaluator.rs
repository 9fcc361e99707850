//! Checks and times candidates of a bundle on a GPU, in the tuner's workers: launched as in a
//! user's program, in a process that may crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use tvmtune_cuda::Generated;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_tuner::compile::{Code, Compiler};
use tvmtune_tuner::measure::{CaseSpec, Gpu, Job, Measure, Measurer, Policy, WorkerCommand};

use crate::bundle;
use crate::candidate::{Candidate, Goal, Manifest};
use crate::evaluation::{Evaluation, Times};

/// Samples of a timed candidate.
const SAMPLES: usize = 25;
/// Copies before timing, and after it.
const COPIES: usize = 3;

/// See the module.
pub struct Evaluator {
    folder: PathBuf,
    measurer: Measurer,
    gpu: Gpu,
    /// The architecture of machine code in the bundle; empty if unknown.
    bundled: String,
    /// The time limit of a candidate.
    limit: Option<Duration>,
}

impl Evaluator {
    /// Returns the evaluator of the bundle in a folder; the inner error says why there is no GPU.
    ///
    /// # Errors
    ///
    /// If no worker can be started.
    pub fn new(folder: &Path, worker: WorkerCommand) -> Result<Result<Self, String>> {
        let mut measurer = Measurer::on_gpu(worker);
        let bundled = Manifest::read(folder).map(|it| it.arch).unwrap_or_default();
        let gpu = measurer.gpu()?;
        Ok(gpu.map(|gpu| {
            let folder = folder.to_owned();
            Self { folder, measurer, gpu, bundled, limit: None }
        }))
    }

    /// Gives up each candidate after this.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Returns the GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Returns the architecture of the GPU: `sm_90a`.
    pub fn arch(&self) -> Arch {
        let (major, minor) = self.gpu.capability;
        let sm = u32::from(major) * 10 + u32::from(minor);
        tvmtune_tuner::device::gpu_target(&self.gpu).map_or(Arch { sm, exact: false }, |it| it.arch)
    }

    /// Checks a candidate, and times it if that is the goal.
    ///
    /// # Errors
    ///
    /// If no worker can be started, or none holds the arguments.
    pub fn evaluate(&mut self, candidate: &Candidate) -> Result<Evaluation> {
        self.measurer.set_deadline(self.limit.map(|it| Instant::now() + it));
        let made = candidate.problem().and_then(|(case, problem)| {
            let generated = candidate.generate(&problem.dag)?;
            Ok((candidate.launches(case, &problem), problem, generated))
        });
        let (launches, problem, generated) = match made {
            Ok(made) => made,
            Err(why) => return Ok(Evaluation::Failed(why)),
        };
        let (code, arch) = match self.code(candidate, &generated) {
            Ok(code) => code,
            Err(why) => return Ok(Evaluation::Skipped(why)),
        };
        let cases: Vec<CaseSpec> = launches.iter().map(|it| problem.case(it)).collect();
        let job = Job::on_gpu(&generated, (&code, arch), &cases);
        self.measurer.set_up(&cases, None)?;
        for (n, case) in cases.iter().enumerate() {
            let results = match self.measurer.evaluate(&job, n)? {
                Ok(bytes) => case.results(&bytes),
                Err(outcome) => return Ok(outcome.into()),
            };
            let difference = match results {
                Some(results) => problem.difference(case, &results),
                None => Some("results of another size".to_owned()),
            };
            if let Some(difference) = difference {
                return Ok(Evaluation::Wrong(difference));
            }
        }
        match candidate.goal {
            Goal::Check => Ok(Evaluation::Right(cases.len())),
            Goal::Time => self.time(&job),
        }
    }

    /// Times a candidate that was checked, between copies within memory.
    fn time(&mut self, job: &Job) -> Result<Evaluation> {
        let mut copy_gbps = self.measurer.copy_gbps(COPIES)?.unwrap_or_default();
        let timings = self.measurer.compare(&[job], SAMPLES, &Policy::GPU)?;
        copy_gbps.extend(self.measurer.copy_gbps(COPIES)?.unwrap_or_default());
        Ok(match timings.map(|it| it.into_iter().next()) {
            Ok(Some(timing)) => {
                let samples_ns = timing.samples_ns().to_vec();
                Evaluation::Timed(Times { samples_ns, copy_gbps })
            }
            Ok(None) => Evaluation::Failed("no time".to_owned()),
            Err(outcome) => outcome.into(),
        })
    }

    /// Returns the code for this GPU: that of the bundle, or compiled by the NVRTC of this machine.
    fn code(&self, candidate: &Candidate, generated: &Generated) -> Result<(Code, Arch), String> {
        let bytes = fs::read(self.folder.join(&candidate.image)).unwrap_or_default();
        if candidate.image.ends_with(".ptx") {
            let ptx = String::from_utf8_lossy(&bytes).into_owned();
            let target =
                ptx_target(&ptx).ok_or_else(|| format!("`{}` is no PTX", candidate.image))?;
            return Ok((Code { ptx, ..Code::default() }, target));
        }
        let arch = self.arch();
        let is_for_it = self.bundled.is_empty() || self.bundled == arch.to_string();
        if is_for_it && !bytes.is_empty() {
            return Ok((Code { cubin: bytes, ..Code::default() }, arch));
        }
        let compiler = Compiler::of_machine(None)
            .ok_or_else(|| format!("no code for {arch} in the bundle, and no compiler"))?;
        let code = bundle::compile(&compiler, &candidate.case, generated, &arch.to_string())?;
        Ok((code, arch))
    }
}

/// Returns the target of PTX: `.target sm_90`.
fn ptx_target(text: &str) -> Option<Arch> {
    let line = text.lines().find_map(|it| it.strip_prefix(".target "))?;
    Arch::from_name(line.split([',', ' ']).next()?)
}
