//! The candidates of a bundle, with their code and their predictions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tvmtune_cuda::Generated;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::record::{GENERATOR, Source};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::fits::gpu::fits;
use tvmtune_space::work::Work;
use tvmtune_tuner::compile::Code;
use tvmtune_tuner::cost::gpu::{Estimate, estimate_at};

use crate::case::{self, Case};
use crate::problem::Problem;

/// The name of the list in a bundle.
const MANIFEST: &str = "items.json";

/// The manifest of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the code generator: another one makes other code of the same trace.
    pub generator: u32,
    /// The architecture of the images: `sm_90a`.
    pub arch: String,
    /// The version of NVRTC: `13.2`.
    pub nvrtc: String,
    /// The candidates, in the order of their evaluation.
    #[serde(rename = "items")]
    pub candidates: Vec<Candidate>,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The goal of its evaluation.
    pub goal: Goal,
    /// The case.
    pub case: String,
    /// Its extents, as `dims(..)` has them.
    pub dims: String,
    /// The proposer of the schedule.
    pub source: Source,
    /// The primitives that make it, one a line.
    pub trace: Vec<String>,
    /// The identity of its source.
    pub artifact: String,
    /// The file with its code, below the folder of the bundle.
    pub image: String,
    /// The prediction of the analytic cost model.
    pub predicted: Option<Prediction>,
    /// Floating-point operations of a launch.
    pub flops: f64,
    /// Bytes of parameters and results.
    pub bytes: f64,
}

/// The goal of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// It is compared with the interpreter, at several extents.
    Check,
    /// Some of its results are compared, then it is timed.
    Time,
}

/// The prediction of the analytic cost model for a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// All kernels, one after the other.
    pub ns: f64,
    /// Each kernel.
    pub kernels: Vec<PredictedKernel>,
}

/// The prediction for a kernel, and its resources as compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedKernel {
    /// With the launch.
    pub ns: f64,
    /// The bound of the kernel.
    pub bound: String,
    /// Of a thread, as compiled.
    pub registers: u32,
    /// Bytes of a thread in memory, for want of registers or to be indexed.
    pub frame_bytes: u32,
    /// Of a block.
    pub threads: u32,
    /// Of a block.
    pub shared_bytes: u32,
    /// Blocks that are resident on one multiprocessor.
    pub occupancy: u32,
    /// Waves of blocks.
    pub waves: u64,
}

impl Manifest {
    /// The list of a bundle.
    ///
    /// # Errors
    ///
    /// If there is none, or it was made by another version.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).with_context(|| format!("`{}`", path.display()))?;
        let manifest: Self =
            serde_json::from_slice(&text).with_context(|| format!("`{}`", path.display()))?;
        let made = manifest.generator;
        ensure!(made == GENERATOR, "generator {made} made this bundle, and this is {GENERATOR}");
        Ok(manifest)
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        Ok(fs::write(folder.join(MANIFEST), text)?)
    }
}

impl Candidate {
    /// Returns a candidate with its compiled code and its prediction.
    pub fn new(parts: &NewCandidate<'_>) -> Self {
        let NewCandidate { problem, schedule, generated, code, .. } = *parts;
        let largest = problem.largest();
        let work = Work::of(&problem.dag, &largest);
        let artifact = generated.artifact.to_string();
        let extension = if code.cubin.is_empty() { "ptx" } else { "cubin" };
        Self {
            goal: parts.goal,
            case: parts.case.to_owned(),
            dims: parts.dims.to_owned(),
            source: parts.source,
            trace: schedule.trace.iter().map(ToString::to_string).collect(),
            image: image_path(&artifact, extension),
            artifact,
            predicted: Some(prediction(generated, code, parts.target, &largest)),
            flops: work.flops,
            bytes: work.bytes,
        }
    }

    /// Returns the case and the program of the candidate.
    ///
    /// # Errors
    ///
    /// If there is no such case.
    pub fn problem(&self) -> Result<(&'static Case, Problem), String> {
        let case = case::named(&self.case).ok_or_else(|| format!("no case `{}`", self.case))?;
        Ok((case, Problem::new(case, &self.dims)?))
    }

    /// The code of its trace.
    ///
    /// # Errors
    ///
    /// If the trace does not apply, or makes other code than it did.
    pub fn generate(&self, dag: &Dag) -> Result<Generated, String> {
        let line = |it: &String| it.parse::<Instruction>().map_err(|it| it.to_string());
        let trace = self.trace.iter().map(line).collect::<Result<Vec<_>, _>>()?;
        let schedule = Schedule::replay(dag, &trace).map_err(|it| it.to_string())?;
        let generated = tvmtune_cuda::generate(&schedule).map_err(|it| it.to_string())?;
        match generated.artifact.to_string() == self.artifact {
            true => Ok(generated),
            false => Err("its trace makes other code than was compiled".to_owned()),
        }
    }

    /// The extents at which it is launched.
    pub fn launches(&self, case: &Case, problem: &Problem) -> Vec<Vec<i64>> {
        match self.goal {
            Goal::Time => vec![problem.largest()],
            Goal::Check => {
                let checks = case.checks.iter().filter(|it| it.dims == self.dims);
                checks.flat_map(|it| it.at).map(|it| it.to_vec()).collect()
            }
        }
    }

    /// Returns the name of the candidate in listings.
    pub fn title(&self) -> String {
        let Self { case, dims, source, artifact, .. } = self;
        format!("{case} [{dims}] {source} {}", &artifact[..8.min(artifact.len())])
    }
}

/// The code of a schedule, if the target can run it.
///
/// # Errors
///
/// The reason why there is no code, or why the code does not run there.
pub fn generate(schedule: &Schedule, target: &GpuTarget) -> Result<Generated, String> {
    let generated = tvmtune_cuda::generate(schedule).map_err(|it| it.to_string())?;
    let misfits = fits(&generated.grid, target).err().unwrap_or_default();
    match misfits.into_iter().find(|it| !it.runs()) {
        None => Ok(generated),
        Some(misfit) => Err(format!("it does not fit {}: {misfit}", target.arch)),
    }
}

/// The parts of a new candidate.
#[derive(Clone, Copy)]
pub struct NewCandidate<'a> {
    /// The purpose of the candidate.
    pub goal: Goal,
    /// The name of the case.
    pub case: &'a str,
    /// Its extents, as `dims(..)` has them.
    pub dims: &'a str,
    /// The case at these extents.
    pub problem: &'a Problem,
    /// The proposer of the schedule.
    pub source: Source,
    /// The schedule.
    pub schedule: &'a Schedule,
    /// Its generated source.
    pub generated: &'a Generated,
    /// Its compiled code.
    pub code: &'a Code,
    /// The target of the code.
    pub target: &'a GpuTarget,
}

/// Returns the path of an artifact's code, below the folder of a bundle.
pub fn image_path(artifact: &str, extension: &str) -> String {
    format!("images/{}.{extension}", &artifact[..16.min(artifact.len())])
}

fn prediction(generated: &Generated, code: &Code, target: &GpuTarget, dims: &[i64]) -> Prediction {
    let entries = &generated.unit.entries;
    let usage = |name: &str| code.usage(name).cloned().unwrap_or_default();
    // PTX tells nothing of registers: the model guesses them.
    let known: Vec<u32> = match code.cubin.is_empty() {
        true => Vec::new(),
        false => entries.iter().map(|it| usage(&it.name).registers).collect(),
    };
    let Estimate { ns, kernels } = estimate_at(&generated.grid, target, dims, &known);
    let kernel = |(it, entry): (_, &tvmtune_cuda::codegen::Entry)| {
        let tvmtune_tuner::cost::gpu::KernelEstimate {
            ns, bound, registers, occupancy, waves, ..
        } = it;
        PredictedKernel {
            ns,
            bound: bound.to_string(),
            registers,
            frame_bytes: usage(&entry.name).frame_bytes,
            threads: entry.n_threads(),
            shared_bytes: entry.shared_bytes,
            occupancy,
            waves,
        }
    };
    Prediction { ns, kernels: kernels.into_iter().zip(entries).map(kernel).collect() }
}
